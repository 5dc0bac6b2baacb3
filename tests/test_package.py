import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from importlib import metadata

import pytest

import dp_transforms
from dp_transforms import mechanisms
from dp_transforms.mechanisms import FrequencyList
from dp_transforms.sample_data import rockyou
from tests.jobs import job_flags

TREE = pathlib.Path(__file__).parents[1]


def test_the_packaged_list_is_the_one_of_the_papers():
    passwords = rockyou()
    # N and the number of different passwords, as in the data set of Blocki, Datta, Bonneau (2016).
    assert (passwords.total, passwords.distinct) == (32603388, 14344391)
    assert (passwords.frequencies[0], len(passwords)) == (290729, 2040)


def test_completion_offers_the_interface_and_nothing_else():
    offered = [name for name in dir(dp_transforms) if not name.startswith("_")]
    assert {"release", "select", "Session", "load"} <= set(offered)
    assert not {"re", "Path", "import_module"} & set(offered)
    assert all(getattr(dp_transforms, name).__doc__ for name in offered)


def test_deprecated_names_still_work_and_say_what_to_do():
    with pytest.warns(DeprecationWarning, match=r"take FrobeniusMechanism\(max_total"):
        from dp_transforms.mechanisms import MaximumTotalMechanism
    limited = MaximumTotalMechanism(epsilon=2, sensitivity=1, max_total=30)
    assert limited.release(FrequencyList([9, 1], [2, 12])).total <= 30
    with pytest.warns(DeprecationWarning, match="goes in version 0.4"):
        from dp_transforms.mechanisms import PartitionTable
    assert PartitionTable(FrequencyList([1], [1]), mechanisms.Eta(1, 1, 1), upper=[3])
    assert not {"MaximumTotalMechanism", "PartitionTable"} & set(dir(mechanisms))
    with pytest.warns(DeprecationWarning, match=r"take dp_transforms\.mechanisms\.decoding"):
        from dp_transforms.postprocessing.decoder import Posterior
    assert Posterior.median


@pytest.fixture(scope="module")
def source_distribution(tmp_path_factory):
    """Built by the command that Beam uses for --setup_file, from a copy without anything built."""
    checkout = tmp_path_factory.mktemp("checkout")
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(TREE / name, checkout)
    for name in ("dp_transforms", "pipelines", "runner_configs"):
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(TREE / name, checkout / name, ignore=ignore)
    subprocess.run(
        [sys.executable, "setup.py", "-q", "sdist", "--dist-dir", "dist"], cwd=checkout, check=True
    )
    (archive,) = (checkout / "dist").glob("*.tar.gz")
    return archive


@pytest.mark.slow
def test_the_source_distribution_holds_the_packages_and_their_data(source_distribution):
    with tarfile.open(source_distribution) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    patterns = ("dp_transforms/**/*.py", "dp_transforms/**/*.pyi", "pipelines/**/*.py")
    modules = {str(path.relative_to(TREE)) for pattern in patterns for path in TREE.glob(pattern)}
    data = {f"sample_data/{name}" for name in ("rockyou.csv", "yahoo.csv", "README.md")}
    data = {f"dp_transforms/{name}" for name in (*data, "beam_yaml_providers.yaml")}
    data |= {"runner_configs/flink/session.yaml", "LICENSE", "README.md", "setup.py"}
    assert modules | data <= names


@pytest.mark.slow
def test_the_source_distribution_installs_and_works_elsewhere(source_distribution, tmp_path):
    def run(*command):
        done = subprocess.run(command, cwd=tmp_path, check=True, stdout=subprocess.PIPE, text=True)
        return done.stdout

    run(sys.executable, "-m", "venv", "venv")
    python = tmp_path / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", source_distribution)
    # The dependencies are those of this interpreter: installing them again would test the network.
    # Its own editable copy of the package is not on this path, since .pth files are not followed.
    (site_packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    sample = ["--users=500", "--output=sample.csv"]
    run(python, "-m", "dp_transforms.pipelines.sample_records", *sample)
    job = job_flags(".", "--input=sample.csv", "--partition_column=password_id", "--output=release")
    run(python, "-m", "dp_transforms.pipelines.release_frequency_list", *job)
    FrequencyList.from_csv(tmp_path / "release" / "released_frequencies.csv")
    command = python.with_name("dp-frequency-lists")
    run(command, "release", *job, "--overwrite", "--config=direct/two_processes.yaml")
    code = "import dp_transforms as dp, dp_transforms.pipelines as jobs"
    code += "; print(dp.__file__, jobs.__file__)"
    assert run(python, "-c", code).count(str(site_packages)) == 2
    assert not (site_packages / "pipelines").exists()
    # A package of the user, which is installed beside it, stays as it is.
    (site_packages / "pipelines").mkdir()
    (site_packages / "pipelines/__init__.py").write_text("mine = 7\n")
    run(command, "release", *job, "--overwrite", "--config=direct/two_processes.yaml")
    assert run(python, "-c", "import dp_transforms, pipelines; print(pipelines.mine)") == "7\n"
    assert metadata.version("dp-frequency-lists") == dp_transforms.__version__
