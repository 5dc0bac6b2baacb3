"""Frequency lists that are public: what a mechanism returns."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from dp_transforms.mechanisms.frequency_list import FrequencyList, Integers

if TYPE_CHECKING:
    from dp_transforms.mechanisms.noisy_coordinates import NoisyCoordinates
    from dp_transforms.mechanisms.partition.mechanism import PartitionMechanism

_SHOWN = 6
_SHOWN_ROWS = 20


class ReleasedList(FrequencyList):
    """A frequency list that a mechanism has released. It serves wherever a FrequencyList does.

    Unlike a private list it shows what is in it: as text it is the lines of its CSV file.

    Args:
      frequencies, multiplicities: see ``FrequencyList``.
      mechanism: what released it; None for one that was read from a file.
      coordinates: the noisy coordinates from which it was decoded, if it was.

    >>> released = ReleasedList([5, 2, 1], [1, 1, 3])
    >>> released
    ReleasedList([5, 2, 1], [1, 1, 3])
    >>> print(released)
    frequency,multiplicity
    5,1
    2,1
    1,3
    """

    __slots__ = ("_coordinates", "_mechanism")

    def __init__(
        self,
        frequencies: Integers = (),
        multiplicities: Integers = (),
        mechanism: PartitionMechanism | None = None,
        coordinates: NoisyCoordinates | None = None,
    ):
        super().__init__(frequencies, multiplicities)
        self._mechanism = mechanism
        self._coordinates = coordinates

    @property
    def mechanism(self) -> PartitionMechanism | None:
        """The mechanism that released the list, with all that is known of its noise."""
        return self._mechanism

    @property
    def coordinates(self) -> NoisyCoordinates | None:
        """All that the release tells of the private list; None unless it was decoded."""
        return self._coordinates

    @property
    def cost(self) -> dict[str, Any] | None:
        """The cost of the release: epsilon and delta, if no user has more partitions than declared.

        A mechanism takes the caller's word for it: only what bounds records can see to it.

        >>> from dp_transforms.mechanisms import IntegerPartitionMechanism
        >>> mechanism = IntegerPartitionMechanism(epsilon=0.5, sensitivity=2)
        >>> mechanism.release(FrequencyList([7, 1], [1, 9])).cost
        {'epsilon': 0.5, 'delta': 0.0, 'declared_max_partitions_per_user': 2}
        """
        if self._mechanism is None:
            return None
        return {
            "epsilon": self._mechanism.epsilon_cost,
            "delta": self._mechanism.failure_probability,
            "declared_max_partitions_per_user": self._mechanism.sensitivity,
        }

    def to_dict(self) -> dict[str, list[int]]:
        """The columns.

        >>> ReleasedList([5, 1], [1, 3]).to_dict()
        {'frequency': [5, 1], 'multiplicity': [1, 3]}
        """
        columns = (self.frequencies.tolist(), self.multiplicities.tolist())
        return dict(zip(("frequency", "multiplicity"), columns, strict=True))

    # How a public list is shown is known to what may see public lists alone, and is asked for late:
    # a mechanism needs none of it.

    def to_arrow(self) -> Any:
        """The columns as a ``pyarrow.Table``, and what the release cost as its metadata."""
        from dp_transforms.reports import lists

        return lists.to_arrow(self)

    def to_pandas(self) -> Any:
        """The columns as a ``pandas.DataFrame``, and what the release cost as its ``attrs``."""
        from dp_transforms.reports import lists

        return lists.to_pandas(self)

    def plot(self, path: str | os.PathLike[str] | None = None, confidence: float = 0.99) -> Any:
        """A picture with error bars; see ``reports.lists.plot_list``."""
        from dp_transforms.reports import lists

        return lists.plot_list(self, path, confidence)

    def __str__(self) -> str:
        return "\n".join(["frequency,multiplicity", *(f"{n},{m}" for n, m in self)])

    def __repr__(self) -> str:
        shown = [
            ", ".join([*map(str, part[:_SHOWN].tolist()), *(["..."] if len(self) > _SHOWN else [])])
            for part in (self.frequencies, self.multiplicities)
        ]
        return f"ReleasedList([{shown[0]}], [{shown[1]}])"

    def _repr_html_(self) -> str:
        rows = [f"<tr><td>{n:,}</td><td>{m:,}</td></tr>" for n, m in self][:_SHOWN_ROWS]
        if len(self) > _SHOWN_ROWS:
            rows.append("<tr><td>...</td><td>...</td></tr>")
        cost = "".join(f", {name} {value}" for name, value in (self.cost or {}).items())
        return (
            "<table><thead><tr><th>frequency</th><th>multiplicity</th></tr></thead>"
            f"<tbody>{''.join(rows)}</tbody></table>"
            f"<p>{self.distinct:,} partitions, total {self.total:,}{cost}</p>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        told = (self._mechanism, self._coordinates)
        return ReleasedList, (self.frequencies, self.multiplicities, *told)
