(** What bounded records prove about all records.

    y_p is the count of partition p in bounded records and n_p in all of them, H the number of
    users with more than kappa partitions, and M the number of pairs of a user and a partition
    that bounding dropped. *)

From Coq Require Import Arith Bool Lia List Permutation Sorted.
From Proofs Require Import Lists Users.
Import ListNotations.

(** A bound keeps some partitions of each user's, by that user's records alone, and all if they
    are few. *)
Definition bounds (kappa : nat) (keep : user -> user) : Prop :=
  forall u, incl (keep u) u /\ (degree u <= kappa -> incl u (keep u)).

Definition users_above (kappa : nat) (data : list user) : nat :=
  length (filter (fun u => kappa <? degree u) data).

Lemma has_in p u : has p u = true <-> In p u.
Proof. unfold has. destruct (in_dec Nat.eq_dec p u); split; congruence || tauto. Qed.

Lemma count_of_cons u data p : count (u :: data) p = (if has p u then 1 else 0) + count data p.
Proof. unfold count. simpl. destruct (has p u); reflexivity. Qed.

(** y_p <= n_p <= y_p + H for every partition.
    Python: [dp_transforms.columnar.bounding.distinct_pairs] *)
Theorem counts_of_bounded_and_of_all_records kappa keep data p :
  bounds kappa keep ->
  count (map keep data) p <= count data p <= count (map keep data) p + users_above kappa data.
Proof.
  intros bound. unfold users_above. induction data as [|u data IH]; [unfold count; simpl; lia|].
  simpl map. rewrite !count_of_cons. simpl filter. destruct (bound u) as [kept whole].
  assert (added : has p (keep u) = true -> has p u = true) by (rewrite !has_in; apply kept).
  assert (lost : degree u <= kappa -> has p u = true -> has p (keep u) = true).
  { rewrite !has_in. intros few. exact (whole few p). }
  destruct (Nat.ltb_spec kappa (degree u)), (has p u), (has p (keep u)); simpl;
    lia || (intuition discriminate).
Qed.

(** Pairs of a user and a partition, each once *)
Definition pairs (data : list user) : nat := list_sum (map degree data).

Lemma total_of_sums names F G : total names (fun p => F p + G p) = total names F + total names G.
Proof. unfold total. induction names; simpl; lia. Qed.

Lemma every_partition_of_a_user names u :
  (forall p, In p u -> p < names) ->
  total (seq 0 names) (fun p => if has p u then 1 else 0) = degree u.
Proof.
  intros below. transitivity (length (filter (fun p => has p u) (seq 0 names))).
  { unfold total. induction (seq 0 names) as [|p ps IH]; simpl; [|destruct (has p u); simpl]; lia. }
  apply Permutation_length, NoDup_Permutation; auto using NoDup_filter, seq_NoDup, NoDup_nodup.
  intros p. rewrite filter_In, in_seq, has_in, nodup_In. specialize (below p). intuition lia.
Qed.

(** Counts add up to the number of pairs of a user and a partition.
    Python: [dp_transforms.mechanisms.frequency_list.FrequencyList.total] *)
Theorem counts_add_up_to_pairs names data :
  (forall u p, In u data -> In p u -> p < names) -> total (seq 0 names) (count data) = pairs data.
Proof.
  induction data as [|u data IH]; intros below.
  - unfold pairs, total, count. induction (seq 0 names); simpl; auto.
  - transitivity (total (seq 0 names) (fun p => (if has p u then 1 else 0) + count data p)).
    { unfold total. f_equal. apply map_ext. intros p. apply count_of_cons. }
    rewrite total_of_sums, every_partition_of_a_user, IH.
    + reflexivity.
    + intros other p inside. apply below. now right.
    + intros p. apply below. now left.
Qed.

(** The sum of all n_p - y_p is M: the total of all records is that of bounded ones and M.
    Python: [dp_transforms.columnar.bounding.distinct_pairs] *)
Theorem dropped_pairs_are_the_missing_counts kappa keep names data :
  bounds kappa keep -> (forall u p, In u data -> In p u -> p < names) ->
  total (seq 0 names) (fun p => count data p - count (map keep data) p) + pairs (map keep data)
  = pairs data.
Proof.
  intros bound below.
  rewrite <- (counts_add_up_to_pairs names data), <- (counts_add_up_to_pairs names).
  1: rewrite <- total_of_sums.
  - unfold total. f_equal. apply map_ext. intros p.
    pose proof (counts_of_bounded_and_of_all_records kappa keep data p bound). lia.
  - intros u p inside. apply in_map_iff in inside as [v [<- inside]]. intros kept.
    apply (below v); [exact inside|]. now apply (proj1 (bound v)).
  - exact below.
Qed.

(** ** Rank by rank *)

Section Ranks.

(** Counts y and n of the same partitions, n_p between y_p and y_p + H, and their lists *)
Variables (names : list nat) (y n : nat -> nat) (H : nat).
Hypothesis between : forall p, y p <= n p <= y p + H.
Local Notation Y := (frequency_list (map y names)).
Local Notation N := (frequency_list (map n names)).

Lemma more_have_as_many (F G : nat -> nat) s t :
  (forall p, s <= F p -> t <= G p) -> at_least (map F names) s <= at_least (map G names) t.
Proof.
  intros more. induction names as [|p ps IH]; [reflexivity|]. simpl. rewrite !at_least_of_cons.
  specialize (more p). destruct (Nat.leb_spec s (F p)), (Nat.leb_spec t (G p)); lia.
Qed.

(** c_t(y) <= c_t(n), and c_t(n) <= c_(t-H)(y) for t > H.
    Python: [dp_transforms.mechanisms.frequency_list.FrequencyList.at_least] *)
Theorem numbers_of_partitions_of_all_records t :
  1 <= t -> at_least Y t <= at_least N t /\ (H < t -> at_least N t <= at_least Y (t - H)).
Proof.
  intros positive. split; [|intros above];
    rewrite !at_least_of_frequency_list by lia; apply more_have_as_many; intros p;
    specialize (between p); lia.
Qed.

(** f_i(y) <= f_i(n) <= f_i(y) + H.
    Python: [dp_transforms.mechanisms.frequency_list.FrequencyList.at_ranks] *)
Theorem ranks_of_all_records i : 1 <= i -> rank Y i <= rank N i <= rank Y i + H.
Proof.
  intros first. pose proof (frequency_list_falls (map y names)) as falls_Y.
  pose proof (frequency_list_falls (map n names)) as falls_N.
  split.
  - destruct (Nat.eq_0_gt_0_cases (rank Y i)) as [|some]; [lia|].
    pose proof (numbers_of_partitions_of_all_records (rank Y i) some) as [less _].
    pose proof (ranks_and_numbers_of_partitions Y i (rank Y i) falls_Y first some).
    pose proof (ranks_and_numbers_of_partitions N i (rank Y i) falls_N first some). lia.
  - destruct (Nat.le_gt_cases (rank N i) H) as [|above]; [lia|].
    pose proof (numbers_of_partitions_of_all_records (rank N i) ltac:(lia)) as [_ less].
    specialize (less above).
    pose proof (ranks_and_numbers_of_partitions Y i (rank N i - H) falls_Y first ltac:(lia)).
    pose proof (ranks_and_numbers_of_partitions N i (rank N i) falls_N first ltac:(lia)). lia.
Qed.

(** ** Lifting by dropped pairs *)

(** M = n_p - y_p, added up *)
Local Notation M := (total names (fun p => n p - y p)).

(** How many partitions below t can M pairs lift to t, cheapest first: a visible partition takes
    its [deficit] t - y_p, and when all are lifted each new partition takes t, unless t > H. *)
Fixpoint lifted (t pairs : nat) (deficits : list nat) : nat :=
  match deficits with
  | [] => if t <=? H then pairs / t else 0
  | d :: dearer => if d <=? pairs then S (lifted t (pairs - d) dearer) else 0
  end.

(** No way to lift does more. [some] are visible partitions' deficits, not all of which need be
    lifted, and [fresh] new partitions are lifted as well. *)
Lemma cheapest_first_lifts_most t deficits :
  1 <= t -> StronglySorted le deficits -> (forall d, In d deficits -> d <= t) ->
  forall pairs some others fresh,
  Permutation deficits (some ++ others) -> list_sum some + fresh * t <= pairs ->
  (fresh = 0 \/ t <= H) ->
  length some + fresh <= lifted t pairs deficits.
Proof.
  intros positive sorted.
  induction sorted as [|d dearer sorted IH first]; intros cheap pairs some others fresh same
    enough allowed; simpl.
  - apply Permutation_nil, app_eq_nil in same as [-> ->]. simpl in *.
    destruct (Nat.leb_spec t H); [|nia]. apply Nat.div_le_lower_bound; lia.
  - assert (least : forall e, In e some -> d <= e).
    { intros e inside. assert (found : In e (d :: dearer)).
      { apply (Permutation_in _ (Permutation_sym same)), in_or_app. now left. }
      destruct found as [<-|later]; [reflexivity|]. rewrite Forall_forall in first.
      now apply first. }
    assert (below : d <= t) by (apply cheap; now left).
    assert (cheap_rest : forall e, In e dearer -> e <= t) by (intros; apply cheap; now right).
    destruct (Nat.leb_spec d pairs) as [paid|].
    2: { destruct some as [|e some]; simpl in *; [nia|]. specialize (least e (or_introl eq_refl)).
         lia. }
    destruct (in_dec Nat.eq_dec d some) as [inside|outside].
    + (* d itself is lifted *)
      apply in_split in inside as [left [right ->]].
      rewrite <- app_assoc in same. simpl in same. apply Permutation_cons_app_inv in same.
      rewrite app_assoc in same. rewrite list_sum_app in enough. simpl in enough.
      pose proof (IH cheap_rest (pairs - d) (left ++ right) others fresh same) as rest.
      rewrite list_sum_app, !app_length in rest. rewrite app_length. simpl. lia.
    + (* d could be lifted in the place of another one, *)
      assert (unused : In d others).
      { assert (found : In d (some ++ others)) by (apply (Permutation_in _ same); now left).
        apply in_app_or in found as [|]; tauto. }
      apply in_split in unused as [left [right ->]].
      rewrite app_assoc in same. apply Permutation_cons_app_inv in same.
      rewrite <- app_assoc in same.
      destruct some as [|e some].
      * (* be it a new one, *)
        destruct fresh as [|fresh]; simpl in *; [lia|].
        pose proof (IH cheap_rest (pairs - d) [] (left ++ right) fresh same) as rest.
        simpl in rest. lia.
      * (* or be it e. *)
        specialize (least e (or_introl eq_refl)). simpl in *.
        assert (moved : Permutation dearer (some ++ e :: left ++ right)).
        { rewrite same. apply Permutation_middle. }
        pose proof (IH cheap_rest (pairs - d) some (e :: left ++ right) fresh moved) as rest. lia.
Qed.

(** And so many can be lifted: [lifted] is the largest number. *)
Lemma cheapest_first_can_be_done t deficits : forall pairs,
  exists some others fresh,
  deficits = some ++ others /\ list_sum some + fresh * t <= pairs /\ (fresh = 0 \/ t <= H)
  /\ length some + fresh = lifted t pairs deficits.
Proof.
  induction deficits as [|d dearer IH]; intros pairs; simpl.
  - exists [], [], (if t <=? H then pairs / t else 0). simpl.
    destruct (Nat.leb_spec t H); repeat split; try lia.
    destruct (Nat.eq_0_gt_0_cases t) as [->|]; [lia|]. rewrite Nat.mul_comm. apply Nat.mul_div_le.
    lia.
  - destruct (Nat.leb_spec d pairs).
    + destruct (IH (pairs - d)) as [some [others [fresh [-> [enough [allowed same]]]]]].
      exists (d :: some), others, fresh. simpl. repeat split; lia || assumption.
    + exists [], (d :: dearer), 0. simpl. repeat split; lia.
Qed.

(** The deficits that can be lifted at all: each partition gains at most H. *)
Definition deficits_of (t : nat) (some : list nat) : list nat :=
  map (fun p => t - y p) (filter (fun p => (0 <? y p) && (y p <? t) && (t <=? y p + H)) some).

(** The partitions that are lifted to t: those that were visible, and how many are new *)
Definition visible (t : nat) : list nat -> list nat :=
  filter (fun p => (0 <? y p) && (y p <? t) && (t <=? n p)).
Definition fresh (t : nat) (some : list nat) : nat :=
  length (filter (fun p => (y p =? 0) && (t <=? n p)) some).

Ltac cases t p :=
  specialize (between p);
  destruct (Nat.ltb_spec 0 (y p)), (Nat.ltb_spec (y p) t), (Nat.leb_spec t (n p)),
    (Nat.eqb_spec (y p) 0);
  cbn [andb map filter length]; try lia.

Lemma lifted_are_the_others t some : 1 <= t ->
  at_least (map n some) t = at_least (map y some) t + (length (visible t some) + fresh t some).
Proof.
  intros positive. unfold visible, fresh. induction some as [|p some IH]; [reflexivity|].
  cbn [map filter]. rewrite !at_least_of_cons, IH. destruct (Nat.leb_spec t (y p)); cases t p.
Qed.

Lemma pairs_are_enough t some : 1 <= t ->
  list_sum (map (fun p => t - y p) (visible t some)) + fresh t some * t
  <= total some (fun p => n p - y p).
Proof.
  intros positive. unfold visible, fresh, total. induction some as [|p some IH]; [simpl; lia|].
  cbn [map filter]. change (list_sum (?d :: ?ds)) with (d + list_sum ds). cases t p;
    try change (list_sum (?d :: ?ds)) with (d + list_sum ds); nia.
Qed.

Lemma new_ones_gain_at_most_H t some : 1 <= t -> fresh t some = 0 \/ t <= H.
Proof.
  intros positive. unfold fresh. induction some as [|p some IH]; [now left|].
  cbn [filter]. cases t p; right; lia.
Qed.

Lemma visible_ones_are_among_all t some : 1 <= t ->
  exists others,
  Permutation (deficits_of t some) (map (fun p => t - y p) (visible t some) ++ others).
Proof.
  intros positive. unfold deficits_of, visible.
  induction some as [|p some [others IH]]; [now exists []|].
  cbn [map filter]. destruct (Nat.leb_spec t (y p + H)); cases t p; try (now exists others).
  - exists others. cbn [app]. now apply perm_skip.
  - exists (t - y p :: others). rewrite IH. apply Permutation_middle.
Qed.

(** c_t(n) <= c_t(y) + the largest number of partitions below t that M dropped pairs can lift to t.
    Python: [dp_transforms.mechanisms.frequency_list.FrequencyList.at_least] *)
Theorem numbers_of_partitions_by_dropped_pairs t deficits :
  1 <= t -> Permutation (deficits_of t names) deficits -> StronglySorted le deficits ->
  at_least N t <= at_least Y t + lifted t M deficits.
Proof.
  intros positive permuted sorted. rewrite !at_least_of_frequency_list by assumption.
  rewrite lifted_are_the_others by assumption. apply Nat.add_le_mono_l.
  destruct (visible_ones_are_among_all t names positive) as [others same].
  rewrite <- (map_length (fun p => t - y p) (visible t names)).
  apply cheapest_first_lifts_most with others; auto using pairs_are_enough, new_ones_gain_at_most_H.
  - intros d inside. apply (Permutation_in _ (Permutation_sym permuted)), in_map_iff in inside.
    destruct inside as [p [<- _]]. lia.
  - now rewrite <- permuted.
Qed.

End Ranks.
