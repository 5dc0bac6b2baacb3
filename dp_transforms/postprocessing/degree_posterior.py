"""Samples the posterior of log densities of degrees (``degree_model``).

The densities are sampled by Hamiltonian Monte Carlo from fixed seeds, with the Hessian at the mode
as metric; given them, the number of users in each cell is drawn from its own posterior, which is
the released number where the noise is negligible.
"""

from __future__ import annotations

import math

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.postprocessing.degree_model import DegreeModel

CHAINS, WARM_UP, KEPT, LEAPS = 64, 14, 3, 7
STEPS, LARGEST_STEP, PRECISE = 60, 3.0, 0.01
"""Steps to the mode: at most so many, each of at most so much in a log density, until one gains
less than the last in log probability."""


def posterior_draws(model: DegreeModel) -> tuple[FloatArray, IntArray]:
    """Draws log densities, draws x cells, and the cells from which on there is nobody."""
    mode = _mode(model)
    spread = np.linalg.inv(np.linalg.cholesky(model.metric(mode))).T
    random = np.random.default_rng(0)
    places = random.standard_normal((CHAINS, len(mode)))

    def at(places: FloatArray, ends: IntArray) -> tuple[FloatArray, FloatArray]:
        value, gradient = model.log_posterior(mode + places @ spread.T, ends)
        return value, gradient @ spread

    step, kept, kept_ends = 0.3, [], []
    for iteration in range(WARM_UP + 2 * KEPT):
        ends = model.draw_ends(mode + places @ spread.T, random)
        value, gradient = at(places, ends)
        momentum = random.standard_normal(places.shape)
        energy = value - (momentum**2).sum(1) / 2
        there, slope = places, gradient
        for _ in range(LEAPS):
            momentum = momentum + step / 2 * slope
            there = there + step * momentum
            new_value, slope = at(there, ends)
            momentum = momentum + step / 2 * slope
        gain = new_value - (momentum**2).sum(1) / 2 - energy
        accepted = np.log(random.random(CHAINS)) < gain
        places = np.where(accepted[:, None], there, places)
        if iteration < WARM_UP:
            step = float(np.clip(step * math.exp(accepted.mean() - 0.75), 0.01, 0.6))
        elif (iteration - WARM_UP) % 2:
            kept.append(mode + places @ spread.T)
            kept_ends.append(ends)
    return np.concatenate(kept), np.concatenate(kept_ends)


def _mode(model: DegreeModel) -> FloatArray:
    """Returns log densities near the mode, by steps of Levenberg and Marquardt. It need not be
    precise: it is where chains begin, and where their metric is taken."""
    everywhere = len(model.low)
    mode, damping = model.start(), 1.0
    value, gradient = model.log_posterior(mode, everywhere)
    for _ in range(STEPS):
        metric = model.metric(mode)
        damped = metric + damping * np.diag(np.diag(metric))
        there = mode + np.clip(np.linalg.solve(damped, gradient), -LARGEST_STEP, LARGEST_STEP)
        new_value, new_gradient = model.log_posterior(there, everywhere)
        gain = float(new_value - value)
        if gain > 0:
            mode, value, gradient = there, new_value, new_gradient
            damping = max(damping * 0.3, 1e-6)
        else:
            damping = min(damping * 4, 1e6)
        if 0 < gain < PRECISE and damping < 1:
            break
    return mode
