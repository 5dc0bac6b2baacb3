import pytest

from examples.compose_transforms import VISITS, release


@pytest.mark.thorough
def test_the_example_releases_frequencies_and_names(tmp_path):
    release(VISITS, str(tmp_path))
    (frequencies,) = tmp_path.glob("frequencies*.csv")
    (names,) = tmp_path.glob("pages*.txt")
    pages = names.read_text().split()
    # Half, and a third, of 5,000 visitors saw these, of which each visitor counts for two at most.
    assert {"/0", "/1", "/2"} <= set(pages) <= {f"/{n}" for n in range(700)}
    released = [int(line.split(",")[0]) for line in frequencies.read_text().split()]
    assert 2_000 < released[0] < 3_500
    assert released[1:] == sorted(set(released[1:]), reverse=True)
