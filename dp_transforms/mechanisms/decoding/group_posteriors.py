"""Computes the curves of many groups side by side, from their noisy coordinates and the shapes of
their parents."""

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
from dp_transforms.mechanisms.decoding.shapes import LEAST_VARIANCE, Curve, Shape
from dp_transforms.mechanisms.decoding.shared_shapes import (
    BentShapes,
    Entries,
    expected_gaps,
    shares_of_parents,
)
from dp_transforms.mechanisms.noisy_coordinates import NoisyCoordinates

PASSES = 2  # Of EM. One more pass computes the posterior.
CELL, FINE_CELL = 0.2, 0.04
"""The number of integers in a state, times c: while EM learns, and in the last pass. A small group
has few partitions beside the noise, so a state of CELL may hold all numbers that it can have."""
GROUP_WEIGHTS = np.array([0.98, 0.01, 0.01])
"""Prior weights of the distributions of gaps. Those of the last two are small, since the shape of
the parent has heaped frequencies already."""
GROUP_END = 1e-6  # The probability that an arm ends anywhere, whatever its gaps.
BATCH = 1 << 21  # The number of states in the windows of a batch of groups.
ENOUGH = 16
"""A group with fewer entries above the noise is not decoded with a smooth curve of its own."""
NEGLIGIBLE = 1e-4  # Probabilities of states that curves leave out.
UNREACHED = 1e-7
"""A place that its arm reaches with less than this probability is left out of further passes. Most
places are such: behind the end of a small group's arms, values are noise around 0. Curves
leave these places out anyway, since their states have less than NEGLIGIBLE."""


def curve_alone(coordinates: NoisyCoordinates, most_partitions: int | None = None) -> Curve:
    """Returns the curve of a list that is decoded from its own coordinates, and from a public upper
    bound on its number of partitions if there is one."""
    most = None if most_partitions is None else [most_partitions]
    (curve,) = _curves(fitted_chains(_arms([coordinates], most), coordinates.rate).chains)
    return curve if most_partitions is None else curve.at_most(most_partitions)


def curves_of_groups(
    coordinates: Sequence[NoisyCoordinates],
    shapes: Sequence[Shape],
    parents: Sequence[int],
    most_partitions: Sequence[int] | None = None,
) -> list[Curve]:
    """Returns the curves of the groups of a level.

    Args:
      coordinates: those of each group.
      shapes: those of the groups of the level above.
      parents: for each group the place of its parent in the level above.
      most_partitions: public upper bounds on the groups' numbers of partitions.

    A group borrows its parent's shape, unless a smooth curve of its own explains its coordinates
    better (``FittedChains.merits``). That happens for example if its partitions have sizes of
    another scale than those of its siblings.
    """
    if not coordinates:
        return []
    rate = coordinates[0].rate
    if most_partitions is None:
        shares = shares_of_parents(shapes, np.asarray(parents), coordinates)
    else:
        sums = np.bincount(parents, most_partitions, len(shapes))
        shares = np.maximum(most_partitions, 1e-3) / np.maximum(sums, 1e-3)[np.asarray(parents)]
    curves: dict[int, Curve] = {}
    for batch in _batches(coordinates, _reach(rate) / _cell(FINE_CELL, rate)):
        most = None if most_partitions is None else [most_partitions[group] for group in batch]
        arms = _arms([coordinates[group] for group in batch], most)
        borrowed, bent = _fitted_groups(
            arms, [shapes[parents[group]] for group in batch], shares[batch], rate, most
        )
        for place, curve in enumerate(_curves(borrowed.chains)):
            deviations = bent.deviations(place, curve.values)
            curves[batch[place]] = _with_borrowed(curve, deviations, rate)
        for place, curve in _own_curves(arms, borrowed.merits, rate):
            curves[batch[place]] = curve
    if most_partitions is not None:
        curves = {group: curve.at_most(most_partitions[group]) for group, curve in curves.items()}
    return [curves[group] for group in range(len(coordinates))]


def _cell(scaled: float, rate: float) -> int:
    """Returns the number of integers in a state, given this number times c."""
    return max(1, math.ceil(scaled / rate - 1e-9))


def _reach(rate: float) -> float:
    """Returns how far windows go to either side of a first guess. It is half as far as for a list
    alone, since a curve needs no quantiles far from the middle."""
    return (REACH / rate + MARGIN) / 2


def _batches(coordinates: Sequence[NoisyCoordinates], width: float) -> Iterator[list[int]]:
    """Yields batches of groups, which have at most BATCH states or are a single group.

    The groups of a batch are of one size as far as possible, since arms are padded.

    Args:
      coordinates: those of each group.
      width: the number of states to either side of a guess.
    """
    sizes = [len(noisy.rows) + len(noisy.columns) for noisy in coordinates]
    batch: list[int] = []
    states = 0.0
    for group in sorted(range(len(sizes)), key=lambda group: -sizes[group]):
        if batch and states + sizes[group] * 2 * width > BATCH:
            yield batch
            batch, states = [], 0.0
        batch.append(group)
        states += sizes[group] * 2 * width
    yield batch


def _own_curves(arms: list[Arm], merits: FloatArray, rate: float) -> Iterator[tuple[int, Curve]]:
    """Yields (place, curve) for the groups that a smooth curve of their own explains better.

    Args:
      arms: the rows of each group, then the columns of each group.
      merits: how well its parent's shape explains each group, see ``FittedChains``.
      rate: c, of the noise.
    """
    groups = len(merits)
    above_noise = np.array([np.count_nonzero(arm.guess * rate > 2) for arm in arms])
    rich = np.flatnonzero(above_noise[:groups] + above_noise[groups:] >= ENOUGH).tolist()
    if not rich:
        return
    rows, columns = [arms[place] for place in rich], [arms[groups + place] for place in rich]
    own = fitted_chains(rows + columns, rate, CELL)
    better = own.merits > merits[rich]
    for place, curve, is_better in zip(rich, _curves(own.chains), better, strict=True):
        if is_better:
            yield place, curve


def _arms(
    coordinates: Sequence[NoisyCoordinates], most_partitions: Sequence[int] | None = None
) -> list[Arm]:
    """Returns the rows of each group, then the columns of each group, with first guesses.

    ``most_partitions`` are public upper bounds on the groups' numbers of partitions.
    """
    arms = []
    for is_row in (True, False):
        for group, noisy in enumerate(coordinates):
            values = np.clip(noisy.rows if is_row else noisy.columns, -LARGEST, LARGEST)
            if not len(values):  # An arm without draws is that of an empty list.
                values = np.zeros(1, np.int64)
            lowest, highest = np.zeros(len(values), np.int64), np.full(len(values), LARGEST)
            if most_partitions is not None and not is_row:
                limit = most_partitions[group] - np.arange(1, len(values) + 1)
                highest = np.clip(limit, 0, LARGEST)
            arms.append(Arm(values, np.minimum(falling_fit(values), highest), lowest, highest))
    return arms


def _fitted_groups(
    arms: list[Arm],
    shapes: Sequence[Shape],
    shares: FloatArray,
    rate: float,
    most_partitions: Sequence[int] | None = None,
) -> tuple[FittedChains, BentShapes]:
    """Returns the chains of groups, with bends and weights of distributions fitted by EM, and the
    fitted bends.

    Args:
      arms: the rows of each group, then the columns of each group.
      shapes: for each group, the shape of its parent.
      shares: for each group, its share of its parent.
      rate: c, of the noise.
      most_partitions: public upper bounds on the groups' numbers of partitions.
    """
    groups = len(shapes)
    entries = Entries(shapes, shares, rate, most_partitions)
    expected = [
        expected_gaps(shapes[i % groups], shares[i % groups], len(arm.values), i < groups)
        for i, arm in enumerate(arms)
    ]
    bent = BentShapes([log for log, _ in expected], [users for _, users in expected])
    weights = [GROUP_WEIGHTS] * len(arms)
    lengths = [len(arm.values) for arm in arms]  # How many first places of each arm are computed.
    for passes_done in range(PASSES + 1):
        is_last = passes_done == PASSES
        reached = [arm.first(length) for arm, length in zip(arms, lengths, strict=True)]
        means = [mean[:length] for mean, length in zip(bent.means(), lengths, strict=True)]
        chains = GapChains(
            reached,
            means,
            weights,
            rate,
            _cell(FINE_CELL if is_last else CELL, rate),
            _reach(rate),
            learn=not is_last,
            entry=entries,
            few=entries.few,
            end=GROUP_END,
        )
        if is_last:
            break
        gaps, there = (
            np.concatenate(
                [_padded(arm, part) for arm, part in zip(arms, chains.by_arm(lines), strict=True)]
            )
            for lines in (chains.gaps, chains.there)
        )
        bent.fit(gaps, there)
        # All rows have the same weights, and all columns.
        weights = []
        for of_groups in (slice(0, groups), slice(groups, 2 * groups)):
            there, gap_shares = (
                np.concatenate(chains.by_arm(lines)[of_groups])
                for lines in (chains.there, chains.shares)
            )
            counts = GROUP_WEIGHTS * gap_shares.sum(0)
            learned = learned_weights(counts, there.sum(), GROUP_WEIGHTS)
            weights += [learned] * groups
        lengths = [max(int(np.count_nonzero(alive > UNREACHED)), 1) for alive in chains.alive]
    return FittedChains(chains, chains.evidence - bent.parameters), bent


def _with_borrowed(curve: Curve, deviations: FloatArray, rate: float) -> Curve:
    """Returns the curve of a group with the part of its errors that comes from the parent's shape.

    If the bend is wrong by its standard deviation, the expected c_j is wrong by about this part of
    it. The posterior of c_j weighs this expectation and the noisy coordinates. The more its
    variance is below that of the noise, the larger is the weight of the expectation. What is
    borrowed counts as no more than the standard deviation of c_j, so that no c_j is moved that the
    coordinates tell for certain.

    The noise of column j has the variance 2 / c^2. Where there are fewer partitions than users, the
    coordinates are rows: noise moves frequencies, and it moves c_j by about as much times the
    number of partitions per frequency, which is about c_j / j.

    Args:
      curve: the curve, which was computed as if the fitted bend were exact.
      deviations: the standard deviation of the bend at each value of the curve.
      rate: c, of the noise.
    """
    density = np.minimum(curve.means / curve.values, 1)
    noise = np.maximum(2 / rate**2 * density**2, LEAST_VARIANCE)
    weight = np.maximum(1 - curve.variances / noise, 0)
    borrowed = weight * np.minimum(curve.means * deviations, np.sqrt(curve.variances))
    return Curve(curve.values, curve.means, curve.variances, borrowed)


def _padded(arm: Arm, numbers: FloatArray) -> FloatArray:
    """Returns the numbers of an arm's first places, and 0 for the others."""
    padded = np.zeros(len(arm.values))
    padded[: len(numbers)] = numbers
    return padded


def _curves(chains: GapChains) -> Iterator[Curve]:
    """Yields the curve of each list.

    c_j, the number of partitions with at least j users, is b_j plus the number of rows i <= j with
    f_i = a_i + i - 1 >= j. Rows count as independent. So the mean and the variance of c_j are sums
    over rows, and over column j. They are gathered as differences: what is added at j' counts in
    all c_j with j <= j'.
    """
    for rows, columns in chains.marginals():
        values, means, variances = [], [], []
        # Row i has f_i >= j with the probability tail, which has a variance of tail (1 - tail).
        states, mass = rows
        index = np.arange(len(states))[:, None]
        matters = mass > NEGLIGIBLE
        tails = np.minimum(np.cumsum(mass[:, ::-1], 1)[:, ::-1], 1.0)
        spread = tails * (1 - tails)
        next_spread = np.append(spread[:, 1:], np.zeros((len(spread), 1)), 1)
        frequencies = np.maximum(states + index, 1)
        values.append(frequencies[matters])
        means.append(mass[matters])
        variances.append((spread - next_spread)[matters])
        # Row i is not in c_j for j < i.
        values.append(np.arange(len(states)))
        means.append(-(mass * matters).sum(1))
        variances.append(-((spread - next_spread) * matters).sum(1))
        # Column j is in c_j alone.
        states, mass = columns
        mean = (states * mass).sum(1)
        variance = np.maximum((states**2.0 * mass).sum(1) - mean**2, 0)
        index = np.arange(1, len(states) + 1)
        kept = mean > NEGLIGIBLE
        for sign, shift in ((1, 0), (-1, 1)):
            values.append(index[kept] - shift)
            means.append(sign * mean[kept])
            variances.append(sign * variance[kept])
        yield _curve(*map(np.concatenate, (values, means, variances)))


def _curve(values: IntArray, means: FloatArray, variances: FloatArray) -> Curve:
    """Returns the curve with these differences: what stands at a value counts in all c_j with j up
    to this value."""
    distinct, inverse = np.unique(values, return_inverse=True)
    sums = []
    for differences in (means, variances):
        gathered = np.bincount(inverse, differences, len(distinct))
        sums.append(np.maximum(np.cumsum(gathered[::-1])[::-1], 0))
    kept = distinct >= 1
    falling = np.maximum.accumulate(sums[0][kept][::-1])[::-1]
    return Curve(distinct[kept].astype(np.int64), falling, sums[1][kept])
