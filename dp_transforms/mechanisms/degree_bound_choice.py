"""Chooses the bound on degrees to which a graph is projected, under epsilon-DP for nodes.

A small bound D drops many edges, and a large one needs much noise: the list of projected degrees
has sensitivity 2 D. For each candidate D, let cost(D) be the public error that noise is expected to
make, minus the number e(D) of edges that the projection keeps. All candidates share the edges of
the graph, so the least cost is the least sum of dropped edges and noise.

The numbers e(D) have different sensitivities: one node changes e(D) by between 0 and s D, for s =
1, or s = 2 in a directed graph (``degree_projection``, corollary). So costs are compared as in the
generalized exponential mechanism (Raskhodnikova and Smith, "Efficient Lipschitz extensions for
high-dimensional graph statistics and node private degree distributions", 2015; Day, Li and Lyu 2016
choose a bound by an exponential mechanism). The score of D is

    u(D) = max over candidates D' of (cost(D) - cost(D')) / max(D, D').

It is at least 0, and 0 for the least cost.

Privacy. Neighbours differ by one node with all its edges. The differences of two costs change by at
most s max(D, D'), since both numbers of edges move in the same direction, so each quotient and
their maximum change by at most s. Independent discrete Laplace noise Z of scale 2 s / epsilon, in
the units of u, is added to each score, and the candidate with the smallest sum is chosen; the
smaller bound, if two are equal. Given the noise of all others, D is chosen iff its own Z is at most
some integer m, which between neighbours moves by at most 2 s. The probability of Z <= m changes by
a factor of at most e to the epsilon then, for every m. So the choice is epsilon-DP, with delta = 0.
It depends on the graph through e(D) alone.
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
    """Chooses one of several public bounds on degrees: few edges are dropped, and little is noise.

    Args:
      epsilon: the privacy loss; a float stands for the decimal that it prints as.
      bounds: the candidates, ascending; each divides the last one.
      noise: the error, in edges, that noise is expected to make at each bound: public integers.
      directed: the graph's edges have a direction.

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
        # This refuses a scale out of range now.
        _ = self._noise

    @cached_property
    def _noise(self) -> DiscreteLaplace:
        """Returns the noise of scores in units of 1 / (last bound), in which they are integers."""
        sensitivity = (2 if self.directed else 1) * self.bounds[-1]
        return DiscreteLaplace(2 * sensitivity / Fraction(self.epsilon))

    def scores(self, kept: Mapping[int, int]) -> list[int]:
        """Returns the score of each bound, times the last bound: PRIVATE.

        Args:
          kept: the number of edges that the projection to each bound keeps.
        """
        costs = [noise - kept[bound] for bound, noise in zip(self.bounds, self.noise, strict=True)]
        last = self.bounds[-1]
        return [
            max(
                (cost - other) * (last // max(bound, other_bound))
                for other_bound, other in zip(self.bounds, costs, strict=True)
            )
            for bound, cost in zip(self.bounds, costs, strict=True)
        ]

    def choose(self, kept: Mapping[int, int], tape: RandomTape | None = None) -> int:
        """Chooses a bound.

        Args:
          kept: see ``scores``. Private.
          tape: by default a fresh tape from the operating system.

        Raises:
          ValueError: the tape is claimed.
        """
        claimed = (tape or RandomTape.from_os()).claim(_CHANNEL)
        noise = self._noise.sample(claimed, _CHANNEL, len(self.bounds)).tolist()
        noisy = [score + added for score, added in zip(self.scores(kept), noise, strict=True)]
        return self.bounds[noisy.index(min(noisy))]

    def choose_under(self, kept: Mapping[int, int], tape_of: Callable[[str], RandomTape]) -> int:
        """Chooses under a job's secret, by ``JobSecret.tape``: a retry repeats the choice, while
        other data give other noise."""
        numbers = [kept[bound] for bound in self.bounds]
        return self.choose(kept, tape_of(context_of_numbers(DEGREE_BOUND, numbers, self)))
