"""Releases the lists of groups in a tree. Each is the union of the lists of its children.

Theorem. Let level l have the rate c_l of noise. For neighbouring data, let the lists X_g and Y_g of
the groups g of each level differ by at most kappa in all: the sum over the level's groups of
|X_g - Y_g|_1 is at most kappa. Draw the noisy coordinates of all lists as ``FrobeniusMechanism``
does, independently, at the rates of their levels. Then the release of all noisy coordinates is
(kappa (c_0 + c_1 + ...))-differentially private.

Proof. By the proof of ``partition.frobenius``, the probabilities that a given prefix is drawn for
one list have a ratio of at most exp(c_l |X_g - Y_g|_1), whatever that distance is. All draws are
independent, so the ratios multiply. At a level their product is at most exp(c_l kappa), and over
all levels it is at most exp(kappa (c_0 + c_1 + ...)). QED.

The proof assumes nothing about how the lists of different levels are related. Only the decoder uses
that they add up, and it sees nothing private.
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
      levels: the private lists of each level, from the single list at the top down.
      parents: for each level below the top, the place of each group's parent in the level above.
      mechanisms: that of each level.
      tapes: that of each list; all must be different.
      most_partitions: public upper bounds on the numbers of partitions of the lowest groups.

    Returns:
      The released lists in the same order. Each is the union of the lists of its children.

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
    # From here on only the noisy coordinates are used, which are public.
    decoded_levels = decode_hierarchy(drawn, parents, most_partitions)
    return [
        [
            ReleasedList(decoded.frequencies, decoded.multiplicities, mechanism, coordinates)
            for decoded, coordinates in zip(decoded_lists, drawn_of_level, strict=True)
        ]
        for mechanism, decoded_lists, drawn_of_level in zip(
            mechanisms, decoded_levels, drawn, strict=True
        )
    ]
