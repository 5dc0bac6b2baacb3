"""The command beside a user's own package of the name ``pipelines``."""

import functools
import os

import pytest

from dp_transforms.__main__ import RUN_MODULE
from pipelines.__main__ import COMMANDS
from tests.jobs import job_flags, python


@pytest.fixture
def run_python(tmp_path):
    """Runs Python in a directory that has such a package and is on PYTHONPATH."""
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "__init__.py").write_text("raise RuntimeError('of the user')\n")
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    return functools.partial(python, cwd=tmp_path, env=environment)


@pytest.mark.thorough
def test_a_users_package_is_not_loaded(run_python):
    # As it should be for the user.
    assert "of the user" in run_python("-c", "import pipelines").stderr
    helps = (
        "from dp_transforms.__main__ import load_jobs; load_jobs()\n"
        "from pipelines.__main__ import COMMANDS, main\n"
        "for name in COMMANDS:\n"
        "    try: main([name, '--help'])\n"
        "    except SystemExit: pass\n"
    )
    done = run_python("-c", helps)
    assert done.returncode == 0 and not done.stderr
    assert done.stdout.count("usage: ") >= len(COMMANDS)
    assert run_python("-m", "dp_transforms", "--version").stdout.startswith("dp-frequency-lists ")


@pytest.mark.slow
def test_a_release_on_beam_with_a_process_of_its_own(run_python, tmp_path):
    (tmp_path / "records.csv").write_text("user,page\n" + "".join(f"{i},a\n" for i in range(50)))
    flags = job_flags(".", "--config=direct/two_processes.yaml", "--direct_num_workers=1")
    done = run_python("-m", "dp_transforms", "release", *flags)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "released_frequencies.csv").exists()


@pytest.mark.thorough
def test_workers_are_those_of_this_project(run_python):
    done = run_python("-c", RUN_MODULE, "pipelines.worker_pool", "--help")
    assert done.returncode == 0 and "--port" in done.stdout
