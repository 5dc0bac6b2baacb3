import pytest

pytest.importorskip("pyiceberg", reason="needs pyiceberg")

from pyiceberg.catalog import load_catalog

from examples.iceberg_table import NAME, made_up_shop, release_here, release_in_pipeline
from tests.quick_beam import IN_PROCESS


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    return made_up_shop(str(tmp_path_factory.mktemp("shop")))


def largest_two_are_right(released):
    """Both pages have 1,000 visitors, and may have the same released number."""
    sizes = [users for users, pages in released for _ in range(pages)]
    return all(abs(users - 1_000) < 200 for users in sizes[:2])


def test_a_scan_is_released_without_deleted_rows(shop):
    catalog = load_catalog(**shop)
    # 3,000 visitors, some of them twice, and one more; the third page is deleted.
    assert catalog.load_table(NAME).scan().count() == 2_000 + 667 + 1
    release = release_here(catalog)
    # At epsilon / kappa = 1/2 noise of 100 has a probability below 1e-9.
    assert abs(release.released.total - 2_001) < 200
    assert largest_two_are_right(release.released)


@pytest.mark.thorough
def test_a_pipeline_reads_every_data_file_of_the_snapshot(shop, tmp_path):
    release_in_pipeline(shop, str(tmp_path), runner=IN_PROCESS)
    (names,) = tmp_path.glob("pages*.txt")
    (frequencies,) = tmp_path.glob("frequencies*.csv")
    # A thousand visitors are missed, and one is named, with a probability below 1e-5.
    assert sorted(names.read_text().split()) == ["/0", "/1"]
    lines = frequencies.read_text().split()
    assert largest_two_are_right(tuple(map(int, line.split(","))) for line in lines)
