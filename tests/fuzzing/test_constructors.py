"""Public constructors under arguments of every kind: a value, or a clear error.

Errors are ValueErrors that name something and TypeErrors, never failures from deep inside; and
whatever the arguments are, the answer comes soon.
"""

import enum
import inspect
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import dp_transforms
from dp_transforms import budget, mechanisms
from dp_transforms.mechanisms import Eta, FrequencyList, RandomTape, selection
from tests.fuzzing.shared import fuzz, no_hang

# Not made by users.
LEFT_OUT = {
    *["BudgetExceededError", "CorruptedLedgerError", "FailuresUsedUpError"],
    *["JobExistsError", "PrivacyUnitError"],
    *[
        "Ledger",
        "LedgerLine",
        "Reservation",
        "AllRecordsRelease",
        "ListRelease",
        "NamesRelease",
        "GroupReleases",
        "AttributeReleases",
        "HierarchyReleases",
        "ListAndNames",
        "DegreesOfUsers",
    ],
    *["Releases", "Comparison", "Series"],
}
PUBLIC = {
    name: thing
    for module in (dp_transforms, mechanisms, selection, budget)
    for name in dir(module)
    for thing in [getattr(module, name)]
    if inspect.isclass(thing)
    and not inspect.isabstract(thing)
    and not issubclass(thing, enum.Enum)
    and getattr(thing, "__module__", "").startswith("dp_transforms")
    and name not in LEFT_OUT
}

PLAUSIBLE = {
    "epsilon": [1, 0.5, Fraction(1, 3), 1e-9, 20],
    "delta": [1e-5, 0.5, 1e-300],
    "eta": [Eta(1, 1, 1), Eta(3, 2, 1)],
    "frequency_list": [FrequencyList([3, 1], [1, 2]), FrequencyList()],
    "strategy": ["optimal", "auto", "renyi_rounds"],
    "secret": [dp_transforms.JobSecret.insecure_for_testing(1), bytes(32)],
    "key": [bytes(32)],
    "tape": [RandomTape(bytes(32))],
    "frequencies": [[3, 1], np.array([5, 2])],
    "multiplicities": [[1, 2], np.array([1, 9])],
    "upper": [[3, 3], [9]],
}
EDGES = [math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, 1e308]
EDGES += [2**31, 2**53, 2**63, 2**64, 10**30, -(2**63)]
ODD = [Decimal("0.1"), Decimal("NaN"), Decimal("Infinity"), np.float64(1), np.int8(3), object()]
ODD += [float, np.array([1.5]), np.array([[1]]), 1j, None, True, False, {}]
JUNK = st.one_of(
    st.sampled_from(EDGES),
    st.sampled_from(ODD),
    st.integers(-3, 12),
    st.integers(),
    st.floats(),
    st.fractions(max_denominator=100),
    st.text(max_size=4),
    st.binary(max_size=40),
    st.lists(st.integers(-2, 5), max_size=4),
    st.lists(st.floats(), max_size=3),
)
LARGE_WORK = ("count", "max_partitions_per_user", "points")


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(PUBLIC))
@fuzz
@given(data=st.data())
def test_arguments_of_every_kind(name, data):
    thing = PUBLIC[name]
    chosen, other = [], []
    for parameter in inspect.signature(thing).parameters.values():
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            (chosen if parameter.default is parameter.empty else other).append(parameter.name)
    if other:
        chosen += data.draw(st.lists(st.sampled_from(other), unique=True, max_size=2))
    arguments = {}
    for parameter in chosen:
        # Half of the time something that fits, so that the others are looked at too.
        fits = PLAUSIBLE.get(parameter, [1, 2, 3])
        arguments[parameter] = data.draw(st.one_of(st.sampled_from(fits), JUNK))
    # Numbers that are in order and ask for a lot: of draws, say.
    large = [
        arguments[parameter]
        for parameter in LARGE_WORK
        if isinstance(arguments.get(parameter), int)
    ]
    assume(all(value <= 10**6 for value in large))
    with no_hang():
        try:
            made = thing(**arguments)
        except (ValueError, TypeError) as error:
            assert str(error) and len(str(error)) < 2000
        else:
            repr(made)
