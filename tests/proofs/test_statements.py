"""The theorems of ``proofs/`` are about Python that exists, and the page lists them all."""

import pkgutil
import re

import pytest

from proofs import check

THEOREM = re.compile(r"\(\*\*((?:(?!\*\)).)*)\*\)\s+Theorem (\w+)", re.DOTALL)
"""A comment, and the theorem below it."""


@pytest.fixture
def sources(repository):
    return {file: (repository / "proofs" / f"{file}.v").read_text() for file in check.FILES}


def test_every_file_is_checked(repository):
    assert {path.stem for path in (repository / "proofs").glob("*.v")} == set(check.FILES)


@pytest.mark.parametrize("file", check.FILES)
def test_every_theorem_names_the_python_that_it_is_about(file, sources):
    comments = {name: comment for comment, name in THEOREM.findall(sources[file])}
    assert list(comments) == check.theorems(sources[file]) != []
    for theorem, comment in comments.items():
        named = re.findall(r"\[(dp_transforms\.[\w.]+)\]", comment.partition("Python:")[2])
        assert named, theorem
        for name in named:
            assert pkgutil.resolve_name(name), theorem


def test_the_page_lists_every_theorem(repository, sources):
    page = (repository / "docs" / "exactness.md").read_text()
    listed = re.findall(r"^\| .* \| `(\w+)\.v`: `(\w+)` \|", page, re.MULTILINE)
    proved = [(file, name) for file in check.FILES for name in check.theorems(sources[file])]
    assert sorted(listed) == sorted(proved)
    (allowed,) = check.AXIOMS.values()
    assert all(f"`{axiom.rpartition('.')[2]}`" in page for axiom in allowed)


@pytest.mark.parametrize(
    "text",
    ["Lemma a : False.\nAdmitted.", "Axiom a : False.", "Parameter a : nat.", "Proof. admit. Qed."],
)
def test_a_hole_in_a_proof_is_seen(text):
    assert len(check.holes(text)) == 1
    assert not check.holes(f"(* {text} *)")


def test_axioms_are_those_that_coq_prints():
    printed = (
        "Closed under the global context\n"
        "Axioms:\n"
        "ClassicalDedekindReals.sig_not_dec : forall P : Prop, {~ ~ P} + {~ P}\n"
        "Release.wish\n  : forall n : nat,\n    n = 0\n"
        "turing is assumed to be guarded.\n"
    )
    count, assumed = check.axioms(printed)
    assert count == 2
    assert assumed - check.AXIOMS["Release"] == {"Release.wish", "turing is assumed to be guarded."}
