"""Chooses the bound on degrees to which a graph is projected, under epsilon-DP for nodes.

A small bound D drops many edges, and a large one needs much noise, since the list of projected
degrees has a sensitivity proportional to D. For each candidate D, let e(D) be the number of edges
that the projection keeps, and let cost(D) be the expected error of the noise, a public number,
minus e(D). The number of all edges is the same for every candidate. So the candidate of least cost
also has the least sum of dropped edges and expected error.

The numbers e(D) have different sensitivities: one node changes e(D) by between 0 and s D, where s
is 1, or 2 in a directed graph (``degree_projection``, corollary). So costs are compared as in the
generalized exponential mechanism (Raskhodnikova and Smith, "Efficient Lipschitz extensions for
high-dimensional graph statistics and node private degree distributions", 2015; Day, Li and Lyu 2016
choose a bound by an exponential mechanism). The score of D is

    u(D) = max over candidates D' of (cost(D) - cost(D')) / max(D, D').

It is at least 0, and 0 for the least cost.

Privacy. Neighbours differ by one node with all its edges. The difference of two costs changes by at
most s max(D, D'), since both numbers of edges move in the same direction. So each quotient, and the
maximum of the quotients, changes by at most s. Independent discrete Laplace noise Z of scale 2 s /
epsilon, in units of u, is added to each score. The candidate with the smallest sum is chosen; of
several, the smallest bound. Given the noise of all others, D is chosen iff its own Z is at most
some threshold m. Between neighbours m moves by at most 2 s, so the probability of Z <= m changes by
a factor of at most e**epsilon. So the choice is epsilon-DP, with delta = 0. It depends on the graph
through the numbers e(D) alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from dp_transforms.mechanisms.decimals import Number, positive_integer, positive_rational
from dp_transforms.mechanisms.discrete_noise import DiscreteLaplace
from dp_transforms.mechanisms.randomness import RandomTape
from dp_transforms.mechanisms.tape_contexts import DEGREE_BOUND, context_of_numbers

_CHANNEL = "scores of degree bounds"


@dataclass(frozen=True)
class DegreeBoundMechanism:
    """Chooses one of several public bounds on degrees, for few dropped edges and little noise.

    Args:
      epsilon: the privacy loss; a float stands for the decimal that it prints as.
      bounds: the candidates, ascending; each divides the last one.
      noise: the expected error of the noise at each bound, in edges: public integers.
      directed: whether the graph's edges have a direction.

    Raises:
      ValueError: an argument is out of range.

    >>> mechanism = DegreeBoundMechanism(100, bounds=(2, 4, 8), noise=(1, 2, 4))
    >>> mechanism.choose({2: 40, 4: 60, 8: 61})
    4
    """

    stable_name: ClassVar[str] = "DegreeBoundMechanism"

    epsilon: Number
    bounds: tuple[int, ...]
    noise: tuple[int, ...]
    directed: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive_rational("epsilon", self.epsilon))
        for bound in self.bounds:
            positive_integer("bounds", bound)
        ascending = sorted(set(self.bounds))
        if list(self.bounds) != ascending or not ascending:
            raise ValueError("bounds must be at least one number, and ascend")
        if any(self.bounds[-1] % bound for bound in self.bounds):
            raise ValueError("each of the bounds must divide the last one")
        if len(self.noise) != len(self.bounds):
            raise ValueError("noise must have a number for each of the bounds")
        # A scale out of range is refused here, and not at a release.
        _ = self._score_noise

    @cached_property
    def _score_noise(self) -> DiscreteLaplace:
        """Returns the noise of scores. Its unit is 1 / (last bound), so that scores are
        integers."""
        sensitivity = (2 if self.directed else 1) * self.bounds[-1]
        return DiscreteLaplace(2 * sensitivity / Fraction(self.epsilon))

    def scores(self, kept: Mapping[int, int]) -> list[int]:
        """Returns the PRIVATE score u(D) of each bound D, see the module. Scores are multiplied by
        the last bound, which makes them integers.

        Args:
          kept: {bound: number of edges that the projection to this bound keeps}.
        """
        costs = {
            bound: noise - kept[bound] for bound, noise in zip(self.bounds, self.noise, strict=True)
        }

        def score(bound: int) -> int:
            return max(
                (costs[bound] - costs[other]) * (self.bounds[-1] // max(bound, other))
                for other in self.bounds
            )

        return [score(bound) for bound in self.bounds]

    def choose(self, kept: Mapping[int, int], tape: RandomTape | None = None) -> int:
        """Returns the chosen bound.

        Args:
          kept: see ``scores``; private.
          tape: by default a fresh tape from the operating system.

        Raises:
          ValueError: the tape is claimed.
        """
        claimed = (tape or RandomTape.from_os()).claim(_CHANNEL)
        noise = self._score_noise.sample(claimed, _CHANNEL, len(self.bounds)).tolist()
        noisy = [score + added for score, added in zip(self.scores(kept), noise, strict=True)]
        return self.bounds[noisy.index(min(noisy))]

    def choose_under(self, kept: Mapping[int, int], tape_of: Callable[[str], RandomTape]) -> int:
        """Returns a choice under a job's secret. A retry repeats it, while other data give other
        noise.

        Args:
          kept: see ``scores``; private.
          tape_of: returns the tape of a context, as ``JobSecret.tape`` does.
        """
        numbers = [kept[bound] for bound in self.bounds]
        return self.choose(kept, tape_of(context_of_numbers(DEGREE_BOUND, numbers, self)))
