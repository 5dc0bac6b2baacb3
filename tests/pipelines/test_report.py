import csv
import html
import json
import pathlib
import re
import shutil
import subprocess
from fractions import Fraction

import pytest

from dp_transforms import compare, load, mechanisms
from dp_transforms.files import filenames
from dp_transforms.files.filenames import COMPARISON_FILE, LISTS_HEADER, REPORT_FILE
from dp_transforms.files.output import csv_lines
from dp_transforms.mechanisms.partition.registry import partition_mechanism
from dp_transforms.postprocessing import guessing_metrics
from dp_transforms.postprocessing.intervals import CoordinateIntervals, intervals_of
from dp_transforms.postprocessing.walk_intervals import WalkIntervals
from dp_transforms.releases import ListSpec
from dp_transforms.releases.frequency_list import ListRelease
from dp_transforms.releases.lists import parse_lists
from dp_transforms.reports import page as page_module
from pipelines.__main__ import main as run
from pipelines.report import main, write_comparison, write_report
from pipelines.show import main as show
from tests.jobs import without_digests
from tests.tapes import InsecureSeededTape

pytest.importorskip("matplotlib", reason="reports are drawn with matplotlib (extra: report)")

COLUMNS = "--user_column=user --partition_column=page"
BROWSERS = map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
CHROMIUM = next(filter(None, BROWSERS), None)

# What a reader would stumble over: text cut off at the side, text on text, pictures that are empty.
LOOK = """
<script>
window.onload = () => {
  const texts = [...document.querySelectorAll("h1, h2, p, figcaption, th, td, img")];
  const boxes = texts.map(t => t.getBoundingClientRect());
  let overlaps = 0, outside = 0;
  boxes.forEach((a, i) => {
    if (a.right > innerWidth + 1 || a.left < 0) outside++;
    boxes.slice(i + 1).forEach(b => {
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 1 && high > 1) overlaps++;
    });
  });
  const sizes = [...document.images].map(i => [i.naturalWidth, i.clientWidth]);
  const fonts = texts.map(t => parseFloat(getComputedStyle(t).fontSize));
  parent.postMessage(JSON.stringify({page: document.URL, width: innerWidth, overlaps, outside,
    sizes, scroll: document.documentElement.scrollWidth, smallest: Math.min(...fonts),
    external: performance.getEntriesByType("resource").filter(
      r => !r.name.startsWith("data:")).length}), "*");
};
</script>
"""

# Chromium has no windows as narrow as a phone, but frames; one start of it looks at all pages.
WIDTHS = (1280, 390)
SEEN = """
<title></title><style>body { margin: 0 }</style>
<script>
const seen = [];
onmessage = message => { document.title = `[${seen.push(message.data) && seen}]` };
</script>
"""


def made(where, job, lines, *flags, source="--input"):
    """The directory in which a job has written a release of these lines of CSV."""
    (where / "records.csv").write_text("\n".join([*lines, ""]))
    places = [f"{source}={where}/records.csv", f"--output={where}/release"]
    assert run([job, *places, *" ".join(flags).split()]) == 0
    return where / "release"


def released(*arguments, **options):
    """A fixture: such a directory, for all tests here."""

    @pytest.fixture(scope="module")
    def directory(tmp_path_factory):
        return made(tmp_path_factory.mktemp("release"), *arguments, **options)

    return directory


@pytest.fixture
def no_drawing(monkeypatch):
    """Leaves out what takes most of a page's time, in tests of other things."""
    monkeypatch.setattr(page_module, "png", lambda figure: b"")


PUBLIC = mechanisms.ReleasedList([90_000, 4_000, 300, 20, 3, 1], [1, 2, 40, 900, 10_000, 200_000])
LIST = "--epsilon=1 --max_partitions_per_user=2 --report"
directory = released("release", str(PUBLIC).split(), LIST, source="--frequency_list")


@pytest.mark.usefixtures("no_drawing")
@pytest.mark.parametrize(
    ("mechanism", "enforced"),
    [
        (mechanisms.FrobeniusMechanism(0.4, 3), True),
        (mechanisms.FrobeniusMechanism(eta=mechanisms.Eta(1, 1, 1), sensitivity=3), False),
        (partition_mechanism(6, 3, "geometric"), False),
        (partition_mechanism(0.4, 3, "exponential"), True),
    ],
    ids=repr,
)
def test_the_page_tells_the_intervals_of_any_mechanism(tmp_path, mechanism, enforced):
    released = mechanism.release(PUBLIC, InsecureSeededTape(5))
    ListRelease(released, ListSpec(mechanism).statement(None, enforced)).save(tmp_path)
    assert main([str(tmp_path)]) == 0
    page = html.unescape((tmp_path / REPORT_FILE).read_text())
    facts = intervals_of(released)
    assert isinstance(facts, CoordinateIntervals if released.coordinates else WalkIntervals)
    number = facts.number_of_partitions()
    assert number.low < number.value < number.high
    for estimate in (number, facts.total(), facts.frequency_at(10)):
        shown = f"{estimate.value:,}\n{estimate.low:,} to {estimate.high:,}"
        assert f'<td class="number">{shown}</td>' in page
    for bits in (facts.success_rate_bits(10), facts.alpha_guesswork_bits("0.5")):
        assert f'<td class="number">{bits.value:.2f}\n' in page
    assert ("By the model" in page) == (released.coordinates is not None)
    text = f"between {number.low:,} and {number.high:,}"
    bounded = "of at most 3 partitions of each user"
    if enforced:
        assert f"<h1>A differentially private frequency list, {bounded}</h1>" in page
        assert f"has {text} of them (95% confidence). It is {bounded}" in " ".join(page.split())
        assert page.count(bounded) >= 4 and "totals and counts are lower here" in page
    else:
        assert bounded not in page and f"has {text} of them" in " ".join(page.split())


def test_the_page_tells_what_the_release_says_and_is_self_contained(directory):
    page = html.unescape((directory / REPORT_FILE).read_text())
    assert not re.search(r'(src|href)="(?!data:)', page)
    for name in (filenames.RANKS_FILE, filenames.CURVE_FILE):
        assert (directory / name).read_bytes().startswith(b"\x89PNG")
    released = mechanisms.FrequencyList.from_csv(directory / "released_frequencies.csv")
    numbers = f"contributions of users to partitions add up to {released.total:,}, over"
    assert f"{numbers} {released.distinct:,} partitions" in words_of(page)
    assert "epsilon = 1." in page and "at most 2 partitions" in page
    statement = json.loads((directory / "privacy.json").read_text())
    assert all(version in page for version in statement["versions"].values())


@pytest.mark.parametrize(
    "lines", [b"rows,2,5\n", b"rows,1,5\nrows,1,4\n", b"arms,1,5\n", b"rows,1,five\n", b"", None]
)
def test_coordinates_that_are_none_are_refused(directory, tmp_path, lines, failure):
    without_digests(shutil.copytree(directory, tmp_path, dirs_exist_ok=True))
    coordinates = tmp_path / filenames.COORDINATES_FILE
    coordinates.unlink()
    if lines is not None:
        coordinates.write_bytes(csv_lines([filenames.COORDINATES_HEADER]) + lines)
    fault = "cannot be read" if lines is None else "is not as it was released"
    failure(1, f"{coordinates} {fault}", main, [str(tmp_path)])


EDGES = (f"{a},{b}" for a in range(400) for b in range(a + 1, 400) if b % (a + 3) == 0)
NODES = "--source_column=a --target_column=b --privacy_unit=node --degree_bound=9 --epsilon=2"
degrees = released("degrees", ["a,b", *EDGES], NODES, "--report")

PAGES = [("home", 400), ("<b>news</b>", 300), ("a, $b$", 200), ("rare", 1)]
VISITS = [f'{user},"{name}"' for name, users in PAGES for user in range(users)]
COUNTS = "--epsilon=4 --delta=1e-6 --max_partitions_per_user=3 --noisy_counts"
both = released("release-all", ["user,page", *VISITS], COLUMNS, COUNTS)


@pytest.mark.thorough
def test_both_releases_of_a_directory_get_a_page(both, capsys):
    assert main([str(both)]) == 0
    paths = [both / name / REPORT_FILE for name in ("frequency_list", "partitions")]
    assert capsys.readouterr().out.split() == list(map(str, paths))
    assert show([str(both)]) == 0
    shown, released = capsys.readouterr().out, load(both).names
    assert shown.startswith(f"{paths[0].parent}\n\n")
    assert shown.endswith(f"{paths[1].parent}\n\n{released!r}\n\n{released.privacy}\n")
    assert released.has_estimates and "users are estimates about the records that count" in shown
    _, names = (html.unescape(path.read_text()) for path in paths)
    header, *rows = csv.reader((both / "partitions/named_users.csv").open(newline=""))
    assert header == ["page", "users", "low", "high"] and len(rows) == 3
    assert "3 names of pages were released" in names and "What is not named" in names
    for name, *counts in rows:
        cells = "".join(f'<td class="number">{int(n):,}</td>' for n in counts)
        assert f"<td>{name}</td>{cells}" in names
    assert (
        "They are of at most 3 pages of each user, chosen at random" in names
        and "95% confidence" in names
    )
    assert "under (2, 1e-06)-differential privacy" in names
    # What is released is text, and not part of the page.
    assert "&lt;b&gt;news" in paths[1].read_text()


def test_a_page_of_names_without_counts(tmp_path, capsys):
    flags = "--epsilon=20 --delta=1e-6 --max_partitions_per_user=1 --others_share=0.5"
    lines = ["user,page", *(f"{user},home" for user in range(90))]
    names = made(tmp_path, "select", lines, COLUMNS, flags, "--pre_threshold=7")
    assert main([str(names)]) == 0
    page = html.unescape((names / REPORT_FILE).read_text())
    assert " 1 names" not in page and "1 name of a page was released" in page
    assert "<td>home</td>" in page and "users, about" not in page
    assert "Partitions of fewer than 7 users are never named" in page
    # A publisher pastes these words, and shows these lines: all of the cost is in both.
    all_of_it = "the number of users of other partitions costs epsilon = 10 more, 20 in all"
    assert all_of_it in page
    other_users = json.loads((names / "privacy.json").read_text())["users_of_other_partitions"]
    # The ends that noise of rate 10 leaves with less than 2.5%: P[X >= 1] = q / (1 + q) is less.
    assert f"between {other_users} and {other_users} (95% confidence)" in page
    both = "epsilon 10 and delta 1e-06 for the names, and epsilon 10 for users of other partitions"
    assert both in page and both in repr(load(names))
    assert "at most 1 partition in each round" in page
    assert "1 name\n" in repr(load(names)) and "(enforced in each round)" in repr(load(names))


def test_a_page_of_degrees_speaks_of_graphs(degrees):
    page = html.unescape(re.sub(r'"data:[^"]*"', "", (degrees / REPORT_FILE).read_text()))
    released = mechanisms.FrequencyList.from_csv(degrees / "released_frequencies.csv")
    numbers = f"ends of edges at nodes add up to {released.total:,}, over {released.distinct:,}"
    assert f"{numbers} nodes" in words_of(page)
    assert "It is of at most 9 edges at each node, chosen at random" in words_of(page)
    assert "The privacy unit is one node; neighbouring data sets: add or remove one node" in page
    assert "projected to degrees of at most 9" in page
    # Nobody guesses nodes, and there are no users.
    assert "uess" not in page and "user" not in page
    assert not (degrees / filenames.CURVE_FILE).exists()


TONGUES = ["no", "it", "a language with a long name, and <b>tags</b>"]
USERS = [f'u{i},p{i % 7 * (i % 3)},"{TONGUES[i % 3]}"' for i in range(3000)]
TABLE = ["user,password,tongue", *USERS]
BY_TONGUE = "--partition_column=password --group_by=tongue --max_partitions_per_user=1 --report"
COSTS = "--epsilon_selection=1 --delta=1e-6 --epsilon_all=2 --epsilon_groups=0.5"
groups = released("release-groups", TABLE, "--user_column=user", BY_TONGUE, COSTS)


def test_a_page_of_groups_has_a_row_for_each_list(groups, capsys):
    page = html.unescape((groups / REPORT_FILE).read_text())
    lists = parse_lists((groups / "released_lists.csv").read_bytes(), LISTS_HEADER)
    assert len(lists) == 4
    # That of all users is drawn by the geometric mechanism, the others are decoded.
    loaded = load(groups)
    kinds = {type(release.intervals) for release in loaded.values()}
    assert kinds == {WalkIntervals, CoordinateIntervals}
    for (attribute, group), released in lists.items():
        label = f"{attribute}: {group}" if attribute else "all users"
        sizes, _, part = page.partition("<h2>How hard to guess</h2>")
        row = sizes[sizes.index(f"<td>{label}</td>") :].partition("</tr>")[0]
        answers = loaded[attribute, group]
        for estimate in (answers.total(), answers.number_of_partitions()):
            assert f">{estimate.value:,}\n{estimate.low:,} to {estimate.high:,}<" in row
        row = part[part.index(f"<td>{label}</td>") :].partition("</tr>")[0]
        cells = re.findall(r">([\d.]+)\n([\d.]+) (?:to ([\d.]+)|or more)<", row)
        expected = [
            guessing_metrics.success_rate_bits(released, 10),
            guessing_metrics.alpha_guesswork_bits(released, "0.5"),
        ]
        assert [float(value) for value, _, _ in cells] == pytest.approx(expected, abs=0.3)
        assert all(float(low) <= float(x) <= float(up or x) for x, low, up in cells)
    assert "(3.5, 1e-06)-differential privacy" in page
    assert "0.5 for the groups by tongue, 1 for the names of groups" in page
    assert (groups / filenames.GROUPS_FILE).read_bytes().startswith(b"\x89PNG")
    budget = json.loads((groups / "privacy.json").read_text())["budget"]
    assert f"a budget of epsilon = {budget['epsilon']} and delta" in page
    for line in budget["ledger"]:
        cells = (line[name] for name in ("purpose", "epsilon", "delta", "state"))
        assert "".join(f"<td>{cell}</td>" for cell in cells) in page
    # The command knows the kind of a release by its file.
    assert main([str(groups)]) == 0
    assert capsys.readouterr().out == f"{groups}/{REPORT_FILE}\n"


@pytest.mark.usefixtures("no_drawing")
def test_pages_of_what_is_no_password_do_not_speak_of_guessing(directory, groups, tmp_path):
    for released in (directory, groups):
        copy = shutil.copytree(released, tmp_path / released.parent.name)
        assert "guess" in (released / REPORT_FILE).read_text().lower()
        assert main([str(copy), "--about=page"]) == 0
        page = (copy / REPORT_FILE).read_text()
        text = re.sub(r"<style>.*?</style>|base64,[^\"]*", "", page, flags=re.DOTALL).lower()
        assert not re.search("guess|password|broken", text)
        assert "contributions" in text
    shares = re.findall(r">([\d.]+)%\n", page)
    lists = parse_lists((groups / "released_lists.csv").read_bytes(), LISTS_HEADER)
    expected = [
        100 * guessing_metrics.success_rate(frequencies, 10) for frequencies in lists.values()
    ]
    assert list(map(float, shares)) == pytest.approx(expected, abs=5)


LOG = [f"{user},/{user % 7 * (user % 3)},2026-01-{5 + user % 7:02}" for user in range(900)]
URLS = "--user_column=user --partition_column=url --max_partitions_per_user=2 --epsilon=4"
PERIODS = "--period=day --time_column=at --periods=2026-01-05..2026-01-11"
days = released("release", ["user,url,at", *LOG], URLS, PERIODS, "--max_periods_per_user=2")


def words_of(page):
    return " ".join(html.unescape(re.sub("<[^>]*>", " ", page)).split())


def test_a_page_of_days_has_the_numbers_of_their_series(days, capsys, failure):
    assert main([str(days), "--data_name=the log & more"]) == 0
    assert capsys.readouterr().out == f"{days}/{REPORT_FILE}\n"
    page = (days / REPORT_FILE).read_text()
    assert "frequency lists of each day of the log &amp; more, of at most 2 urls of each" in page
    loaded = load(days)
    assert [*loaded] == [f"2026-01-{day:02}" for day in range(5, 12)]
    for number in ("partitions", "total"):
        series = loaded.series(number)
        for estimate in (*series.estimates, *series.changes):
            assert f">{estimate.value:,}\n{estimate.low:,} to {estimate.high:,}<" in page
    assert "all lists together cost epsilon = 4" in words_of(page)
    assert "with epsilon = 4" in words_of(page)
    assert "Cost epsilon 4 for all days together, 2 for each" in words_of(page)
    assert "Each is of at most 2 urls of each user in each of at most 2 days" in words_of(page)
    copy = shutil.copytree(days, days.parent / "copy")
    shutil.rmtree(copy / "2026-01-08")
    failure(1, "2026-01-08 cannot be read as a release", main, [str(copy)])


@pytest.mark.thorough
def test_a_page_of_two_lists_has_their_differences(days, capsys):
    first, second = days / "2026-01-06", days / "2026-01-07"
    assert main([str(first), str(second), "--title=Two days"]) == 0
    assert capsys.readouterr().out == f"{second}/{COMPARISON_FILE}\n"
    page = (second / COMPARISON_FILE).read_text()
    assert "<h1>Two days</h1>" in page and "Differentially private frequency lists" in page
    comparison = compare(load(first), load(second))
    for question, difference in zip(comparison.questions, comparison.differences, strict=True):
        if "share" not in question:
            assert f">{difference.value:,}\n{difference.low:,} to {difference.high:,}<" in page
    text = words_of(page)
    assert text.count("is of at most 2 urls of each user in each of at most 2 days, chosen") == 2
    # Records were dropped, so that nothing is said of true numbers.
    assert "the numbers of bounded records before noise differ." in text
    assert "true numbers" not in text and "true difference" not in text
    assert text.count("Privacy statement: 2026-01-0") == 2
    odd = ["--about=share of a$b$_{<i>", "--users=$x^$", "--data_name=$\\frac$"]
    odd_place = shutil.copytree(second, days.parent / "$odd^$")
    assert main([str(first), str(odd_place), *odd]) == main([str(first), *odd]) == 0
    page, number = (first / REPORT_FILE).read_text(), load(first).number_of_partitions()
    # Numbers of what is called a share are none.
    assert "<i>" not in page and f">{number.value:,}\n{number.low:,} to" in page
    # By the name of the column.
    assert main([str(second)]) == 0
    assert "uess" not in words_of((second / REPORT_FILE).read_text())


@pytest.mark.usefixtures("no_drawing")
def test_show_page_and_python_say_the_same_numbers(days, capsys):
    day = days / "2026-01-06"
    assert main([str(day), "--about=page", "--users=accounts"]) == 0
    text, loaded = words_of((day / REPORT_FILE).read_text()), load(day)
    capsys.readouterr()
    assert show([str(day)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{loaded!r}\n\n") and shown.endswith(f"\n\n{loaded.privacy}\n")
    shown = " ".join(shown.split())
    numbers = loaded.numbers()
    assert {"partitions", "partitions with at least 10", "users at rank 1"} <= numbers.keys()
    for name, estimate in numbers.items():
        assert f"{name} {estimate}" in shown
        label = name.replace("partitions", "pages").replace("users", "accounts")
        label = label[0].upper() + label[1:]
        interval = f"{estimate.value:,} {estimate.low:,} to {estimate.high:,}"
        assert (label if "share" in name else f"{label} {interval}") in text
    for rank, estimate in enumerate(loaded.top(min(10, loaded.released.distinct)), 1):
        assert f" {rank} {estimate.value:,} {estimate.low:,} to {estimate.high:,} " in text
    # The publisher's words, but for the guarantee.
    assert "partition" not in text.partition("Privacy statement")[0]


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: apt-get install chromium")
def test_the_pages_read_well_in_a_browser(directory, degrees, groups, days, both, tmp_path):
    pages = {"list": directory, "degrees": degrees, "groups": groups, "days": days}
    pages |= {"names": both / "partitions", "two": days / "2026-01-07"}
    write_comparison(str(days / "2026-01-06"), str(pages["two"]))
    frames = []
    for name, path in pages.items():
        file = COMPARISON_FILE if name == "two" else REPORT_FILE
        if name not in ("list", "two"):
            write_report(str(path))
        looked_at = (path / file).read_text().replace("</body>", LOOK + "</body>")
        (tmp_path / f"{name}.html").write_text(looked_at)
        frames += [
            f'<iframe src="{name}.html" width="{width}" height="3000" style="border: 0"></iframe>'
            for width in WIDTHS
        ]
    frame = tmp_path / "frame.html"
    frame.write_text(SEEN + "".join(frames))
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,3000"]
    command += [f"--user-data-dir={tmp_path}/profile", "--virtual-time-budget=5000", "--dump-dom"]
    seen = subprocess.run(
        [*command, frame.as_uri()], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    views = json.loads(html.unescape(re.search("<title>(.*?)</title>", seen, re.DOTALL)[1]))
    assert len(views) == len(frames)
    assert {(pathlib.Path(view["page"]).stem, view["width"]) for view in views} == {
        (name, width) for name in pages for width in WIDTHS
    }
    for view in views:
        width = view["width"]
        assert view["scroll"] <= width and view["outside"] == 0 and view["overlaps"] == 0, view
        assert view["smallest"] >= 14 and view["external"] == 0, view
        assert len(view["sizes"]) == (2 if view["page"].endswith("list.html") else 1)
        # Pictures are drawn finer than they are shown, and fill a phone's width.
        assert all(natural >= shown > 0.85 * min(width, 640) for natural, shown in view["sizes"])


@pytest.mark.parametrize("epsilon", ["1/3", "1/7", "2/21", "0.3", "1.1", "22/7"])
@pytest.mark.parametrize("max_partitions", [1, 3])
@pytest.mark.parametrize("make", [mechanisms.IntegerPartitionMechanism, partition_mechanism])
def test_a_statement_names_its_mechanism_exactly(make, epsilon, max_partitions):
    """A seventh of a week's epsilon, say, is no decimal."""
    mechanism = make(Fraction(epsilon), max_partitions)
    stated = json.loads(json.dumps(ListSpec(mechanism).statement(None)))
    assert Fraction(stated["epsilon_exact"]) == Fraction(epsilon)
    assert Fraction(stated["rate_exact"]) == mechanism.decay.rate
