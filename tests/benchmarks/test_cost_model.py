from benchmarks.cost_model import shuffled
from benchmarks.throughput_data import purchases, write


def test_what_is_shuffled_is_counted_as_workers_send_it(tmp_path):
    # Not compressed, pairs of these records take 7.4 bytes each, and counts a seventh of that.
    found = shuffled(write(tmp_path / "purchases.parquet", purchases(50_000)))
    assert set(found) == {"user", "partition"}
    assert 0 < found["partition"] < 0.6 * 51_840
    assert 150_000 < found["user"] < 0.7 * 370_008
