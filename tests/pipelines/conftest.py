import pathlib

import pytest


@pytest.fixture
def repository():
    """The root of the checkout."""
    return pathlib.Path(__file__).parents[2]
