"""Draws noise in rounds, each with less noise than the one before.

If a rough release were followed by an independent fine one, both would have to be paid for. Here
the rough noise contains the fine one, so that all rounds together cost what the last one costs
(Koufogiannis, Han, Pappas 2015, "Gradual release of sensitive data under differential privacy").

Let x be the true numbers, one in each cell, and epsilon_j = 2 epsilon_(j-1) the parameter of round
j. The last round m shows X_m = x + discrete Laplace noise of epsilon_m in each cell. The rounds
before it are made backwards,

    X_(j-1) = X_j + R_j,      R_j = 0 if A > 0 and B <= 0, and C otherwise, in each cell,

where A, B, C are independent discrete Laplace noise of epsilon_(j-1).

**Claim.** X_(j-1) has discrete Laplace noise of epsilon_(j-1). Let q = exp(-epsilon_(j-1)), so that
Pr[A = n] = (1 - q) / (1 + q) q^|n|, with the characteristic function (1 - q)^2 / (1 + q^2 - 2 q cos
t). Then Pr[A > 0] = q / (1 + q), and A > 0 and B <= 0 hold together with probability w = q / (1 +
q)^2. The noise of X_j has q^2 in place of q. It is to be shown that the product of

    (1 - q^2)^2 / (1 + q^4 - 2 q^2 cos t)   and   w + (1 - w) (1 - q)^2 / (1 + q^2 - 2 q cos t)

is (1 - q)^2 / (1 + q^2 - 2 q cos t). The second factor times (1 + q^2 - 2 q cos t) (1 + q)^2 is

    q (1 + q^2 - 2 q cos t) + (1 + q + q^2) (1 - q)^2 = 1 + q^4 - 2 q^2 cos t,

as (1 + q + q^2) (1 - q)^2 = (1 - q^3) (1 - q) = 1 - q - q^3 + q^4. With (1 - q^2)^2 = (1 - q)^2 (1
+ q)^2 the product is what was claimed. QED.

So rounds 1 to j tell no more about the data than X_j alone: given X_j, the rounds before it are
functions of X_j and of random numbers that do not depend on data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dp_transforms.mechanisms.discrete_noise import DiscreteLaplace
from dp_transforms.mechanisms.randomness import RandomTape


def gradual_noise(
    noises: Sequence[DiscreteLaplace], tape: RandomTape, channel: str, count: int
) -> list[Any]:
    """Returns the noise of all rounds, the first one first. It is PRIVATE: a round that is not
    released reveals more than the rounds before it.

    Args:
      noises: the noise of each round; its scale is half that of the round before.
      tape: a tape on which the channel is claimed.
      channel: the name of this noise on the tape.
      count: how many cells there are.

    Returns:
      An integer array of shape (count,) for each round.
    """
    noise = noises[-1].sample(tape, channel, count)
    rounds = [noise]
    for index in reversed(range(len(noises) - 1)):
        a, b, c = (noises[index].sample(tape, f"{channel} {index} {name}", count) for name in "abc")
        noise = noise + np.where((a > 0) & (b <= 0), 0, c)
        rounds.append(noise)
    return rounds[::-1]
