"""Any number of several releases, in tables and pictures; and what was declared of a graph."""

import datetime
import itertools
import json

import nbformat
import numpy as np
import pytest
from IPython.core.formatters import DisplayFormatter
from nbclient import NotebookClient

import dp_transforms as dp
from dp_transforms.mechanisms import FrequencyList
from dp_transforms.mechanisms.noisy_coordinates import COLUMNS, ROWS
from dp_transforms.postprocessing.declared import Declared, DeclaredIntervals
from dp_transforms.postprocessing.estimates import (
    COLLISIONS,
    ENTROPY,
    SHARE,
    SMALL,
    SMALL_SHARE,
    SUM,
    TOTAL,
    ReleaseIntervals,
)

DAYS = [f"2026-01-{day:02}" for day in range(1, 21)]
# As many users as the day says have the page of the day and "all".
VISITS = {
    "who": [f"{day} {user}" for day in range(1, 21) for user in range(day) for _ in range(2)],
    "page": [page for day in range(1, 21) for user in range(day) for page in ("all", f"p{day}")],
    "when": [DAYS[day - 1] for day in range(1, 21) for user in range(day) for _ in range(2)],
}
EXACT = {"epsilon": 400, "max_periods_per_user": 1, "max_partitions_per_user": 2}
WEEKS = {"time": "when", "period": "week", "periods": "2026-01-08..2026-01-15"}


def weeks(**changes):
    return dp.release_by_period(VISITS, "who", "page", **EXACT | WEEKS | changes)


def test_days_left_out_are_left_out_of_weeks_and_months(tmp_path):
    released = weeks()
    assert list(released) == ["2026-01-05", "2026-01-12"]
    # The week of the fifth has the eighth to the eleventh alone.
    first, second = (release.frequency_at(1).value for release in released.values())
    assert (first, second) == (sum(range(8, 12)), sum(range(12, 16)))
    (month,) = weeks(period="month").values()
    assert month.frequency_at(1).value == sum(range(8, 16))
    assert "of the days 2026-01-08 to 2026-01-15 alone" in released.privacy
    released.save(tmp_path / "weeks")
    assert dict(dp.load(tmp_path / "weeks")) == dict(released)
    # Nothing is told of days of whole ones.
    assert "alone" not in weeks(period="day").privacy


def test_days_left_out_are_left_out_of_names():
    selected = dp.select_by_period(VISITS, "who", "page", **WEEKS | EXACT, delta=0.4, counts=True)
    for name, users in (("2026-01-05", sum(range(8, 12))), ("2026-01-12", sum(range(12, 16)))):
        rows = selected[name].names.to_pylist()
        counts = {row["page"]: row["noisy_count"] for row in rows}
        assert abs(counts["all"] - users) < 3
        assert "p7" not in counts and "p16" not in counts


@pytest.mark.parametrize(
    ("text", "words", "first", "second"),
    [
        ("at least 9", "partitions with at least 9", 4, 5),
        ("partitions with at least 1,000", "partitions with at least 1,000", 0, 0),
        ("rank 2", "users at rank 2", 11, 15),
        ("users at rank 2", "users at rank 2", 11, 15),
        ("top 1", "share of the top 1", 0.5, 0.5),
        ("total", "total", 76, 108),
    ],
)
def test_any_number_has_a_series_and_a_difference(text, words, first, second):
    released = weeks()
    series = released.series(text)
    assert series.number == words and list(series) == ["2026-01-05", "2026-01-12"]
    assert [series[week].value for week in series] == pytest.approx([first, second])
    assert "2026-01-05" in series and "2026-01-06" not in series and len(series) == 2
    earlier, later = released.values()
    compared = dp.compare(earlier, later, numbers=text)
    assert list(compared) == [words] and words in compared and len(compared) == 1
    assert compared[words].value == pytest.approx(second - first)
    (axes,) = released.plot(number=text).axes
    (line,) = axes.lines
    assert line.get_ydata() == pytest.approx([first, second])
    days = [datetime.datetime(2026, 1, 5), datetime.datetime(2026, 1, 12)]
    assert list(line.get_xdata()) == days


BAD = ["atleast 3", "at least 0", "rank x", "at least 9" * 20, 3, None, ["p"]]


@pytest.mark.parametrize("text", BAD)
def test_other_questions_are_refused(text):
    with pytest.raises(ValueError, match="a number must be 'partitions', 'total', 'at least N'"):
        weeks().series(text)


def test_weeks_are_named_in_pages(tmp_path):
    weeks().report(tmp_path / "weeks.html")
    assert (tmp_path / "weeks.html").read_text().count("week of 2026-01-12") >= 2


@pytest.mark.parametrize("order", [1, -1])
def test_both_lists_are_inside_the_frame(order):
    small, large = (
        dp.release_counts(counts, epsilon=40, max_partitions_per_user=1)
        for counts in ([9] * 50, [90_000] * 3)
    )
    (axes,) = dp.compare(*(small, large)[::order]).plot().axes
    for line in axes.lines:
        for values, ends in zip(line.get_data(), (axes.get_xlim(), axes.get_ylim()), strict=True):
            assert ends[0] < min(values) and max(values) < ends[1]
    assert axes.get_ylim()[0] == 0.5


CELL = """
import dp_transforms as dp
release = dp.release_counts([9, 3], epsilon=1, max_partitions_per_user=1)
release.plot()
"""


def test_a_plot_has_a_picture_for_notebooks():
    release = dp.release_counts([9, 3], epsilon=1, max_partitions_per_user=1)
    shown, _ = DisplayFormatter().format(release.plot())
    assert shown["image/png"].startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_cell_that_ends_with_a_plot_shows_a_picture():
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    (shown,) = notebook.cells[0].outputs
    assert shown["data"]["image/png"].startswith("iVBOR")


class Found(ReleaseIntervals):
    """Intervals of one place each."""

    def __init__(self, private, most=None):
        self.released = private

    def _ends(self, name, index, value, confidence):
        return value, value

    def bands(self, confidence=0.95):
        return self.released, self.released

    def _rate_curve(self, confidence):
        raise NotImplementedError


def graphs(nodes):
    """The degrees of all graphs with so many nodes, at most."""
    pairs = [(a, b) for a in range(nodes) for b in range(a)]
    for chosen in range(2 ** len(pairs)):
        degrees = np.zeros(nodes, int)
        for place, pair in enumerate(pairs):
            degrees[list(pair)] += chosen >> place & 1
        yield FrequencyList.from_counts(degrees[degrees > 0].tolist())


def test_what_is_true_is_never_cut_away():
    for degrees in graphs(4):
        largest = max(degrees.frequencies.tolist(), default=1)
        for declared in (
            Declared(nodes=4),
            Declared(nodes=4, max_total=degrees.total),
            Declared(degree_bound=largest),
            Declared(nodes=4, degree_bound=largest),
        ):
            cut = DeclaredIntervals(Found(degrees), declared)
            assert not cut.contradicts and cut.bands() == (degrees, degrees)
            numbers = [(name, 0) for name in (TOTAL, ENTROPY, COLLISIONS)]
            numbers += itertools.product((ROWS, COLUMNS, SUM, SHARE), range(1, 6))
            # A limit above every frequency is a question too.
            numbers += itertools.product((SMALL, SMALL_SHARE), range(1, 8))
            for name, index in numbers:
                estimate = cut._estimate(name, 0.95, index)
                assert (estimate.low, estimate.high) == (estimate.value, estimate.value)
    four = DeclaredIntervals(Found(FrequencyList([7, 2, 1], [1, 1, 9])), Declared(nodes=4))
    assert four.contradicts
    assert four.bands()[0] == FrequencyList([3, 2, 1], [1, 1, 2])
    # An enforced bound is never false: noise alone may lie above it.
    three = DeclaredIntervals(Found(FrequencyList([7, 2, 1], [1, 1, 9])), Declared(degree_bound=3))
    assert not three.contradicts
    assert three.bands()[0] == FrequencyList([3, 2, 1], [1, 1, 9])


@pytest.mark.parametrize("degree_bound", [None, 5])
def test_no_answer_about_projected_degrees_exceeds_their_bound(degree_bound, tmp_path):
    rng = np.random.default_rng(7)
    edges = rng.integers(0, 400, (1_500, 2)).tolist()
    release = dp.degrees(
        edges, 0, 1, epsilon=1, privacy_unit="node", degree_bound=degree_bound,
        secret=dp.JobSecret.insecure_for_testing(1),
    )  # fmt: skip
    bound = release.statement["degree_bound"]
    loose = DeclaredIntervals(release.intervals._intervals, Declared())
    assert loose.frequency_at(1).high > bound == release.frequency_at(1).high
    assert release.partitions_with_at_least(bound + 1).high == 0
    assert max(release.intervals.bands()[1].frequencies) <= bound and not release.contradiction
    release.save(tmp_path / "out")
    assert repr(dp.load(tmp_path / "out")) == repr(release)


def test_intervals_of_the_model_keep_to_an_enforced_bound(tmp_path):
    star = [("hub", str(leaf)) for leaf in range(60)]
    release = dp.degrees(
        star,
        epsilon=1,
        privacy_unit="node",
        degree_bound=10,
        secret=dp.JobSecret.insecure_for_testing(11),
    )
    release.save(tmp_path / "release")
    for loaded in (release, dp.load(tmp_path / "release")):
        largest = loaded.model.frequency_at(1)
        assert largest.value <= 10 and largest.high <= 10


def test_a_false_number_of_nodes_is_told(tmp_path):
    rng = np.random.default_rng(3)
    edges = rng.integers(0, 600, (2_000, 2)).tolist()
    with pytest.warns(UserWarning, match="contradicts the declared nodes of 100") as warned:
        release = dp.degrees(edges, 0, 1, epsilon=1, nodes=100)
    assert warned[0].filename == __file__
    number = release.number_of_partitions()
    assert number.value == number.low == number.high == release.released.distinct == 100
    assert release.to_pandas()["high"].max() <= 99 and "contradicts" in repr(release)
    release.save(tmp_path / "graph")
    assert repr(dp.load(tmp_path / "graph")) == repr(release)
    assert json.loads((tmp_path / "graph/privacy.json").read_text())["nodes"] == 100
    release.report(tmp_path / "page.html")
    assert "contradicts the declared nodes" in (tmp_path / "page.html").read_text()
    true = dp.degrees(edges, 0, 1, epsilon=1, nodes=600)
    assert not true.contradiction and true.number_of_partitions().high <= 600
