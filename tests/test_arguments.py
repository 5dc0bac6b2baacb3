"""One rule for the arguments of all transforms: what is done may be given by position, in one
order; how it is done is given by name."""

import inspect

import apache_beam as beam
import pytest

import dp_transforms

BY_POSITION = (
    "source", "data", "user", "partition", "attributes", "periods", "strategy", "degree_bound",
    "epsilon", "delta", "max_partitions_per_user", "degree", "max_degree", "cap",
)  # fmt: skip
TRANSFORMS = [
    name
    for name in dp_transforms.__all__
    if isinstance(member := getattr(dp_transforms, name), type)
    and issubclass(member, beam.PTransform)
]


@pytest.mark.parametrize("name", TRANSFORMS)
def test_what_is_done_comes_first_and_how_has_a_name(name):
    parameters = inspect.signature(getattr(dp_transforms, name)).parameters.values()
    positional = [
        parameter.name
        for parameter in parameters
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    assert positional == sorted(positional, key=BY_POSITION.index)
    optional = {
        parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY
    }
    # Where kappa has a name, so have all.
    is_by_name = "max_partitions_per_user" in optional
    assert is_by_name or not optional & {"cap", "degree", "max_degree"}
