(** From records to sorted lists: how far one user moves a frequency list. *)

From Coq Require Import Arith Bool Lia List Permutation Sorted Mergesort Orders RelationClasses.
From Proofs Require Import Lists.
Import ListNotations.

(** ** Data

    A user is the list of the partitions of that user's records, and data are a list of users.
    Partitions are numbered from 0, and those from [names] on are not counted: take a number above
    all that occur. *)

Definition user := list nat.

Definition has (p : nat) (u : user) : bool := if in_dec Nat.eq_dec p u then true else false.

(** The number of different partitions of a user *)
Definition degree (u : user) : nat := length (nodup Nat.eq_dec u).

(** The number of users of partition p. Repeated records of a user count once. *)
Definition count (data : list user) (p : nat) : nat := length (filter (has p) data).

Definition counts (names : nat) (data : list user) : list nat := map (count data) (seq 0 names).

Module Descending <: TotalLeBool.
  Definition t := nat.
  Definition leb m n := n <=? m.
  Infix "<=?" := leb.
  Lemma leb_total m n : (m <=? n) = true \/ (n <=? m) = true.
  Proof. unfold leb. rewrite !Nat.leb_le. lia. Qed.
End Descending.
Module Sorting := Sort Descending.

(** The positive counts in descending order.
    Python: [dp_transforms.mechanisms.frequency_list.FrequencyList.from_counts] *)
Definition frequency_list (all : list nat) : list nat :=
  Sorting.sort (filter (fun n => 0 <? n) all).

Lemma frequency_list_falls all : nonincreasing (frequency_list all).
Proof.
  assert (transitive : Transitive (fun m n => Descending.leb m n = true)).
  { unfold Descending.leb. intros x y z. rewrite !Nat.leb_le. lia. }
  pose proof (Sorting.StronglySorted_sort (filter (fun n => 0 <? n) all) transitive) as sorted.
  unfold nonincreasing, frequency_list.
  induction sorted as [|x X _ IH first]; constructor; [exact IH|].
  apply Forall_impl with (2 := first). intros y ordered. apply Nat.leb_le, ordered.
Qed.

Lemma at_least_of_permuted X Y t : Permutation X Y -> at_least X t = at_least Y t.
Proof. induction 1; rewrite ?at_least_of_cons; lia. Qed.

(** Sorting does not change how many partitions have at least t users, and partitions without
    users do not count. *)
Lemma at_least_of_frequency_list all t : 1 <= t -> at_least (frequency_list all) t = at_least all t.
Proof.
  intros positive. unfold frequency_list.
  rewrite <- (at_least_of_permuted _ _ t (Sorting.Permuted_sort _)).
  induction all as [|n all IH]; [reflexivity|]. simpl filter. rewrite at_least_of_cons.
  destruct (Nat.ltb_spec 0 n); [rewrite at_least_of_cons; lia|].
  rewrite IH. destruct (Nat.leb_spec t n); lia.
Qed.

Lemma frequency_list_within N all :
  length all <= N -> (forall n, In n all -> n <= N) -> within N (frequency_list all).
Proof.
  intros short small. unfold frequency_list. set (positive := filter _ _).
  pose proof (Sorting.Permuted_sort positive) as sorted. split.
  - rewrite <- (Permutation_length sorted). unfold positive.
    apply Nat.le_trans with (length all); [|exact short].
    clear. induction all as [|n all IH]; simpl; [|destruct (0 <? n); simpl]; lia.
  - intros x inside. apply small.
    apply (Permutation_in _ (Permutation_sym sorted)), filter_In in inside. tauto.
Qed.

(** ** Sorting *)

(** F p + ... over all p of a list *)
Definition total (names : list nat) (F : nat -> nat) : nat := list_sum (map F names).

Lemma at_least_of_map F names t :
  at_least (map F names) t = total names (fun p => if t <=? F p then 1 else 0).
Proof.
  unfold total. induction names; [reflexivity|]. simpl map. rewrite at_least_of_cons, IHnames.
  reflexivity.
Qed.

Lemma distance_of_totals names F G :
  dist (total names F) (total names G) <= total names (fun p => dist (F p) (G p)).
Proof. unfold total, dist. induction names; simpl; lia. Qed.

Lemma sum_of_totals N names (F : nat -> nat -> nat) :
  sum N (fun t => total names (F t)) = total names (fun p => sum N (fun t => F t p)).
Proof.
  unfold total. induction names; simpl.
  - induction N; simpl; lia.
  - rewrite <- IHnames. apply sum_of_sums.
Qed.

(** Sorting brings no two lists of counts farther apart: the L1 distance of the sorted lists is at
    most that of the counts, partition by partition.
    Python: [dp_transforms.mechanisms.frequency_list.FrequencyList.from_counts],
    [dp_transforms.mechanisms.frequency_list.FrequencyList.l1_distance] *)
Theorem sorting_does_not_increase_the_distance N names (F G : nat -> nat) :
  let X := frequency_list (map F names) in
  let Y := frequency_list (map G names) in
  length names <= N -> (forall p, F p <= N) -> (forall p, G p <= N) ->
  l1 N (rank X) (rank Y) <= total names (fun p => dist (F p) (G p)).
Proof.
  intros X Y short small_F small_G.
  assert (in_range : forall H, (forall p, H p <= N) -> within N (frequency_list (map H names))).
  { intros H small. apply frequency_list_within; [now rewrite map_length|].
    intros n inside. apply in_map_iff in inside. destruct inside as [p [<- _]]. apply small. }
  rewrite conjugation_is_an_isometry by
    (apply frequency_list_falls || (apply in_range; assumption)). unfold l1.
  apply Nat.le_trans with (sum N (fun t => total names (fun p => differ (t <=? F p) (t <=? G p)))).
  - rewrite (sum_equal N _ (fun t => dist (at_least (map F names) t) (at_least (map G names) t))).
    + apply sum_at_most. intros t. rewrite !at_least_of_map.
      eapply Nat.le_trans; [apply distance_of_totals|]. unfold total.
      apply Nat.eq_le_incl. f_equal. apply map_ext. intros p.
      unfold dist, differ. destruct (t <=? F p), (t <=? G p); reflexivity.
    + intros t [positive _]. unfold X, Y. now rewrite !at_least_of_frequency_list.
  - rewrite sum_of_totals. unfold total. apply Nat.eq_le_incl. f_equal. apply map_ext.
    intros p. now apply cells_of_a_whole_line.
Qed.

(** ** One user *)

Lemma count_with_a_user before u after p :
  count (before ++ u :: after) p = count (before ++ after) p + (if has p u then 1 else 0).
Proof.
  unfold count. rewrite !filter_app, !app_length. simpl. destruct (has p u); simpl; lia.
Qed.

(** A user is counted in no more partitions than the user has. *)
Lemma partitions_of_a_user names u : total (seq 0 names) (fun p => if has p u then 1 else 0)
  <= degree u.
Proof.
  assert (same : total (seq 0 names) (fun p => if has p u then 1 else 0)
                 = length (filter (fun p => has p u) (seq 0 names))).
  { unfold total. induction (seq 0 names) as [|p ps IH]; simpl; [|destruct (has p u); simpl]; lia. }
  rewrite same. apply NoDup_incl_length; [apply NoDup_filter, seq_NoDup|].
  intros p inside. apply filter_In in inside. destruct inside as [_ kept]. unfold has in kept.
  apply nodup_In.
  now destruct (in_dec Nat.eq_dec p u).
Qed.

Lemma count_at_most_users data p : count data p <= length data.
Proof. unfold count. induction data as [|u data IH]; simpl; [|destruct (has p u); simpl]; lia. Qed.

(** A user with at most kappa partitions moves the sorted list by at most kappa.
    Python: [dp_transforms.beam.contributions.BoundContributions],
    [dp_transforms.beam.contributions.CountDistinctUsers] *)
Theorem a_user_moves_the_list_by_at_most_kappa N kappa names before u after :
  let X := frequency_list (counts names (before ++ after)) in
  let Y := frequency_list (counts names (before ++ u :: after)) in
  degree u <= kappa -> names <= N -> length (before ++ u :: after) <= N ->
  l1 N (rank X) (rank Y) <= kappa.
Proof.
  intros X Y few all_names all_users.
  apply Nat.le_trans with (total (seq 0 names) (fun p => if has p u then 1 else 0)).
  2: { apply Nat.le_trans with (degree u); auto using partitions_of_a_user. }
  eapply Nat.le_trans; [apply sorting_does_not_increase_the_distance|].
  - now rewrite seq_length.
  - intros p. eapply Nat.le_trans; [apply count_at_most_users|].
    rewrite app_length in *. simpl in all_users. lia.
  - intros p. eapply Nat.le_trans; [apply count_at_most_users|assumption].
  - unfold total. apply Nat.eq_le_incl. f_equal. apply map_ext. intros p.
    rewrite count_with_a_user. unfold dist. lia.
Qed.

(** Nor do the coordinates move by more, however many of them are looked at.
    Python: [dp_transforms.mechanisms.partition.frobenius.FrobeniusMechanism] *)
Theorem a_user_moves_the_coordinates_by_at_most_kappa R S kappa names before u after :
  let X := frequency_list (counts names (before ++ after)) in
  let Y := frequency_list (counts names (before ++ u :: after)) in
  degree u <= kappa -> l1 R (rows X) (rows Y) + l1 S (columns X) (columns Y) <= kappa.
Proof.
  intros X Y few. set (N := R + S + names + length (before ++ u :: after)).
  assert (in_range : forall data, length data <= N ->
  within N (frequency_list (counts names data))).
  { intros data users. apply frequency_list_within.
    - unfold counts. rewrite map_length, seq_length. unfold N. lia.
    - intros n inside. apply in_map_iff in inside. destruct inside as [p [<- _]].
      eapply Nat.le_trans; [apply count_at_most_users|assumption]. }
  apply Nat.le_trans with (l1 N (rows X) (rows Y) + l1 N (columns X) (columns Y)).
  - unfold l1. apply Nat.add_le_mono; apply sum_grows; unfold N; lia.
  - rewrite <- coordinates_are_an_isometry.
    + apply a_user_moves_the_list_by_at_most_kappa; unfold N; lia || assumption.
    + apply frequency_list_falls.
    + apply frequency_list_falls.
    + apply in_range. unfold N. rewrite !app_length. simpl. lia.
    + apply in_range. unfold N. lia.
Qed.
