"""Sentences of the documentation about results are true of the pages of results, number by number.

``test_docs`` finds each number somewhere on a page. Here it is computed from the rows that the
sentence is about. If a page is made anew, these tests print the sentences that are true now.
"""

import math
import re
from fractions import Fraction

import pytest

from tests.test_docs import read, tables

LEAST_NAMED = 10
THINGS = {
    "tldr author file": "files of tldr",
    "ohmyzsh author file": "files of ohmyzsh",
    "gowalla part": "places of Gowalla",
}
"""What the documentation calls the things of data sets."""


def results(page):
    return read(f"benchmarks/results/{page}.md")


def fraction(cell):
    """The text of a decimal, as the documentation has it: 1/4, and not 0.25."""
    return str(Fraction(cell))


def number(cell):
    """The number with which a cell begins."""
    return float(cell.split(" ")[0].replace(",", "").rstrip("%"))


def records_of(text):
    """The rows of each table of a text, by head."""
    return [[dict(zip(heads, row, strict=True)) for row in rows] for heads, rows in tables(text)]


def section(page, heading):
    """What a page of results has below a heading of the second or third level."""
    level, _ = heading.split(" ", 1)
    return results(page).split(f"\n{heading}\n")[1].split(f"\n{level} ")[0]


def words(count):
    names = "none one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
    return names.split()[count]


def ends(values):
    return f"{min(values):.2f} to {max(values):.2f}"


def at_least(values, digits=2):
    """The smallest value, rounded down, so that what is "at least" this is so."""
    scale = 10**digits
    # The small addition is against the rounding of a product that is a whole number.
    return f"{math.floor(min(values) * scale + 1e-9) / scale:.{digits}f}"


# Names.


def beside_published():
    _, rows, _ = records_of(results("partition_selection"))
    ratios = {False: [], True: []}
    for row in rows:
        ratios[row["kappa"] == "1"].append(float(row["auto : it"]))
    mean = math.exp(sum(map(math.log, ratios[False])) / len(ratios[False]))
    yield (
        f"From kappa 3 on, it names {mean:.2f} times as many partitions in the geometric mean, and "
        f"at least {at_least(ratios[False])} times. At kappa 1 it names at least "
        f"{at_least(ratios[True], 3)} times as many."
    )


def by_looks():
    rows, with_counts = records_of(results("looks"))
    several = [row for row in rows if number(row["it"]) >= LEAST_NAMED]
    chosen = [row for row in several if row["kappa"] == "chosen"]
    ratios = [float(row["auto : it"]) for row in several if row["kappa"] != "chosen"]
    yield f"`auto` names {ends(ratios)} times as many as the best published strategy at the same"
    ratios = [float(row["auto : it"]) for row in chosen]
    yield f"Where the look chooses kappa, it names {ends(ratios)} times as many as the best"
    worst = min(several, key=lambda row: float(row["least"]))
    assert worst["kappa"] == "chosen"
    yield (
        f"The worst single look led to {worst['least']} times as many names, on "
        f"{THINGS[worst['records']]} at epsilon {fraction(worst['epsilon'])}, where the look "
        f"chooses kappa."
    )
    several = [row for row in with_counts if number(row["names"]) >= LEAST_NAMED]
    kept = [float(row["kept"]) for row in several]
    yield f"With counts `auto` keeps {ends(kept)} of the names at epsilon 1."
    worst = max(several, key=lambda row: number(row["error"]) / number(row["of noisy counts"]))
    assert worst["kappa"] != "chosen"
    yield (
        f"by {number(worst['error']):.0f} users instead of {number(worst['of noisy counts']):.0f} "
        f"on {THINGS[worst['records']]} at kappa {worst['kappa']}."
    )
    (least,) = (
        row
        for row in rows
        if (row["records"], row["epsilon"], row["kappa"]) == ("jekyll author file", "0.25", "1")
    )
    yield f"the best strategy names {least['it']} files of Jekyll, and `auto` {least['auto']}."


def estimated_counts():
    rows, _ = records_of(results("name_counts"))
    several = [row for row in rows if number(row["names"]) >= LEAST_NAMED]
    ratios = [float(row["ratio"]) for row in several]
    yield f"the error of noisy counts is [{ends(ratios)} times]("
    better = sum(number(row["estimate"]) < number(row["noisy"]) for row in several)
    yield f"The estimate errs less in {better} of these {len(ratios)} cases."
    (lucky,) = (
        row
        for row in rows
        if (row["pairs"], row["epsilon"], row["kappa"]) == ("retail", "0.25", "chosen")
    )
    yield f"at epsilon 1/4 a share of {lucky['proved']} of the named products of retail are within"
    yield f"but only [{lucky['largest']}]("


# Lists.


def ratios_of_lists(least, most):
    """The ratios of the best peer to ours for each list, at the values of c in an interval."""
    return {
        part.partition("\n")[0]: [
            number(row["best peer : ours"])
            for rows in records_of(part)
            for row in rows
            if least <= float(row["c"]) <= most
        ]
        for part in results("frequency_lists").split("\n## ")[1:-2]
    }


def beside_peers():
    at_1, at_025, at_005 = (
        [ratio for (ratio,) in ratios_of_lists(c, c).values()] for c in (1, 0.25, 0.05)
    )
    yield (
        f"On {words(len(at_1))} lists, the best peer errs {ends(at_1)} times as much as this "
        f"project at c = 1, {ends(at_025)} times at 0.25, and {ends(at_005)} times at 0.05."
    )
    better = re.findall(r"([\w ]+) at ([\d.]+) \([^()]+, (\d\.\d\d)\)", results("frequency_lists"))
    by_list = {}
    for name, c, ratio in better:
        by_list.setdefault(name.strip(), []).append((c, float(ratio)))
    for name, cases in by_list.items():
        ratios = sorted(ratio for _, ratio in cases)
        yield f"{name}: {', '.join(c for c, _ in cases)} ({ends(ratios)})"


def of_the_decoder():
    (rows,) = records_of(section("frequency_lists", "## What the decoder gives"))
    for c in ("1", "0.1"):
        ratios = [number(row["isotonic regression : decoder"]) for row in rows if row["c"] == c]
        yield f"{ends(ratios)} times as much as the decoder at c = {c}"


def on_other_lists():
    (rows,) = records_of(section("answers", "## Accuracy on the same lists"))
    sides, worse_lists = {}, {"1": set(), "0.1": set()}
    for row in rows:
        ratio = number(row["best peer : ours"])
        sides.setdefault((row["c"], ratio >= 1), []).append(ratio)
        if ratio < 1:
            worse_lists[row["c"]].add(row[""])
    assert worse_lists["0.1"] <= worse_lists["1"]
    better, worse = sides["1", True], sides["1", False]
    assert len(better) + len(worse) == 14
    yield (
        f"At c = 1 the best peer's mean is {ends(better)} times ours on {words(len(better))} of "
        f"them, and {ends(worse)} times on {words(len(worse))}"
    )
    better, worse_at_01 = sides["0.1", True], sides["0.1", False]
    yield (
        f"At c = 0.1 it is {ends(better)} times ours on {words(len(better))}, and "
        f"{ends(worse_at_01)} times on {words(len(worse_at_01))} of these {words(len(worse))}."
    )


def coverage_of(heading, row_name):
    """The least and the largest share of intervals that held, by the kinds of a row."""
    (rows,) = records_of(section("answers", heading))
    (row,) = (row for row in rows if row[""] == row_name)
    shares = [share for kind, share in row.items() if kind and share]
    least, largest = min(shares, key=number), max(shares, key=number)
    return f"{least} to {largest.replace('100.0%', '100%')}"


PROVED = "### Frobenius mechanism, proved"
MODEL = "### Frobenius mechanism, by 200 lists from the decoder's model"


def coverage():
    yield f"| proved, depending on the question | {coverage_of(PROVED, 'together')} |"
    yield f"lists are smooth, depending on the question | {coverage_of(MODEL, 'together')} |"
    yield f"| the same on a list of two levels | {coverage_of(MODEL, 'two levels')} |"
    (rows,) = records_of(section("answers", "## Coverage of other intervals"))
    held = {(row["interval"], row["of"]): row["held"] for row in rows}
    names = [held["noisy counts of names", f"{name}, kappa = 10"] for name in ("Zipf", "Rails")]
    yield f"| of noisy counts of names, on two sets of records | {' and '.join(names)} |"
    difference = held["differences of two lists", "the lists above, in a row"]
    yield f"| of differences of two lists | {difference} |"


def model_intervals_in_the_method():
    yield (
        f"intervals of the model held in {coverage_of(MODEL, 'together')} of cases on unseen "
        f"lists, and in {coverage_of(MODEL, 'two levels')} on the list of two levels"
    )


def model_intervals_to_read():
    yield f"[in {coverage_of(MODEL, 'together')} of cases]("


def of_rockyou():
    at_1, at_01 = (ratios_of_lists(c, c)["rockyou"][0] for c in (1, 0.1))
    (rows,) = records_of(section("frequency_lists", "## rockyou"))
    yield from (f"| {row['c']} | {row['mechanism']} | {row['ours']} |" for row in rows[::10])
    yield f"errs [{at_1:.2f} times as much at epsilon 1, and {at_01:.2f} times at 0.1]("
    hard = ratios_of_lists(0.25, 4)["degrees of ca_grqc"]
    yield f"from c = 4 to 0.25 the best peer's mean is {ends(hard)} times ours."


# All records.


def of_all_records():
    chosen, declared = records_of(results("all_records"))
    ratios = [float(row["ratio"]) for row in chosen]
    (mean,) = re.findall(r"The geometric mean of the ratios is ([\d.]+)", results("all_records"))
    yield f"a release is {mean} times as far from the list of all records as a release after"
    yield f"The ratios are {ends(ratios)}."
    at_8 = [row for row in declared if row["kappa"] == "8"]
    kept, nearer = ([float(row[head]) for row in at_8] for head in ("kept", "ratio"))
    yield (
        f"At a declared kappa of 8, where a part of {ends(kept)} is kept, the estimate is "
        f"{ends(nearer)} times as far from it as the bounded list."
    )
    of_graph, of_graph_declared, of_groups = (
        [float(row["ratio"]) for row in rows if row["pairs"] == name]
        for rows, name in (
            (chosen, "ca_grqc_edges"),
            (declared, "ca_grqc_edges"),
            (chosen, "groups (made)"),
        )
    )
    assert len(of_graph_declared) == 3
    yield f"hardly nearer to all records there than the bounded list is ({ends(of_graph_declared)}"
    yield (
        f"with nothing declared, releases err {ends(of_graph)} times as much as a release after "
        f"`choose-kappa` on this graph, and {ends(of_groups)} times on groups"
    )


# Groups.


def of_yahoo():
    difference = re.findall(r"Largest differences: ([\d.]+) bits", results("yahoo_retelling"))[0]
    yield (
        "In the 33 lists of more than one million users, no statistic is off by more than "
        f"{difference} bits."
    )


SENTENCES = [
    ("selection", beside_published),
    ("selection", by_looks),
    ("selection", estimated_counts),
    ("accuracy", beside_peers),
    ("accuracy", of_the_decoder),
    ("accuracy", on_other_lists),
    ("accuracy", coverage),
    ("method", of_rockyou),
    ("method", of_all_records),
    ("method", model_intervals_in_the_method),
    ("how-to-read-a-release", model_intervals_to_read),
    ("groups-and-graphs", of_yahoo),
]


@pytest.mark.parametrize(("page", "true_of"), SENTENCES)
def test_sentences_are_true_of_the_rows_that_they_are_about(page, true_of):
    text = " ".join(read(f"docs/{page}.md").split())
    missing = [sentence for sentence in true_of() if sentence not in text]
    assert not missing, "\n".join([f"docs/{page}.md should say:", *missing])
