"""Releases the lists of groups in a tree, each of which is the union of its children's.

Theorem. Let every level have a rate c_l of noise. Let one user change the lists of each level by at
most kappa in all: the sum over the level's groups g of |X_g - Y_g|_1 is at most kappa. Draw the
noisy coordinates of all lists as ``FrobeniusMechanism`` does, independently, at the rate of their
level. Then the release of all of them is (kappa (c_0 + c_1 + ...))-differentially private.

Proof. By the proof of ``partition.frobenius``, the ratio of the probabilities of the prefixes drawn
of one list is at most exp(c_l |X_g - Y_g|_1), whatever that distance is. All are independent, so
the ratios multiply: to at most exp(c_l kappa) at a level, and over levels to the exponential of the
sum. QED. Nothing is assumed of how the lists of different levels go together; that they add up is
used by the decoder alone, which sees nothing private.
"""

from __future__ import annotations

from collections.abc import Sequence

from dp_transforms.mechanisms.decoding.hierarchy import decode_hierarchy
from dp_transforms.mechanisms.frequency_list import FrequencyList, ReleasedList
from dp_transforms.mechanisms.partition.frobenius import FrobeniusMechanism
from dp_transforms.mechanisms.randomness import RandomTape


def release_lists_of_tree(
    levels: Sequence[Sequence[FrequencyList]],
    parents: Sequence[Sequence[int]],
    mechanisms: Sequence[FrobeniusMechanism],
    tapes: Sequence[Sequence[RandomTape]],
    most_partitions: Sequence[int] | None = None,
) -> list[list[ReleasedList]]:
    """Releases the lists of all groups; see the module for the guarantee.

    Args:
      levels: the private lists of each level, from the only one at the top down.
      parents: for each level below the top, the place of each group's parent in the level above.
      mechanisms: of each level.
      tapes: of each list; all different.
      most_partitions: public upper bounds on the numbers of partitions of the lowest groups.

    Returns:
      The released lists in the same order. Each is the union of its children's.

    >>> leaves = [FrequencyList([3], [40]), FrequencyList([9, 3], [1, 20])]
    >>> whole = FrequencyList([9, 3], [1, 60])
    >>> (top,), (left, right) = release_lists_of_tree(
    ...     [[whole], leaves], [[0, 0]], [FrobeniusMechanism(1)] * 2,
    ...     [[RandomTape.from_os()], [RandomTape.from_os(), RandomTape.from_os()]],
    ... )
    >>> both = left.at_least([1, 2, 3]) + right.at_least([1, 2, 3])
    >>> both.tolist() == top.at_least([1, 2, 3]).tolist()
    True
    """
    drawn = [
        [
            mechanism.noisy_coordinates(frequency_list, tape)
            for frequency_list, tape in zip(lists, tapes_of_level, strict=True)
        ]
        for mechanism, lists, tapes_of_level in zip(mechanisms, levels, tapes, strict=True)
    ]
    # What is private ends here.
    return [
        [
            ReleasedList(decoded.frequencies, decoded.multiplicities, mechanism, coordinates)
            for decoded, coordinates in zip(decoded_level, drawn_level, strict=True)
        ]
        for mechanism, decoded_level, drawn_level in zip(
            mechanisms, decode_hierarchy(drawn, parents, most_partitions), drawn, strict=True
        )
    ]
