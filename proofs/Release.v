(** The Frobenius mechanism: noisy coordinates up to where a rule on the noisy numbers ends each
    arm. *)

From Coq Require Import Arith Bool List Lia ZArith Reals Lra.
From Proofs Require Import Lists Users.
Import ListNotations.

(** ** Where an arm ends

    A rule looks at the noisy numbers drawn so far, first to last, and says whether the arm ends
    there. *)

Definition rule := list Z -> bool.

(** The prefix that a rule releases of numbers that were drawn after [before]; None if it needs
    more. *)
Fixpoint released_after (ends : rule) (before drawn : list Z) : option (list Z) :=
  if ends before then Some before
  else match drawn with
       | [] => None
       | z :: later => released_after ends (before ++ [z]) later
       end.
Definition released (ends : rule) : list Z -> option (list Z) := released_after ends [].

(** What is released does not change if more numbers are drawn: batches of any size release the same
    prefix.
    Python: [dp_transforms.mechanisms.partition.frobenius.FrobeniusMechanism._draw] *)
Theorem more_numbers_do_not_change_the_prefix ends drawn more z :
  released ends drawn = Some z -> released ends (drawn ++ more) = Some z.
Proof.
  unfold released. generalize (@nil Z) as before. induction drawn as [|d drawn IH]; intros before;
    simpl; destruct (ends before) eqn:now; intros done.
  - destruct more; simpl; rewrite now; exact done.
  - discriminate.
  - exact done.
  - apply IH, done.
Qed.

(** The rule of the product, in integers: S_k = (2 min(z, 1) - 1) + ... + (2 min(z', k) - k) over
    the last k numbers z, ..., z', the last one first. Numbers are cut off at 0 and m, and m
    stands in front of the first. *)
Fixpoint statistic (m : nat) (last_first : list Z) (t k : nat) : Z :=
  match k with
  | 0 => 0
  | S k =>
      let z := match last_first with
               | [] => Z.of_nat m
               | z :: _ => Z.max 0 (Z.min z (Z.of_nat m))
               end in
      2 * Z.min z (Z.of_nat t) - Z.of_nat t + statistic m (tl last_first) (S t) k
  end.

(** Ends an arm whose length is a positive multiple of [stride] if S_k <= -refuted for some k from 1
    to m.
    Python: [dp_transforms.mechanisms.partition.frobenius.EndingRule] *)
Definition ending_rule (m stride : nat) (refuted : Z) : rule := fun drawn =>
  (0 <? length drawn) && (length drawn mod stride =? 0)
  && existsb (fun k => statistic m (rev drawn) 1 k <=? - refuted)%Z (seq 1 m).

(** The integers of the rule are the exponents of its likelihood ratio.
    Python: [dp_transforms.mechanisms.partition.frobenius.EndingRule.end] *)
Theorem the_rule_is_a_likelihood_ratio (m t z : Z) :
  (0 <= t <= m -> 2 * Z.min (Z.max 0 (Z.min z m)) t - t = Z.abs z - Z.abs (z - t))%Z.
Proof. lia. Qed.

(** ** Probabilities *)

Local Open Scope R_scope.

(** Pr[n] = (1 - q) / (1 + q) q^|n| *)
Definition noise (q : R) (n : Z) : R := (1 - q) / (1 + q) * q ^ Z.abs_nat n.

(** The probability that, after the noisy numbers [before], an arm of these coordinates goes on
    with exactly the numbers z and ends: one number after the other, each with noise of its own,
    until the rule ends the arm. *)
Fixpoint chance_after (q : R) (ends : rule) (coordinates : nat -> nat) (before z : list Z) : R :=
  match z with
  | [] => if ends before then 1 else 0
  | n :: later =>
      if ends before then 0
      else noise q (n - Z.of_nat (coordinates (S (length before))))
           * chance_after q ends coordinates (before ++ [n]) later
  end.
Definition chance q ends coordinates : list Z -> R := chance_after q ends coordinates [].

(** The probability that the mechanism releases the pair (z, w) for the private list X. *)
Definition release_chance
    (q : R) (ends_rows ends_columns : rule) (X : list nat) (outcome : list Z * list Z) : R :=
  chance q ends_rows (rows X) (fst outcome) * chance q ends_columns (columns X) (snd outcome).

(** The probability of a finite set of pairs *)
Fixpoint event_chance q ends_rows ends_columns X (event : list (list Z * list Z)) : R :=
  match event with
  | [] => 0
  | outcome :: others =>
      release_chance q ends_rows ends_columns X outcome
      + event_chance q ends_rows ends_columns X others
  end.

(** The product of the noise's probabilities over z, whose first number is of coordinate [first]. *)
Fixpoint weight (q : R) (coordinates : nat -> nat) (first : nat) (z : list Z) : R :=
  match z with
  | [] => 1
  | n :: later => noise q (n - Z.of_nat (coordinates first)) * weight q coordinates (S first) later
  end.

Section Ratio.

Variable q : R.
Hypothesis positive : 0 < q.
Hypothesis below_one : q < 1.

(** The noise of all numbers from -m to m *)
Fixpoint noise_up_to (m : nat) : R :=
  match m with
  | O => noise q 0
  | S k => noise_up_to k + noise q (Z.of_nat m) + noise q (- Z.of_nat m)
  end.

(** The probabilities of the noise sum to 1: what is missing beyond m vanishes as m grows.
    Python: [dp_transforms.mechanisms.discrete_noise.DiscreteLaplace],
    [dp_transforms.mechanisms.discrete_noise.TwoSidedGeometric] *)
Theorem the_noise_is_a_distribution m : noise_up_to m = 1 - 2 * q ^ S m / (1 + q).
Proof.
  induction m as [|m IH]; cbn [noise_up_to]; [|rewrite IH]; unfold noise.
  - simpl. field. lra.
  - replace (Z.abs_nat (Z.of_nat (S m))) with (S m) by lia.
    replace (Z.abs_nat (- Z.of_nat (S m))) with (S m) by lia.
    simpl. field. lra.
Qed.

Lemma noise_positive n : 0 < noise q n.
Proof.
  unfold noise. apply Rmult_lt_0_compat; [|now apply pow_lt].
  apply Rdiv_lt_0_compat; lra.
Qed.

Lemma larger_power m n : (m <= n)%nat -> q ^ n <= q ^ m.
Proof.
  intros less. replace n with (m + (n - m))%nat by lia. rewrite pow_add.
  rewrite <- (Rmult_1_r (q ^ m)) at 2. apply Rmult_le_compat_l; [apply pow_le; lra|].
  rewrite <- (pow1 (n - m)). apply pow_incr. lra.
Qed.

(** Moving a coordinate by d changes the probability of a number by a factor of at most q^-d. *)
Lemma noise_moved n a b : q ^ dist a b * noise q (n - Z.of_nat a) <= noise q (n - Z.of_nat b).
Proof.
  unfold noise. rewrite <- Rmult_assoc, (Rmult_comm (q ^ _)), Rmult_assoc, <- pow_add.
  apply Rmult_le_compat_l.
  - apply Rlt_le, Rdiv_lt_0_compat; lra.
  - apply larger_power. unfold dist. lia.
Qed.

Lemma weight_positive coordinates first z : 0 < weight q coordinates first z.
Proof.
  revert first. induction z as [|n z IH]; intros first; simpl; [lra|].
  apply Rmult_lt_0_compat; auto using noise_positive.
Qed.

Lemma the_end_after ends coordinates z : forall before,
  (released_after ends before z = Some (before ++ z)%list ->
   chance_after q ends coordinates before z = weight q coordinates (S (length before)) z) /\
  (released_after ends before z <> Some (before ++ z)%list ->
   chance_after q ends coordinates before z = 0).
Proof.
  induction z as [|n z IH]; intros before; simpl; rewrite ?app_nil_r.
  - destruct (ends before); split; intros; congruence || reflexivity.
  - destruct (ends before).
    + split; intros same; [exfalso|reflexivity].
      apply (f_equal (fun found => match found with Some s => length s | None => O end)) in same.
      rewrite app_length in same. simpl in same. lia.
    + destruct (IH (before ++ [n])%list) as [product zero].
      rewrite <- app_assoc, app_length, Nat.add_1_r in *. simpl in product, zero.
      split; intros same; [rewrite product by exact same|rewrite zero by exact same]; ring.
Qed.

(** The probability of a prefix is a product of weights of the noise, or 0 for every list alike:
    whether the rule ends an arm there is a function of the noisy numbers alone.
    Python: [dp_transforms.mechanisms.partition.frobenius.EndingRule.end],
    [dp_transforms.mechanisms.partition.frobenius.FrobeniusMechanism._draw] *)
Theorem the_end_depends_on_noisy_numbers_alone ends coordinates z :
  (released ends z = Some z -> chance q ends coordinates z = weight q coordinates 1 z) /\
  (released ends z <> Some z -> chance q ends coordinates z = 0).
Proof. exact (the_end_after ends coordinates z []). Qed.

Lemma sum_shifted k n F :
  sum (S n) (fun i => F (k + i)%nat) = (F (S k) + sum n (fun i => F (S k + i)))%nat.
Proof.
  induction n as [|n IH]; [simpl; rewrite Nat.add_1_r; lia|].
  cbn [sum] in *. rewrite IH. replace (k + S (S n))%nat with (S k + S n)%nat by lia. lia.
Qed.

(** Coordinates that move by d in total change a product of weights by a factor of at most q^-d. *)
Lemma weight_moved a b k z :
  q ^ sum (length z) (fun i => dist (a (k + i)%nat) (b (k + i)%nat)) * weight q a (S k) z
  <= weight q b (S k) z.
Proof.
  revert k. induction z as [|n z IH]; intros k; [simpl; lra|].
  cbn [length]. rewrite (sum_shifted k (length z) (fun i => dist (a i) (b i))), pow_add.
  cbn [weight].
  set (d := q ^ dist _ _). set (e := q ^ sum _ _).
  replace (d * e * (_ * _))
    with (d * noise q (n - Z.of_nat (a (S k))) * (e * weight q a (S (S k)) z)) by ring.
  apply Rmult_le_compat.
  - apply Rmult_le_pos; [apply pow_le; lra|apply Rlt_le, noise_positive].
  - apply Rmult_le_pos; [apply pow_le; lra|apply Rlt_le, weight_positive].
  - apply noise_moved.
  - apply IH.
Qed.

Lemma chance_nonnegative ends coordinates z : 0 <= chance q ends coordinates z.
Proof.
  unfold chance. generalize (@nil Z). induction z as [|n z IH]; intros before; simpl;
    destruct (ends before); try lra.
  apply Rmult_le_pos; [apply Rlt_le, noise_positive|apply IH].
Qed.

Lemma chance_moved ends a b z : q ^ l1 (length z) a b * chance q ends a z <= chance q ends b z.
Proof.
  destruct (the_end_depends_on_noisy_numbers_alone ends a z) as [product_a zero_a].
  destruct (the_end_depends_on_noisy_numbers_alone ends b z) as [product_b zero_b].
  assert (ending : {released ends z = Some z} + {released ends z <> Some z}).
  { repeat decide equality. }
  destruct ending.
  - rewrite product_a, product_b by assumption. apply (weight_moved a b 0).
  - rewrite zero_a, zero_b by assumption. lra.
Qed.

(** Lists whose coordinates are at most d apart release each pair with probabilities within q^-d. *)
Lemma release_moved ends_rows ends_columns X Y d z w :
  (l1 (length z) (rows X) (rows Y) + l1 (length w) (columns X) (columns Y) <= d)%nat ->
  q ^ d * release_chance q ends_rows ends_columns X (z, w)
  <= release_chance q ends_rows ends_columns Y (z, w).
Proof.
  intros near. unfold release_chance. cbn [fst snd].
  set (m := l1 _ _ _) in near. set (n := l1 _ _ _) in near.
  set (c := chance q ends_rows (rows X) z). set (e := chance q ends_columns (columns X) w).
  apply Rle_trans with (q ^ (m + n) * (c * e)).
  - apply Rmult_le_compat_r; [apply Rmult_le_pos; apply chance_nonnegative|now apply larger_power].
  - rewrite pow_add.
    replace (q ^ m * q ^ n * (c * e)) with ((q ^ m * c) * (q ^ n * e)) by ring.
    apply Rmult_le_compat; try apply chance_moved;
      apply Rmult_le_pos; apply chance_nonnegative || (apply pow_le; lra).
Qed.

End Ratio.

Lemma l1_symmetric n F G : l1 n F G = l1 n G F.
Proof. unfold l1. apply sum_equal. intros i _. unfold dist. lia. Qed.

(** The guarantee. Let [keep] be any way to bound a user's records, by these alone, to at most kappa
    partitions. Whatever the rules, adding or removing all records of one user changes the
    probability of every finite set of releases by a factor of at most q^-kappa, which is e^epsilon
    for q = e^(-epsilon / kappa).
    Python: [dp_transforms.mechanisms.partition.frobenius.FrobeniusMechanism],
    [dp_transforms.beam.contributions.BoundContributions],
    [dp_transforms.beam.release.ReleaseFrequencyList] *)
Theorem the_release_is_private
    q ends_rows ends_columns kappa (keep : user -> user) names before u after event :
  0 < q < 1 -> (forall records, (degree (keep records) <= kappa)%nat) ->
  let X := frequency_list (counts names (map keep (before ++ after))) in
  let Y := frequency_list (counts names (map keep (before ++ u :: after))) in
  let probability := fun L => event_chance q ends_rows ends_columns L event in
  q ^ kappa * probability X <= probability Y /\ q ^ kappa * probability Y <= probability X.
Proof.
  intros [positive below_one] bounded X Y probability.
  assert (near : forall R S, (l1 R (rows X) (rows Y) + l1 S (columns X) (columns Y) <= kappa)%nat).
  { intros. unfold X, Y. rewrite !map_app. cbn [map].
    apply a_user_moves_the_coordinates_by_at_most_kappa, bounded. }
  unfold probability. induction event as [|[z w] others [IH_added IH_removed]]; simpl; [lra|].
  pose proof (near (length z) (length w)) as added. pose proof added as removed.
  rewrite l1_symmetric, (l1_symmetric (length w)) in removed.
  apply (release_moved q positive below_one ends_rows ends_columns) in added, removed.
  rewrite !Rmult_plus_distr_l. split; apply Rplus_le_compat; assumption.
Qed.

(** No smaller epsilon holds. For every kappa, a user with kappa new partitions changes by q^-kappa
    the probability of each pair of prefixes that begin with numbers as large as the coordinates
    then are, if the rules end there.
    Python: [dp_transforms.mechanisms.partition.frobenius.FrobeniusMechanism] *)
Theorem the_bound_is_attained q ends_rows ends_columns kappa first z second w :
  0 < q < 1 -> (1 <= kappa)%nat -> (1 <= first)%Z -> (Z.of_nat kappa - 1 <= second)%Z ->
  released ends_rows (first :: z) = Some (first :: z) ->
  released ends_columns (second :: w) = Some (second :: w) ->
  let X := frequency_list (counts kappa []) in
  let Y := frequency_list (counts kappa [seq 0 kappa]) in
  let probability := fun L => release_chance q ends_rows ends_columns L (first :: z, second :: w) in
  0 < probability X /\ probability X = q ^ kappa * probability Y.
Proof.
  intros [positive below_one] some large_first large_second rows_end columns_end X Y probability.
  assert (none : forall i, (1 <= i)%nat -> at_least X i = 0%nat).
  { intros i first_rank. unfold X. rewrite at_least_of_frequency_list by assumption.
    unfold counts, at_least.
    induction (seq 0 kappa) as [|p ps IH]; [reflexivity|]. simpl. destruct i; [lia|]. exact IH. }
  assert (ones : forall i, (1 <= i)%nat -> at_least Y i = if i =? 1 then kappa else 0%nat).
  { intros i first_rank. unfold Y. rewrite at_least_of_frequency_list by assumption. unfold counts.
    rewrite (map_ext_in _ (fun _ => 1%nat)).
    - rewrite <- (seq_length kappa 0) at 2. induction (seq 0 kappa) as [|p ps IH].
      + destruct (i =? 1); reflexivity.
      + simpl map. rewrite at_least_of_cons, IH. destruct i as [|[|i]]; [lia| |]; reflexivity.
    - intros p inside. unfold count, has. cbn [filter].
      destruct (in_dec Nat.eq_dec p (seq 0 kappa)); [reflexivity|contradiction]. }
  assert (rank_X : forall i, (1 <= i)%nat -> rank X i = 0%nat).
  { intros i first_rank. destruct (Nat.eq_0_gt_0_cases (rank X i)) as [|more]; [assumption|].
    apply (ranks_and_numbers_of_partitions X i 1) in more; try lia; [|apply frequency_list_falls].
    rewrite none in more; lia. }
  assert (rank_Y : rank Y 1 = 1%nat).
  { pose proof (frequency_list_falls (counts kappa [seq 0 kappa])) as falls. fold Y in falls.
    pose proof (ranks_and_numbers_of_partitions Y 1 1 falls ltac:(lia) ltac:(lia)) as one.
    pose proof (ranks_and_numbers_of_partitions Y 1 2 falls ltac:(lia) ltac:(lia)) as two.
    rewrite ones in one, two by lia. simpl in one, two. lia. }
  assert (rank_beyond : forall i, (1 <= i)%nat -> (rank Y i <= 1)%nat).
  { intros i first_rank. destruct (Nat.le_gt_cases (rank Y i) 1) as [|more]; [assumption|].
    apply (ranks_and_numbers_of_partitions Y i 2) in more; try lia; [|apply frequency_list_falls].
    rewrite ones in more by lia. simpl in more. lia. }
  assert (same : forall a b k l,
    (forall i, (k <= i)%nat -> a i = b i) -> weight q a k l = weight q b k l).
  { intros a b k l. revert k. induction l as [|n l IH]; intros k equal; [reflexivity|]. simpl.
    rewrite equal by lia. f_equal. apply IH. intros. apply equal. lia. }
  assert (product : forall L,
    probability L = weight q (rows L) 1 (first :: z) * weight q (columns L) 1 (second :: w)).
  { intros L. unfold probability, release_chance. cbn [fst snd].
    now rewrite !(fun ends arm l => proj1 (the_end_depends_on_noisy_numbers_alone q ends arm l)). }
  assert (behind : forall i, (2 <= i)%nat -> rows X i = rows Y i /\ columns X i = columns Y i).
  { intros i second_rank. unfold rows, columns. rewrite rank_X, none, ones by lia.
    pose proof (rank_beyond i ltac:(lia)). destruct (Nat.eqb_spec i 1); lia. }
  split.
  - rewrite product. apply Rmult_lt_0_compat; apply weight_positive; assumption.
  - rewrite !product. cbn [weight].
    rewrite (same (rows X) (rows Y) 2%nat z), (same (columns X) (columns Y) 2%nat w)
      by apply behind.
    unfold rows at 1 3, columns at 1 3. rewrite rank_X, rank_Y, none, ones by lia. cbn [Nat.eqb].
    unfold noise.
    replace (Z.abs_nat (first - Z.of_nat (0 + 1 - 1)))
      with (1 + Z.abs_nat (first - Z.of_nat (1 + 1 - 1)))%nat by lia.
    replace (Z.abs_nat (second - Z.of_nat (0 - 1)))
      with (kappa - 1 + Z.abs_nat (second - Z.of_nat (kappa - 1)))%nat by lia.
    rewrite !pow_add.
    replace (q ^ kappa) with (q ^ 1 * q ^ (kappa - 1)) by (rewrite <- pow_add; f_equal; lia).
    ring.
Qed.

(** The same in terms of epsilon: q = e^(-epsilon / kappa).
    Python: [dp_transforms.mechanisms.decay.Decay],
    [dp_transforms.mechanisms.partition.frobenius.FrobeniusMechanism] *)
Theorem the_release_is_epsilon_private
    epsilon ends_rows ends_columns kappa (keep : user -> user) names before u after event :
  0 < epsilon -> (0 < kappa)%nat -> (forall records, (degree (keep records) <= kappa)%nat) ->
  let X := frequency_list (counts names (map keep (before ++ after))) in
  let Y := frequency_list (counts names (map keep (before ++ u :: after))) in
  let q := exp (- (epsilon / INR kappa)) in
  let probability := fun L => event_chance q ends_rows ends_columns L event in
  probability X <= exp epsilon * probability Y /\ probability Y <= exp epsilon * probability X.
Proof.
  intros some many bounded X Y q probability.
  assert (INR kappa > 0) by (apply lt_0_INR; exact many).
  assert (0 < epsilon / INR kappa) by (apply Rdiv_lt_0_compat; lra).
  assert (whole : exp epsilon * q ^ kappa = 1).
  { assert (power : forall x n, exp x ^ n = exp (INR n * x)).
    { intros x n. induction n as [|n IH]; [simpl; now rewrite Rmult_0_l, exp_0|].
      rewrite S_INR. simpl. rewrite IH, <- exp_plus. f_equal. ring. }
    unfold q. rewrite power, <- exp_plus, <- exp_0. f_equal. field. lra. }
  destruct (the_release_is_private q ends_rows ends_columns kappa keep names before u after event)
    as [added removed].
  { unfold q. split; [apply exp_pos|]. rewrite <- exp_0. apply exp_increasing. lra. }
  { exact bounded. }
  fold X Y in added, removed. fold (probability X) (probability Y) in added, removed.
  pose proof (exp_pos epsilon).
  split; rewrite <- Rmult_1_l at 1; rewrite <- whole, Rmult_assoc; apply Rmult_le_compat_l;
    lra || assumption.
Qed.
