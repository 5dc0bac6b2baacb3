"""Samples the posterior of log densities of degrees (``degree_model``).

The densities are sampled by Hamiltonian Monte Carlo from fixed seeds. The metric is the Hessian at
the mode. Given the densities, the model draws the number of users in each cell from its own
posterior; where the noise is negligible, this is the released number.
"""

from __future__ import annotations

import math

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.postprocessing.degree_model import DegreeModel

CHAINS, WARM_UP, KEPT, LEAPS = 64, 14, 3, 7
"""The number of chains; the iterations before a draw is kept; the draws that are kept of each
chain, from every second iteration; and the leapfrog steps of an iteration."""
STEPS, LARGEST_STEP, PRECISE = 60, 3.0, 0.01
"""Steps to the mode: how many there are at most, how far one goes at most in a log density, and the
gain in log probability below which no further step is made."""


def posterior_draws(model: DegreeModel) -> tuple[FloatArray, IntArray]:
    """Returns draws of log densities, of shape (draws, cells), and for each draw the first cell
    from which on there is nobody, of shape (draws,)."""
    mode = _mode(model)
    spread = np.linalg.inv(np.linalg.cholesky(model.metric(mode))).T
    random = np.random.default_rng(0)
    places = random.standard_normal((CHAINS, len(mode)))

    def at(places: FloatArray, ends: IntArray) -> tuple[FloatArray, FloatArray]:
        value, gradient = model.log_posterior(mode + places @ spread.T, ends)
        return value, gradient @ spread

    step, kept, kept_ends = 0.3, [], []
    for iteration in range(WARM_UP + 2 * KEPT):
        # The ends are drawn given the densities, and then a Hamiltonian step moves the densities.
        ends = model.draw_ends(mode + places @ spread.T, random)
        value, gradient = at(places, ends)
        momentum = random.standard_normal(places.shape)
        energy = value - (momentum**2).sum(1) / 2
        proposed, slope = places, gradient
        for _ in range(LEAPS):
            momentum = momentum + step / 2 * slope
            proposed = proposed + step * momentum
            new_value, slope = at(proposed, ends)
            momentum = momentum + step / 2 * slope
        gain = new_value - (momentum**2).sum(1) / 2 - energy
        accepted = np.log(random.random(CHAINS)) < gain
        places = np.where(accepted[:, None], proposed, places)
        if iteration < WARM_UP:
            # Larger steps if more than three quarters of the proposals are accepted.
            step = float(np.clip(step * math.exp(accepted.mean() - 0.75), 0.01, 0.6))
        elif (iteration - WARM_UP) % 2:
            kept.append(mode + places @ spread.T)
            kept_ends.append(ends)
    return np.concatenate(kept), np.concatenate(kept_ends)


def _mode(model: DegreeModel) -> FloatArray:
    """Returns log densities near the mode, by steps of Levenberg and Marquardt. They need not be
    precise: chains begin there, and take their metric from there."""
    everywhere = len(model.low)
    mode, damping = model.start(), 1.0
    value, gradient = model.log_posterior(mode, everywhere)
    for _ in range(STEPS):
        metric = model.metric(mode)
        damped = metric + damping * np.diag(np.diag(metric))
        step = np.clip(np.linalg.solve(damped, gradient), -LARGEST_STEP, LARGEST_STEP)
        new_value, new_gradient = model.log_posterior(mode + step, everywhere)
        gain = float(new_value - value)
        if gain > 0:
            mode, value, gradient = mode + step, new_value, new_gradient
            damping = max(damping * 0.3, 1e-6)
        else:
            damping = min(damping * 4, 1e6)
        if 0 < gain < PRECISE and damping < 1:
            break
    return mode
