"""What an audit shows where a promise is broken between mechanisms, not in one: planted bugs.

Each test breaks one thing that the transforms see to, certifies more than epsilon, and certifies
less where it is not broken.
"""

from dp_transforms import (
    BoundContributions,
    CountDistinctUsers,
    DeclareBounded,
    JobSecret,
)
from dp_transforms.columnar.columns import COUNT, PARTITION, sorted_by
from dp_transforms.evaluation.auditing import epsilon_lower_bound, exact_partition_epsilon
from dp_transforms.mechanisms import FrequencyList, IntegerPartitionMechanism
from dp_transforms.mechanisms.selection import OptimalSelection
from dp_transforms.runtime.selecting import select_from_counts
from tests.beam_runs import run, table_of
from tests.tapes import InsecureSeededTape

ERROR_RATE = 1e-4
OTHERS = [(user, item) for user in range(5) for item in range(6)]
PLANTED = [(100, item) for item in range(6)]


def test_a_bound_dropped_on_the_way():
    mechanism = IntegerPartitionMechanism(epsilon=1, sensitivity=1)

    def cost(bound):
        here, there = (
            FrequencyList.from_counts(
                [count for _, count in run(records, bound, CountDistinctUsers())]
            )
            for records in (OTHERS, OTHERS + PLANTED)
        )
        return exact_partition_epsilon(mechanism, here, there)

    secret = JobSecret.insecure_for_testing(1)
    assert cost(BoundContributions(1, secret=secret)) <= 1 < 3 < cost(DeclareBounded(1))


def test_a_secret_used_in_a_second_run():
    """Two runs at epsilon 1/4, with a user more in the second or not."""
    mechanism = IntegerPartitionMechanism(epsilon=0.25)
    before, after = FrequencyList([9, 4], [1, 2]), FrequencyList([9, 5, 4], [1, 1, 1])

    def draws(second, offset, first=0):
        runs = [
            mechanism.release_many(f, 300, map(InsecureSeededTape, range(start, start + 300)))
            for f, start in ((before, first), (second, first + offset))
        ]
        return list(zip(*runs, strict=True))

    def moved(lists):
        return lists[0].l1_distance(lists[1]) > 0

    def certified(offset):
        return epsilon_lower_bound(
            draws(before, offset), draws(after, offset, 10**6), 0, ERROR_RATE, [moved]
        ).epsilon

    assert certified(offset=0) > 0.5 >= certified(offset=10**5)


def test_names_in_the_order_of_arrival():
    """A user whose records come first, or who has none."""
    counts = [(f"p{i}", 1000) for i in range(4)]
    strategy = OptimalSelection(0.5, 1e-3)

    def first_names(counts, leave):
        table = table_of(counts, (PARTITION, COUNT))
        keys = (JobSecret.insecure_for_testing(i).key("names") for i in range(60))
        return [leave(select_from_counts(table, strategy, key), PARTITION) for key in keys]

    def first(names):
        return names[PARTITION][0].as_py()

    def certified(leave):
        neighbours = counts, [("p3", 1001), *counts[:3]]
        draws = (first_names(some, leave) for some in neighbours)
        return epsilon_lower_bound(*draws, 1e-3, ERROR_RATE, [first]).epsilon

    assert certified(sorted_by) == 0
    assert certified(lambda names, _: names) > 0.5
