"""Decodes the noisy coordinates of many groups side by side, by the shapes of their parents."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.mechanisms.decoding.decoder import (
    LARGEST,
    MARGIN,
    REACH,
    FittedChains,
    falling_fit,
    fitted_chains,
)
from dp_transforms.mechanisms.decoding.gap_chains import Arm, GapChains
from dp_transforms.mechanisms.decoding.gap_model import learned_weights
from dp_transforms.mechanisms.decoding.shapes import Curve, Shape
from dp_transforms.mechanisms.decoding.shared_shapes import (
    BentShapes,
    Entries,
    expected_gaps,
    shares_of_parents,
)
from dp_transforms.mechanisms.noisy_coordinates import NoisyCoordinates

PASSES = 2  # Of EM, before the last one.
CELL = 0.2  # The number of integers in a state, times c.
GROUP_WEIGHTS = np.array([0.98, 0.01, 0.01])
"""Weights of the distributions of gaps. The parent's shape knows of heaped frequencies."""
GROUP_END = 1e-6  # The probability that an arm ends anywhere, whatever its gaps.
BATCH = 1 << 21  # The number of states in the windows of a batch of groups.
ENOUGH = 16
"""A group with fewer entries above the noise says too little of a curve of its own."""
NEGLIGIBLE = 1e-4  # Probabilities of states that curves leave out.
UNREACHED = 1e-9
"""Places that an arm reaches with less than this probability are left out of further passes. Most
places are noise around 0, behind the end of a small group's arms."""


def curve_alone(coordinates: NoisyCoordinates, most_partitions: int | None = None) -> Curve:
    """Returns the curve of a list that is decoded from its own coordinates, and from a public upper
    bound on its number of partitions if there is one."""
    most = None if most_partitions is None else [most_partitions]
    (curve,) = _curves(fitted_chains(_arms([coordinates], most), coordinates.rate).chains)
    return curve


def curves_of_groups(
    coordinates: Sequence[NoisyCoordinates],
    shapes: Sequence[Shape],
    parents: Sequence[int],
    most_partitions: Sequence[int] | None = None,
) -> list[Curve]:
    """Returns the curves of the groups of a level.

    Args:
      coordinates: of each group.
      shapes: of the groups of the level above.
      parents: for each group the place of its parent in the level above.
      most_partitions: public upper bounds on the groups' numbers of partitions.

    A group borrows its parent's shape, unless a smooth curve of its own explains its coordinates
    better (``FittedChains.merits``), as where sizes are of another scale than in its siblings.
    """
    if not coordinates:
        return []
    rate = coordinates[0].rate
    cell = max(1, math.ceil(CELL / rate - 1e-9))
    width = 2 * (REACH / rate + MARGIN) / cell + 2
    sizes = [len(noisy.rows) + len(noisy.columns) for noisy in coordinates]
    # Groups of one batch are of one size, as far as possible, since arms are padded.
    order = sorted(range(len(sizes)), key=lambda group: -sizes[group])
    if most_partitions is None:
        shares = shares_of_parents(shapes, np.asarray(parents), coordinates)
    else:
        sums = np.bincount(parents, most_partitions, len(shapes))
        shares = np.maximum(most_partitions, 1e-3) / np.maximum(sums, 1e-3)[np.asarray(parents)]
    curves: dict[int, Curve] = {}
    begin = 0
    while begin < len(order):
        end, states = begin, 0.0
        while end < len(order) and (end == begin or states + sizes[order[end]] * width <= BATCH):
            states += sizes[order[end]] * width
            end += 1
        batch = order[begin:end]
        most = None if most_partitions is None else [most_partitions[group] for group in batch]
        arms = _arms([coordinates[group] for group in batch], most)
        borrowed = _fitted_groups(
            arms, [shapes[parents[group]] for group in batch], shares[batch], cell, rate
        )
        curves |= zip(batch, _curves(borrowed.chains), strict=True)
        for place, curve in _own_curves(arms, borrowed.merits, rate):
            curves[batch[place]] = curve
        begin = end
    return [curves[group] for group in range(len(sizes))]


def _own_curves(arms: list[Arm], merits: FloatArray, rate: float) -> Iterator[tuple[int, Curve]]:
    """Yields the places and curves of groups that a curve of their own explains better than their
    parent's shape does, which has these merits."""
    groups = len(merits)
    clear = np.array([np.count_nonzero(arm.guess * rate > 2) for arm in arms])
    rich = np.flatnonzero(clear[:groups] + clear[groups:] >= ENOUGH).tolist()
    if rich:
        of_rich = [arms[arm + place] for arm in (0, groups) for place in rich]
        own = fitted_chains(of_rich, rate, CELL)
        better = own.merits > merits[rich]
        for place, curve, is_better in zip(rich, _curves(own.chains), better, strict=True):
            if is_better:
                yield place, curve


def _arms(
    coordinates: Sequence[NoisyCoordinates], most_partitions: Sequence[int] | None = None
) -> list[Arm]:
    arms = []
    for is_row in (True, False):
        for group, noisy in enumerate(coordinates):
            values = np.clip(noisy.rows if is_row else noisy.columns, -LARGEST, LARGEST)
            values = values if len(values) else np.zeros(1, np.int64)
            zeros, most = np.zeros(len(values), np.int64), np.full(len(values), LARGEST)
            if most_partitions is not None and not is_row:
                limit = most_partitions[group] - np.arange(1, len(values) + 1)
                most = np.clip(limit, 0, LARGEST)
            arms.append(Arm(values, np.minimum(falling_fit(values), most), zeros, most))
    return arms


def _fitted_groups(
    arms: list[Arm], shapes: Sequence[Shape], shares: FloatArray, cell: int, rate: float
) -> FittedChains:
    """Returns the chains of groups, with bends and weights of distributions fitted by EM, given the
    shape of each one's parent and its share of it."""
    groups = len(shapes)
    entries = Entries(shapes, shares, rate)
    expected = [
        expected_gaps(shapes[i % groups], shares[i % groups], len(arm.values), i < groups)
        for i, arm in enumerate(arms)
    ]
    bent = BentShapes([log for log, _ in expected], [users for _, users in expected])
    weights = [GROUP_WEIGHTS] * len(arms)
    reach = REACH / rate + MARGIN
    lengths = [len(arm.values) for arm in arms]  # Of the part that is computed.
    for done in range(PASSES + 1):
        last = done == PASSES
        near = reach if last else reach / 2
        reached = [arm.first(length) for arm, length in zip(arms, lengths, strict=True)]
        means = [mean[:length] for mean, length in zip(bent.means(), lengths, strict=True)]
        chains = GapChains(
            reached, means, weights, rate, cell, near, not last, entries, entries.few, GROUP_END
        )
        if last:
            break
        of_arms = zip(arms, chains.by_arm(chains.gaps), chains.by_arm(chains.there), strict=True)
        padded = [(_padded(arm, gaps), _padded(arm, there)) for arm, gaps, there in of_arms]
        bent.fit(*map(np.concatenate, zip(*padded, strict=True)))
        weights = []
        for arm in (0, 1):
            alive, used = (
                np.concatenate(chains.by_arm(lines)[arm * groups : (arm + 1) * groups])
                for lines in (chains.there, chains.shares)
            )
            learned = learned_weights(GROUP_WEIGHTS, used.sum(0), alive.sum(), GROUP_WEIGHTS)
            weights += [learned] * groups
        lengths = [max(int(np.count_nonzero(alive > UNREACHED)), 1) for alive in chains.alive]
    return FittedChains(chains, chains.evidence - bent.parameters)


def _padded(arm: Arm, numbers: FloatArray) -> FloatArray:
    """Returns the numbers of an arm's first places, and 0 for the others."""
    padded = np.zeros(len(arm.values))
    padded[: len(numbers)] = numbers
    return padded


def _curves(chains: GapChains) -> Iterator[Curve]:
    """Yields the curve of each group.

    c_j is b_j plus the number of rows i <= j with f_i = a_i + i - 1 >= j. Its mean and variance are
    sums over j' >= j of differences, which are gathered by j'. Rows count as independent.
    """
    for rows, columns in chains.marginals():
        values, means, variances = [], [], []
        # Rows: distributions of a_i at states, rising.
        places, mass = rows
        index = np.arange(len(places))[:, None]
        some = mass > NEGLIGIBLE
        tails = np.minimum(np.cumsum(mass[:, ::-1], 1)[:, ::-1], 1.0)
        spread = tails * (1 - tails)
        behind = np.append(spread[:, 1:], np.zeros((len(spread), 1)), 1)
        at = np.maximum(places + index, 1)
        values.append(at[some])
        means.append(mass[some])
        variances.append((spread - behind)[some])
        # Row i is not in c_j for j < i.
        values.append(np.arange(len(places)))
        means.append(-(mass * some).sum(1))
        variances.append(-((spread - behind) * some).sum(1))
        # Columns.
        places, mass = columns
        mean = (places * mass).sum(1)
        variance = np.maximum((places**2.0 * mass).sum(1) - mean**2, 0)
        index = np.arange(1, len(places) + 1)
        kept = mean > NEGLIGIBLE
        for sign, shift in ((1, 0), (-1, 1)):
            values.append(index[kept] - shift)
            means.append(sign * mean[kept])
            variances.append(sign * variance[kept])
        yield _curve(*map(np.concatenate, (values, means, variances)))


def _curve(values: IntArray, means: FloatArray, variances: FloatArray) -> Curve:
    """Returns the curve whose differences are these."""
    distinct, inverse = np.unique(values, return_inverse=True)
    sums = []
    for differences in (means, variances):
        gathered = np.bincount(inverse, differences, len(distinct))
        sums.append(np.maximum(np.cumsum(gathered[::-1])[::-1], 0))
    kept = distinct >= 1
    falling = np.maximum.accumulate(sums[0][kept][::-1])[::-1]
    return Curve(distinct[kept].astype(np.int64), falling, sums[1][kept])
