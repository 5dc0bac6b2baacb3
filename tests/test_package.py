import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from importlib import metadata

import pytest

import dp_transforms
from dp_transforms import __version__
from dp_transforms.mechanisms import FrequencyList
from dp_transforms.sample_data import rockyou
from tests.jobs import job_flags

REPOSITORY = pathlib.Path(__file__).parents[1]


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


@pytest.fixture(scope="module")
def source_distribution(tmp_path_factory):
    """Built by the command that Beam uses for --setup_file, from a copy without anything built."""
    checkout = tmp_path_factory.mktemp("checkout")
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, checkout)
    for name in ("dp_transforms", "pipelines", "runner_configs"):
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPOSITORY / name, checkout / name, ignore=ignore)
    subprocess.run(
        [sys.executable, "setup.py", "-q", "sdist", "--dist-dir", "dist"], cwd=checkout, check=True
    )
    (found,) = (checkout / "dist").glob("*.tar.gz")
    return found


@pytest.mark.slow
def test_the_source_distribution_holds_the_packages_and_their_data(source_distribution):
    with tarfile.open(source_distribution) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for package in ("dp_transforms", "pipelines"):
        modules = {
            str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / package).rglob("*.py")
        }
        assert modules <= names
    data = {
        f"dp_transforms/sample_data/{name}" for name in ("rockyou.csv", "yahoo.csv", "README.md")
    }
    data |= {
        str(path.relative_to(REPOSITORY)) for path in REPOSITORY.glob("dp_transforms/**/*.pyi")
    }
    data.add("dp_transforms/beam_yaml_providers.yaml")
    data.add("runner_configs/flink/session.yaml")
    assert data | {"LICENSE", "README.md", "setup.py"} <= names


@pytest.mark.slow
def test_the_source_distribution_installs_and_works_elsewhere(source_distribution, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, source_distribution], check=True)
    # The dependencies are those of this interpreter: installing them again would test the network.
    # Its own editable copy of the package is not on this path, since .pth files are not followed.
    (site_packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    run = [python, "-m", "pipelines.sample_records", "--users=500", "--output=sample.csv"]
    subprocess.run(run, cwd=tmp_path, check=True)
    job = job_flags(".", "--input=sample.csv", "--partition_column=password_id", "--output=release")
    run = [python, "-m", "pipelines.release_frequency_list", *job]
    subprocess.run(run, cwd=tmp_path, check=True)
    FrequencyList.from_csv(tmp_path / "release" / "released_frequencies.csv")
    run = [tmp_path / "venv" / "bin" / "dp-frequency-lists", "release", *job, "--overwrite"]
    subprocess.run([*run, "--config=direct/two_processes.yaml"], cwd=tmp_path, check=True)
    code = "import dp_transforms, pipelines; print(dp_transforms.__file__, pipelines.__file__)"
    where = subprocess.run(
        [python, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert where.count(str(site_packages)) == 2
    assert metadata.version("dp-frequency-lists") == __version__
