"""The README and the pages of docs/ are run as they are written, and their links lead somewhere.

Code blocks marked ``python`` run in one namespace for each page, and ``console`` blocks command by
command: ``cat`` makes the file that it shows, and what a job prints must be what the page shows
(``...`` stands for anything).
"""

import pathlib
import re
import shlex
from decimal import Decimal

import pytest

from dp_transforms.mechanisms import FrequencyList
from pipelines.__main__ import main

ROOT = pathlib.Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/*.md"))]
OTHER_PAGES = [
    page
    for pattern in ("benchmarks/**/*.md", "runner_configs/*/*.md", "docs/*/*.md")
    for page in sorted(ROOT.glob(pattern))
]


def names(pages):
    return [str(page.relative_to(ROOT)) for page in pages]


def blocks(text):
    """(language, content) of each fenced block."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


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


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_snippets_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    for language, content in blocks(page.read_text()):
        if language == "python":
            exec(content, namespace)
            capsys.readouterr()
        elif language == "console":
            for command, shown in commands(content):
                run_command(command, shown, capsys)
    for path in tmp_path.glob("**/released_frequencies.csv"):
        FrequencyList.from_csv(path)


def anchors(page):
    """The fragments that a page's headings have."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES + OTHER_PAGES, ids=names(PAGES + OTHER_PAGES))
def test_links_lead_somewhere(page):
    text = re.sub(r"`[^`\n]*`", "", page.read_text())
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not target.startswith(("http:", "https:")):
            path, _, fragment = target.partition("#")
            found = page.parent / path if path else page
            assert found.exists(), target
            assert not fragment or fragment in anchors(found), target


def test_the_index_of_proofs_names_tests_and_modules_that_exist():
    index = (ROOT / "docs/exactness.md").read_text()
    rows = re.findall(r"^\| .* \| `([\w/]+\.py)` \| (.*) \|$", index, re.MULTILINE)
    assert len(rows) > 15
    for module, tests in rows:
        assert (ROOT / "dp_transforms" / module).exists(), module
        for file, test in re.findall(r"`(\w+\.py)(?:::(\w+))?`", tests):
            found = [path.read_text() for path in ROOT.glob(f"tests/**/{file}")]
            assert any(f"def {test}" in text for text in found), (file, test)


def test_every_page_is_on_the_site():
    site = (ROOT / "mkdocs.yml").read_text()
    listed = re.findall(r": ([\w/-]+\.md)$", site, re.MULTILINE)
    # docs/api/notebooks.py makes a page of each notebook.
    notebooks = [path.with_suffix(".md") for path in ROOT.glob("docs/*.ipynb")]
    assert sorted(listed) == sorted(
        names([*PAGES, *notebooks, *ROOT.glob("docs/*/*.md"), ROOT / "benchmarks/RESULTS.md"])
    )


_NUMBER = r"\d[\d,]*(?:\.\d+)?"
_MEASURED = re.compile(
    rf"(?<![\w.^,-])(?:{_NUMBER} (?:to|and|or) )*{_NUMBER}(?: (?:s|ms|GiB|MiB|MB|times|bits)\b|%)"
)


def numbers(text):
    return [Decimal(number.replace(",", "")) for number in re.findall(_NUMBER, text)]


def test_measured_numbers_are_on_the_pages_beside_them():
    """Each time, size, ratio and share in a paragraph or table that links pages of results is, as
    rounded there, on one of these."""
    checked = 0
    for page in PAGES:
        # A table belongs to the paragraph before it.
        for block in re.split(r"\n\n+(?!\|)", page.read_text()):
            results = re.findall(r"\((?:\.\./)?(benchmarks/results/\w+\.md)\)", block)
            there = [n for result in results for n in numbers((ROOT / result).read_text())]
            for quoted in _MEASURED.findall(block) if results else []:
                for number in numbers(quoted):
                    last_digit = Decimal(1).scaleb(number.as_tuple().exponent)
                    close = [n for n in there if abs(n - number) <= last_digit / 2]
                    assert close, f"{page.name}: {quoted} is not on {results}"
                    checked += 1
    assert checked > 50
