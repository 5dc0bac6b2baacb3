"""Shared parts of the tests of jobs: flags where a test gives no others, words of releases, and
processes of their own."""

import json
import pathlib
import subprocess
import sys

import pipelines
from pipelines.__main__ import COMMANDS

PIPELINES = pathlib.Path(pipelines.__file__).parent

JOBS = tuple(
    sorted(
        module
        for module, _ in COMMANDS.values()
        if "from pipelines.release_job import" in (PIPELINES / f"{module}.py").read_text()
    )
)
"""The modules of commands that release something of records, so that a new one is tested too."""

_IN_PLACE_OF = {
    "--frequency_list": ("--input", "--user_column", "--partition_column"),
    "--eta": ("--epsilon",),
}


def flags_over(usual, *flags):
    """The flags, after those usual ones, by name, that they do not have."""
    given = {flag.partition("=")[0] for flag in flags}
    given |= {other for name in given for other in _IN_PLACE_OF.get(name, ())}
    return [*(f"{name}={value}" for name, value in usual.items() if name not in given), *flags]


def instead(flags, *replacements):
    """The flags, with the replacements in the place of those of the same names."""
    names = {flag.partition("=")[0] for flag in replacements}
    return [*(flag for flag in flags if flag.partition("=")[0] not in names), *replacements]


def job_flags(directory, *flags):
    """The flags of a job on ``records.csv`` of a directory, whose release goes to its ``out``."""
    usual = {
        "--input": f"{directory}/records.csv",
        "--user_column": "user",
        "--partition_column": "page",
        "--epsilon": "1",
        "--max_partitions_per_user": "1",
        "--output": f"{directory}/out",
    }
    return flags_over(usual, *flags)


def statement(directory, release="out"):
    """The ``privacy.json`` of a release in a directory."""
    return json.loads((directory / release / "privacy.json").read_text())


def without_digests(directory):
    """Makes a release look like one of a version that stated no digests, and returns it."""
    path = directory / "privacy.json"
    entries = json.loads(path.read_text())
    del entries["sha256"]
    path.write_text(json.dumps(entries))
    return directory


def python(*arguments, stdout=subprocess.PIPE, **options):
    """A process of Python that has ended, with what it printed."""
    options |= {"stdout": stdout, "stderr": subprocess.PIPE, "text": True, "timeout": 120}
    return subprocess.run([sys.executable, *arguments], **options)
