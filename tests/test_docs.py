"""The README and the pages of docs/ are run as they are written, and their links lead somewhere.

Code blocks marked ``python`` run in one namespace for each page, and ``console`` blocks command by
command: ``cat`` makes the file that it shows, and what a job prints must be what the page shows
(``...`` stands for anything). ``text`` is what the last ``python`` block printed, with other
numbers, if it printed anything.
"""

import importlib
import pathlib
import re
import shlex
from decimal import Decimal

import pytest

import dp_transforms as dp
from dp_transforms.mechanisms import FrequencyList
from pipelines.__main__ import COMMANDS, main
from tests.cases import thorough_unless

ROOT = pathlib.Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/*.md"))]
PATTERNS = ("benchmarks/**/*.md", "runner_configs/*/*.md", "docs/*/*.md")
THOROUGH = (
    "choosing-epsilon",
    "first-hour",
    "front-door",
    "graphs",
    "hierarchies",
    "identifiability",
    "other-sources",
    "selection",
    "weekly-report",
)
"""Pages whose snippets take seconds."""
PAGES_THAT_RUN = thorough_unless(PAGES, [page for page in PAGES if page.stem not in THOROUGH])
OTHER_PAGES = [page for pattern in PATTERNS for page in sorted(ROOT.glob(pattern))]


def read(page):
    return (ROOT / page).read_text()


def names(pages):
    return [str(page.relative_to(ROOT)) for page in pages]


def commands(console):
    """(command, what the page shows that it prints) of each command of a block."""
    for part in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]:
        command, shown = re.fullmatch(r"((?:[^\n]*\\\n)*[^\n]*)\n((?:.*\n)*)", part).groups()
        yield command.replace("\\\n", " "), shown


def run_command(command, shown, capsys):
    name, *arguments = shlex.split(command)
    if name == "cat":
        pathlib.Path(arguments[0]).write_text(shown)
    elif name == "dp-frequency-lists":
        code = main(arguments)
        printed = capsys.readouterr()
        assert code == 0, printed.err
        assert shown == "...\n" or printed.out == shown
    else:
        assert command == ". .venv/bin/activate"


def words(printed):
    """The printed text, whatever the numbers and the widths of columns, and whether the noise of a
    survey leaves an interval open."""
    numbers = re.sub(r"\d([\d,.]*\d)?", "N", printed)
    return numbers.replace("N or more", "N to N").split()


@pytest.mark.parametrize("page", PAGES_THAT_RUN, ids=names(PAGES))
def test_snippets_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace, printed = {}, ""
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", read(page), re.MULTILINE | re.DOTALL)
    for language, content in blocks:
        if language == "python":
            exec(content, namespace)
            printed = capsys.readouterr().out
        elif language == "text" and printed:
            assert words(content) == words(printed)
        elif language == "console":
            for command, shown in commands(content):
                run_command(command, shown, capsys)
    for path in tmp_path.glob("**/released_frequencies.csv"):
        FrequencyList.from_csv(path)


def anchors(page):
    """The fragments that a page's headings have."""
    headings = re.findall(r"^#+ (.*)$", read(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES + OTHER_PAGES, ids=names(PAGES + OTHER_PAGES))
def test_links_lead_somewhere(page):
    text = re.sub(r"`[^`\n]*`", "", read(page))
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text):
        path, _, fragment = target.partition("#")
        linked = page.parent / path if path else page
        assert linked.exists(), target
        assert not fragment or fragment in anchors(linked), target


def test_the_index_of_proofs_names_modules_that_exist():
    index = read("docs/exactness.md")
    modules = re.findall(r"^\| .* \| `([\w/]+\.py)`.* \| .* \|$", index, re.MULTILINE)
    assert len(modules) > 15
    assert all((ROOT / "dp_transforms" / module).exists() for module in modules), modules


@pytest.mark.parametrize("page", ["exactness", "method", "papers"])
def test_tests_that_a_page_names_exist(page):
    pattern = r"`(?:tests/)?([\w/]*\btest_\w+\.py)(?:::(\w+))?`"
    named = re.findall(pattern, read(f"docs/{page}.md"))
    assert named
    for file, test in named:
        texts = [path.read_text() for path in ROOT.glob(f"tests/**/{file}")]
        assert any(f"def {test}(" in text if test else text for text in texts), (file, test)


@pytest.mark.parametrize("package", ["", ".mechanisms", ".mechanisms.selection", ".budget"])
def test_the_reference_has_what_a_package_exports(package):
    module = importlib.import_module(f"dp_transforms{package}")
    pages = "\n".join(map(read, ROOT.glob("docs/api/*.md")))
    shown = re.findall(r"^::: (\S+)\.(\w+)$", pages, re.MULTILINE)
    assert len(shown) == len(set(shown))
    ours = {
        name
        for name in dir(module)
        if not name.startswith("_")
        and getattr(getattr(module, name), "__module__", "").startswith("dp_transforms")
    }
    assert ours and ours <= {name for _, name in shown}


def test_the_table_of_questions_names_what_exists():
    heads, rows = next(tables(read("docs/which-release.md")))
    assert heads[1] == "Python; job"
    for row in rows:
        python, job = row[1].split("; ", 1)
        for name in re.findall(r"`([\w.]+)", python):
            assert hasattr(dp, name) or importlib.import_module(name), row
        command = re.search(r"`([\w-]+)", job)[1]
        assert command in COMMANDS, row


def test_no_word_is_explained_in_two_glossaries():
    explained = [
        {
            row[0]
            for heads, rows in tables(read(page))
            if heads == ["word", "meaning"]
            for row in rows
        }
        for page in ("docs/glossary.md", "ARCHITECTURE.md")
    ]
    assert all(explained) and not set.intersection(*explained)


def test_every_page_is_on_the_site():
    listed = re.findall(r": ([\w/-]+\.md)$", read("mkdocs.yml"), re.MULTILINE)
    # docs/api/notebooks.py makes a page of each notebook.
    notebooks = [path.with_suffix(".md") for path in ROOT.glob("docs/*.ipynb")]
    pages = [*PAGES, *notebooks, *ROOT.glob("docs/*/*.md"), ROOT / "benchmarks/RESULTS.md"]
    assert sorted(listed) == sorted(names(pages))


@pytest.mark.parametrize("page", ["README.md", "docs/guarantee.md", "ARCHITECTURE.md"])
def test_every_function_on_which_the_guarantee_rests_is_named(page):
    used = "".join(map(read, ROOT.glob("dp_transforms/**/*.py")))
    functions = {"shake_256": "SHAKE-256", "blake2b": "BLAKE2b", "algorithms.AES": "AES"}
    assert {*re.findall(r"hashlib\.(\w+)\(", used)} - {"sha256"} == {"shake_256", "blake2b"}
    assert all(code in used and name in read(page) for code, name in functions.items())


def tables(text):
    """(heads, rows) of each table of a page, as lists of cells."""
    for lines in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        heads, _, *rows = [
            [cell.strip() for cell in line.strip()[1:-1].split("|")] for line in lines.splitlines()
        ]
        yield heads, rows


@pytest.mark.thorough
def test_the_errors_of_the_three_stories_are_those_of_plan():
    heads, rows = next(tables(read("docs/choosing-epsilon.md")))
    table = {row[0]: dict(zip(heads[1:], row[1:], strict=True)) for row in rows}
    for story in heads[1:]:
        users, kappa, epsilon, dist = (
            table[name][story].partition(":")[0]
            for name in ("users", "kappa", "epsilon of the list", "expected dist of the list")
        )
        names = table["epsilon and delta of names"][story].split(" and ")
        delta = float(names[1]) if len(names) > 1 else None
        (plan,) = dp.plan(
            epsilon,
            users=int(users.replace(",", "")),
            max_partitions_per_user=int(kappa.partition(",")[0]),
            delta=delta,
        )
        assert f"{plan.expected_dist:,.0f}" == dist
        if delta is not None:
            (taken,) = [selection for selection in plan.selections if selection.chosen]
            users = table["users at which a page is named with probability 1/2"]
            assert users[story] == f"{taken.half_from:,}"
    assert table["epsilon and delta of names"]["pages"].split(" and ")[0] == "0.5"


@pytest.mark.thorough
def test_the_errors_of_counties_are_those_of_plan():
    (plan,) = dp.plan(1, users=1_000_000, groups={"state": 50, "county": 3_000})
    page = read("docs/hierarchies.md")
    assert f"```text\n{plan}\n" in page
    county = plan["county"]
    low, high = min(county.dists), max(county.dists)
    part = county.contributions / 100
    sentence = (
        f"with {county.contributions:,} people, is then off by {low:.0f} to {high:.0f} people in "
        f"all, or {low / part:.0f}% to {high / part:.0f}%."
    )
    assert sentence in " ".join(page.split())


@pytest.mark.parametrize(
    ("page", "count"), [("comparison", 4), ("method", 1), ("accuracy", 1), ("selection", 2)]
)
def test_tables_beside_a_page_are_its_rows(page, count):
    """Each table after a link to a page has heads and rows of one of that page's tables."""
    link = r"\[the page\]\(\.\./(benchmarks/results/\w+\.md)\)[^|]*\n\n((?:\|.*\|\n)+)"
    quoted = re.findall(link, read(f"docs/{page}.md"))
    assert len(quoted) == count
    for path, table in quoted:
        ((heads, rows),) = tables(table)
        sources = [
            {tuple(row[whole.index(head)] for head in heads) for row in those}
            for whole, those in tables(read(path))
            if set(heads) <= set(whole)
        ]
        assert any(set(map(tuple, rows)) <= source for source in sources), heads


def test_the_table_of_accuracy_and_the_readme_quote_the_page_of_lists():
    lists = {
        part.partition("\n")[0]: {row[0]: dict(zip(heads, row, strict=True)) for row in rows}
        for part in read("benchmarks/results/frequency_lists.md").split("\n## ")[1:]
        for heads, rows in tables(part)
    }
    heads, rows = next(tables(read("docs/accuracy.md")))
    names = ("rockyou", "yahoo_all", "degrees of ca_grqc", "degrees of email_enron")
    assert heads[2::2] == ["best peer : ours"] * len(names)
    for rate, *cells in rows:
        expected = [lists[name][rate][head] for name in names for head in ("ours", heads[2])]
        assert cells == expected, rate
    expected = [
        lists["rockyou"][rate][head].partition(" ")[0]
        for head in ("ours", heads[2])
        for rate in ("1", "0.1")
    ]
    sentence = "epsilon 1, is off by {} users .* by {} at epsilon 0.1; .* errs {} and {} times"
    assert re.search(
        sentence.format(*map(re.escape, expected)), " ".join(read("README.md").split())
    )


def test_the_version_is_the_same_everywhere():
    for page, pattern in {
        "CITATION.cff": "^version: (.*)$",
        "docs/method.md": r"^  version = \{(.*)\},$",
        "docs/comparison.md": r"^\| this \| (\S+) \|",
        "CHANGELOG.md": r"\A# Changelog\n(?:.*\n)*?## (\S+)$",
    }.items():
        match = re.search(pattern, read(page), re.MULTILINE)
        assert match and match[1] == dp.__version__, page


_NUMBER = r"\d[\d,]*(?:\.\d+)?"
_MEASURED = re.compile(
    rf"(?<![\w.^,-])(?:{_NUMBER} (?:to|and|or) )*{_NUMBER}"
    r"(?: (?:s|ms|core hours|GiB|MiB|GB|MB|times|bits)\b|%)"
)


def numbers(text):
    return [Decimal(number.replace(",", "")) for number in re.findall(_NUMBER, text)]


def test_measured_numbers_are_on_the_pages_beside_them():
    """Each time, size, ratio and share in a paragraph or table that links pages of results is, as
    rounded there, on one of these."""
    checked = 0
    for page in PAGES:
        # A table belongs to the paragraph before it.
        for block in re.split(r"\n\n+(?!\|)", read(page)):
            results = re.findall(r"\((?:\.\./)?(benchmarks/results/\w+\.md)\)", block)
            there = [n for result in results for n in numbers(read(result))]
            for quoted in _MEASURED.findall(block) if results else []:
                for number in numbers(quoted):
                    last_digit = Decimal(1).scaleb(number.as_tuple().exponent)
                    close = [n for n in there if abs(n - number) <= last_digit / 2]
                    assert close, f"{page.name}: {quoted} is not on {results}"
                    checked += 1
    assert checked > 50
