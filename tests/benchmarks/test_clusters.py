"""Times on a cluster are held against those in process; no cluster is needed to see that."""

import pathlib

import pytest

from benchmarks import clusters
from benchmarks.throughput_data import clicks, write
from runner_configs.flink import cluster
from runner_configs.parts import Unavailable

# Of the smallest file and of a large one, in process and on Flink.
TIMES = {"clicks2000": (0.5, 5.0), "clicks3000": (3.5, 9.5)}


@pytest.fixture
def done(monkeypatch):
    """The steps that are done, on a cluster that is none and in made-up times."""
    done = []

    def seconds(path, *options):
        name, on_flink = pathlib.Path(path).stem, bool(options)
        done.append((name, on_flink))
        # Of each three one is slow and one fast, which the median leaves out.
        return TIMES[name][on_flink] + (0, 1, -0.25)[done.count((name, on_flink)) % 3]

    monkeypatch.setattr(cluster, "up", lambda: done.append("up"))
    monkeypatch.setattr(cluster, "down", lambda: done.append("down"))
    monkeypatch.setattr(clusters, "seconds", seconds)
    monkeypatch.setattr(clusters, "LARGE", 3_000)
    monkeypatch.setattr(clusters, "SHAPES", {"clicks": clicks})
    return done


def test_the_table_holds_flink_against_the_same_in_process(tmp_path, done):
    *_, smallest, large, first = clusters.rows(tmp_path, 3)
    assert smallest == "| 2,000 clicks | 0.5 s | 5.0 s | 4.8 to 6.0 s | 4.5 s | 10.00 |  |"
    # Of what exceeds the smallest: 4.5 s on Flink, 3 s in process.
    assert large == "| 3,000 clicks | 3.5 s | 9.5 s | 9.2 to 10.5 s | 6.0 s | 2.71 | 1.50 |"
    assert first.endswith("of 2,000 records, took 6.0 s.")
    assert done[0] == "up" and done[-1] == "down"
    turns = [(name, on_flink) for name in TIMES for _ in range(3) for on_flink in (False, True)]
    assert done[1:-1] == [("clicks2000", True), *turns]


def test_a_cluster_is_stopped_when_a_job_fails(tmp_path, done, monkeypatch):
    monkeypatch.setitem(TIMES, "clicks3000", ())
    with pytest.raises(IndexError):
        list(clusters.rows(tmp_path, 3))
    assert done[-1] == "down"


def test_what_is_missing_is_said_in_a_line(tmp_path, done, monkeypatch):
    def up():
        raise Unavailable("there is no java")

    monkeypatch.setattr(cluster, "up", up)
    monkeypatch.setattr("sys.argv", ["clusters", f"--output={tmp_path}"])
    with pytest.raises(SystemExit, match=r"^error: there is no java$"):
        clusters.main()
    assert not list(tmp_path.iterdir())


def test_the_command_is_one_that_runs(tmp_path):
    assert clusters.seconds(write(tmp_path / "records.parquet", clicks(100))) > 0
    with pytest.raises(RuntimeError, match="no file matches"):
        clusters.seconds(str(tmp_path / "none.parquet"))
