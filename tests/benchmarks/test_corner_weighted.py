"""The page of corner-weighted releases says what is off, and skips lists that are not there."""

from benchmarks import corner_weighted
from benchmarks.engine import Measurement


def test_means_and_times_that_are_off_are_counted(monkeypatch):
    small = "power law 1000 8"
    monkeypatch.setattr(corner_weighted, "MEANS", {small: {1: 99.0}, "linkedin": {1: 1.0}})
    monkeypatch.setattr(corner_weighted, "TIMES", [(small, 1, 0.5), (small, 1, 1.5)])
    monkeypatch.setattr(corner_weighted, "measure_once", lambda *_: Measurement(1.0, 50.0))
    report = corner_weighted.Report(None)
    rows = [line for line in report.lines(20, 3) if line.startswith(("| power", "| linkedin"))]
    assert len(rows) == 3
    assert rows[0] == "| power law | 1,000 | 8 | 1 | 1.00 | 0.5 | 50 |"
    assert "| 99.00 |" in rows[2]
    assert report.faults == 2
