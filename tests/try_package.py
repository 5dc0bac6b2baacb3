"""Builds the packages, and tries the wheel as a new user would, with several versions of Python.

    python -m tests.try_package [--pythons PYTHON ...] [--output DIR]

For each Python the wheel goes into a new virtual environment. There, in an empty directory, the
snippets of the README and of the tutorials run, in the order of these pages. Exits with 1 at the
first fault.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[1]
PAGES = (
    "README.md",
    "docs/first-hour.md",
    "docs/identifiability.md",
    "docs/hierarchies.md",
    "docs/graphs.md",
)
LIBRARIES = ("igraph", "networkx", "pandas")  # Users of these pages have them.
COMMAND = re.compile(r"^\$ ((?:[^\n]*\\\n)*[^\n]*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


def build(directory: pathlib.Path) -> pathlib.Path:
    """Builds and checks a source distribution and a wheel; returns the wheel's path."""
    for old in directory.glob("dp_frequency_lists-*"):
        old.unlink()
    run([sys.executable, "-m", "build", "--outdir", directory, ROOT])
    run([sys.executable, "-m", "twine", "check", "--strict", *directory.glob("dp_*")])
    (wheel,) = directory.glob("*.whl")
    return wheel


def try_out(python: str, wheel: pathlib.Path, directory: pathlib.Path) -> str:
    """Runs the pages' snippets with a Python in which only the wheel is installed; returns its
    version."""
    environment = directory / "environment"
    run([python, "-m", "venv", environment])
    programs = environment / "bin"
    run([programs / "python", "-m", "pip", "install", "--quiet", f"{wheel}[report]", *LIBRARIES])
    for page in PAGES:
        work = directory / pathlib.Path(page).stem
        work.mkdir()
        run_page(page, programs, work)
    version = "import sys; print(sys.version.split()[0])"
    return run([programs / "python", "-c", version], capture_output=True).stdout.strip()


def run_page(page: str, programs: pathlib.Path, work: pathlib.Path) -> None:
    """Runs the snippets of a page in a directory, in the order of the page."""
    text = (ROOT / page).read_text()
    script = ["import pathlib, subprocess"]
    for language, content in re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if language == "python":
            script.append(content)
        elif language == "console":
            script += map(script_line, *zip(*COMMAND.findall(content), strict=True))
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    run([programs / "python", "-c", "\n".join(script)], cwd=work, env=os.environ | {"PATH": path})


def script_line(command: str, shown: str) -> str:
    """Returns a line of Python that does what a command of a page does."""
    if command.startswith("cat "):
        return f"_ = pathlib.Path({command.removeprefix('cat ')!r}).write_text({shown!r})"
    if command.startswith("dp-frequency-lists "):
        return f"_ = subprocess.run(['sh', '-ec', {command!r}], check=True)"
    return ""


def run(command, **options):
    """Runs a command; exits with its output if it fails."""
    if "capture_output" not in options:
        options["stdout"] = subprocess.DEVNULL
    done = subprocess.run([*map(str, command)], text=True, **options)
    if done.returncode:
        sys.exit(f"error: {' '.join(map(str, command))[:300]} failed with {done.returncode}")
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pythons", nargs="+", default=[sys.executable], metavar="PYTHON")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "out" / "dist")
    flags = parser.parse_args()
    flags.output.mkdir(parents=True, exist_ok=True)
    wheel = build(flags.output)
    for python in flags.pythons:
        with tempfile.TemporaryDirectory() as directory:
            version = try_out(python, wheel, pathlib.Path(directory))
        print(f"{wheel.name} with Python {version}: the README and the tutorials run", flush=True)


if __name__ == "__main__":
    main()
