(** Frequency lists, their Young diagrams, and the isometry of Frobenius coordinates.

    Ranks, numbers of users and coordinates count from 1, as in the Python. Numbers are naturals,
    whose difference [m - n] is 0 where m < n: [rows] and [columns] are the maxima with 0 of the
    Python. *)

From Coq Require Import Arith Bool Lia List Permutation Sorted Mergesort RelationClasses.
Import ListNotations.

(** ** Sums and distances *)

(** F 1 + ... + F n *)
Fixpoint sum (n : nat) (F : nat -> nat) : nat :=
  match n with
  | 0 => 0
  | S m => sum m F + F n
  end.

(** |m - n| *)
Definition dist (m n : nat) : nat := (m - n) + (n - m).

(** |F 1 - G 1| + ... + |F n - G n|, which is the L1 distance if F and G are 0 behind n. *)
Definition l1 (n : nat) (F G : nat -> nat) : nat := sum n (fun i => dist (F i) (G i)).

Lemma sum_equal n F G : (forall i, 1 <= i <= n -> F i = G i) -> sum n F = sum n G.
Proof.
  induction n; intros same; simpl; [lia|]. rewrite IHn, same; [lia..|]. intros. apply same. lia.
Qed.

Lemma sum_at_most n F G : (forall i, F i <= G i) -> sum n F <= sum n G.
Proof. induction n; intros less; simpl; [|apply Nat.add_le_mono]; auto. Qed.

Lemma sum_of_sums n F G : sum n (fun i => F i + G i) = sum n F + sum n G.
Proof. induction n; simpl; lia. Qed.

Lemma sum_swapped m n (F : nat -> nat -> nat) :
  sum m (fun i => sum n (F i)) = sum n (fun j => sum m (fun i => F i j)).
Proof.
  induction m; simpl.
  - induction n; simpl; lia.
  - rewrite IHm, <- sum_of_sums. reflexivity.
Qed.

Lemma sum_grows m n F : m <= n -> sum m F <= sum n F.
Proof. induction 1; simpl; lia. Qed.

Lemma sum_of_a_tail_of_zeros m n F : m <= n -> (forall i, m < i -> F i = 0) -> sum n F = sum m F.
Proof.
  intros longer zeros. induction longer as [|n longer IH]; [reflexivity|].
  simpl. rewrite IH, zeros; lia.
Qed.

(** ** Frequency lists *)

(** f_i, the number of users at rank i: 0 behind the end. *)
Definition rank (X : list nat) (i : nat) : nat := nth (i - 1) X 0.

(** c_t, how many partitions have at least t users. *)
Definition at_least (X : list nat) (t : nat) : nat := length (filter (Nat.leb t) X).

(** a_i = max(f_i - i + 1, 0) and b_j = max(c_j - j, 0) *)
Definition rows (X : list nat) (i : nat) : nat := rank X i + 1 - i.
Definition columns (X : list nat) (j : nat) : nat := at_least X j - j.

Definition nonincreasing : list nat -> Prop := StronglySorted ge.

(** N is at least the number of entries and every entry. *)
Definition within (N : nat) (X : list nat) : Prop := length X <= N /\ forall x, In x X -> x <= N.

Lemma at_least_of_cons x X t : at_least (x :: X) t = (if t <=? x then 1 else 0) + at_least X t.
Proof. unfold at_least. simpl. destruct (t <=? x); reflexivity. Qed.

Lemma at_least_within N X t : within N X -> at_least X t <= N.
Proof.
  intros [short _]. apply Nat.le_trans with (length X); [|exact short].
  clear short. induction X as [|x X IH]; [apply Nat.le_refl|].
  rewrite at_least_of_cons. simpl. destruct (t <=? x); lia.
Qed.

Lemma rank_within N X i : within N X -> rank X i <= N.
Proof.
  intros [_ small]. unfold rank. destruct (Nat.lt_ge_cases (i - 1) (length X)) as [inside|behind].
  - apply small, nth_In, inside.
  - rewrite nth_overflow; lia.
Qed.

Lemma none_has_more_than_the_largest N X t : (forall x, In x X -> x <= N) -> N < t ->
  at_least X t = 0.
Proof.
  intros small above. induction X as [|x X IH]; [reflexivity|]. rewrite at_least_of_cons, IH.
  - destruct (Nat.leb_spec t x) as [le|]; [|reflexivity]. specialize (small x (or_introl eq_refl)).
    lia.
  - intros y inside. apply small. now right.
Qed.

(** Rank i has at least t users if and only if at least i partitions have at least t users. *)
Lemma ranks_and_numbers_of_partitions X i t :
  nonincreasing X -> 1 <= i -> 1 <= t -> (t <= rank X i <-> i <= at_least X t).
Proof.
  intros falls. revert i. induction falls as [|x X falls IH first]; intros i first_rank positive.
  - unfold rank, at_least. destruct (i - 1); simpl; lia.
  - rewrite at_least_of_cons.
    assert (small : x < t -> at_least X t = 0).
    { apply none_has_more_than_the_largest. intros y inside.
      rewrite Forall_forall in first. exact (first y inside). }
    destruct i as [|[|i]]; [lia| |].
    + change (rank (x :: X) 1) with x. destruct (Nat.leb_spec t x); lia.
    + change (rank (x :: X) (S (S i))) with (nth i X 0).
      assert (next : t <= nth i X 0 <-> S i <= at_least X t).
      { rewrite <- (IH (S i)) by lia. unfold rank. simpl. rewrite Nat.sub_0_r. reflexivity. }
      destruct (Nat.leb_spec t x); lia.
Qed.

(** Behind N all ranks, numbers of partitions and coordinates are 0, so that sums up to any such
    N are the sums over all i. *)
Lemma nothing_behind N X i :
  within N X -> N < i -> rank X i = 0 /\ at_least X i = 0 /\ rows X i = 0 /\ columns X i = 0.
Proof.
  intros [short small] behind. unfold rows, columns.
  assert (none : at_least X i = 0) by (apply none_has_more_than_the_largest with N; auto).
  assert (no_rank : rank X i = 0) by (apply nth_overflow; lia).
  lia.
Qed.

(** ** Cells *)

(** Cell (i, j) of the Young diagram: row i, column j. *)
Definition cell (X : list nat) (i j : nat) : bool := j <=? rank X i.

(** 1 if exactly one of two diagrams has the cell, and 0 otherwise. *)
Definition differ (b c : bool) : nat := if xorb b c then 1 else 0.

(** The cells of a line that are filled up from [start + 1] to m and to n differ in so many
    places. *)
Lemma cells_of_a_line N start m n :
  sum N (fun j => if start <? j then differ (j <=? m) (j <=? n) else 0)
  = dist (min m N - start) (min n N - start).
Proof.
  unfold dist, differ. induction N as [|N IH]; [simpl; lia|].
  cbn [sum]. rewrite IH.
  destruct (Nat.ltb_spec start (S N)), (Nat.leb_spec (S N) m), (Nat.leb_spec (S N) n);
    cbn [xorb]; lia.
Qed.

Lemma cells_of_a_whole_line N m n :
  m <= N -> n <= N -> sum N (fun j => differ (j <=? m) (j <=? n)) = dist m n.
Proof.
  intros. transitivity (sum N (fun j => if 0 <? j then differ (j <=? m) (j <=? n) else 0)).
  - apply sum_equal. intros [|j] [positive _]; [lia|reflexivity].
  - rewrite cells_of_a_line, !Nat.min_l, !Nat.sub_0_r by assumption. reflexivity.
Qed.

(** The L1 distance of two lists is the number of cells in which their diagrams differ, row by
    row, *)
Lemma distance_in_cells N X Y :
  within N X -> within N Y ->
  l1 N (rank X) (rank Y) = sum N (fun i => sum N (fun j => differ (cell X i j) (cell Y i j))).
Proof.
  intros. apply sum_equal. intros i _. unfold cell.
  rewrite cells_of_a_whole_line; auto using rank_within.
Qed.

(** and whether a cell is there can be read in its column as well. *)
Lemma cell_in_its_column X i j :
  nonincreasing X -> 1 <= i -> 1 <= j -> cell X i j = (i <=? at_least X j).
Proof.
  intros falls row column. unfold cell.
  pose proof (ranks_and_numbers_of_partitions X i j falls row column).
  destruct (Nat.leb_spec j (rank X i)), (Nat.leb_spec i (at_least X j)); lia || reflexivity.
Qed.

(** Conjugate lists are as far apart as the lists.
    Python: [dp_transforms.mechanisms.frequency_list.FrequencyList.at_least],
    [dp_transforms.mechanisms.frequency_list.FrequencyList.l1_distance] *)
Theorem conjugation_is_an_isometry N X Y :
  nonincreasing X -> nonincreasing Y -> within N X -> within N Y ->
  l1 N (rank X) (rank Y) = l1 N (at_least X) (at_least Y).
Proof.
  intros. rewrite distance_in_cells, sum_swapped by assumption. apply sum_equal.
  intros j [column _].
  rewrite <- (cells_of_a_whole_line N) by auto using at_least_within.
  apply sum_equal. intros i [row _]. rewrite !cell_in_its_column by assumption. reflexivity.
Qed.

(** Two lists are exactly as far apart as their Frobenius coordinates, both arms together.
    Python: [dp_transforms.mechanisms.noisy_coordinates.FrobeniusCoordinates.of],
    [dp_transforms.mechanisms.frequency_list.FrequencyList.l1_distance] *)
Theorem coordinates_are_an_isometry N X Y :
  nonincreasing X -> nonincreasing Y -> within N X -> within N Y ->
  l1 N (rank X) (rank Y) = l1 N (rows X) (rows Y) + l1 N (columns X) (columns Y).
Proof.
  intros. rewrite distance_in_cells by assumption.
  set (d := fun i j => differ (cell X i j) (cell Y i j)).
  (* The diagonal cuts the cells in two: j >= i in rows, and i > j in columns. *)
  transitivity (sum N (fun i => sum N (fun j => if i - 1 <? j then d i j else 0))
                + sum N (fun j => sum N (fun i => if j <? i then d i j else 0))).
  { rewrite (sum_swapped N N (fun j i => if j <? i then d i j else 0)), <- sum_of_sums.
    apply sum_equal. intros i [row _].
    rewrite <- sum_of_sums. apply sum_equal. intros j _. unfold d.
    destruct (Nat.ltb_spec (i - 1) j), (Nat.ltb_spec j i); lia. }
  f_equal; apply sum_equal.
  - intros i [row _]. unfold d, cell. rewrite cells_of_a_line.
    rewrite !Nat.min_l by auto using rank_within. unfold rows. f_equal; lia.
  - intros j [column _].
    transitivity (sum N (fun i => if j <? i
                                  then differ (i <=? at_least X j) (i <=? at_least Y j) else 0)).
    + apply sum_equal. intros i [row _]. unfold d. rewrite !cell_in_its_column by assumption.
      reflexivity.
    + rewrite cells_of_a_line, !Nat.min_l by auto using at_least_within. reflexivity.
Qed.
