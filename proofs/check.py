"""Compiles the proofs with Coq, and checks what they assume: ``make proof``.

Each file is compiled, and its proofs are checked again by Coq's second checker. A theorem may
assume axioms of Coq's standard library that ``AXIOMS`` lists, and nothing else. This needs Coq
alone, no package of Python.
"""

import itertools
import pathlib
import re
import shutil
import subprocess
import sys

SOURCES = pathlib.Path(__file__).parent
FILES = ("Lists", "Users", "Release", "AllRecords")  # each after those that it needs

AXIOMS = {
    "Release": {
        "ClassicalDedekindReals.sig_forall_dec",
        "ClassicalDedekindReals.sig_not_dec",
        "Classical_Prop.classic",
        "FunctionalExtensionality.functional_extensionality_dep",
    }
}
"""What the theorems of a file may assume; of other files nothing. The library makes the real
numbers with these."""

_CLOSED = "Closed under the global context"
_HOLES = r"\b(Admitted|admit|give_up|Axioms?|Parameters?|Conjectures?|Context)\b"


def theorems(text: str) -> list[str]:
    """Returns the names of the theorems of a file, in order."""
    return re.findall(r"^Theorem (\w+)", text, re.MULTILINE)


def holes(text: str) -> list[str]:
    """Returns the words of a file that leave a proof open or assume something."""
    without_comments = re.sub(r"\(\*.*?\*\)", "", text, flags=re.DOTALL)
    return re.findall(_HOLES, without_comments)


def axioms(printed: str) -> tuple[int, set[str]]:
    """Reads what ``Print Assumptions`` printed for some theorems.

    Returns:
      Of how many theorems, and all that they assume, one name or remark a line.
    """
    # A type is indented, below its name or behind it.
    lines = [line for line in printed.splitlines() if line and not line[0].isspace()]
    assumed = {line.partition(" : ")[0].strip() for line in lines} - {"Axioms:", _CLOSED}
    return sum(line in ("Axioms:", _CLOSED) for line in lines), assumed


def run(directory: pathlib.Path, program: str, *arguments: str) -> str:
    """Returns what Coq prints; if it fails, this exits with all that Coq said."""
    command = [program, "-Q", ".", "Proofs", *arguments]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}error: {' '.join(command)}")
    return done.stdout


def main(directory: pathlib.Path, sources: pathlib.Path = SOURCES) -> None:
    """Compiles into a directory, which is emptied first, and exits with an error if a proof fails
    or assumes too much."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for file in FILES:
        text = (sources / f"{file}.v").read_text(encoding="utf-8")
        if holes(text):
            sys.exit(f"error: proofs/{file}.v has {', '.join(holes(text))}")
        shutil.copy(sources / f"{file}.v", directory)
        run(directory, "coqc", f"{file}.v")
        names = theorems(text)
        questions = "".join(f"Print Assumptions {name}.\n" for name in names)
        (directory / "Assumptions.v").write_text(
            f"From Proofs Require Import {file}.\n{questions}", encoding="utf-8"
        )
        count, assumed = axioms(run(directory, "coqc", "Assumptions.v"))
        if count != len(names):
            sys.exit(f"error: Coq answers for {count} theorems of {len(names)} in proofs/{file}.v")
        if unexpected := assumed - AXIOMS.get(file, set()):
            sys.exit(f"error: theorems of proofs/{file}.v assume {', '.join(sorted(unexpected))}")
        assumptions = ", ".join(sorted(assumed)) or "nothing"
        print(f"{file}.v: {len(names)} theorems are proved; they assume {assumptions}")
    # The second checker looks at these files alone, and not at the library again.
    run(
        directory,
        "coqchk",
        "-silent",
        *itertools.chain(*(("-norec", f"Proofs.{file}") for file in FILES)),
    )


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
