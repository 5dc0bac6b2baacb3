"""A password in a database's URL is warned of, and not repeated."""

import pytest

from pipelines import release_frequency_list

pytest.importorskip("adbc_driver_postgresql")

FLAGS = ["--query=SELECT 1", "--user_column=a", "--partition_column=b", "--epsilon=1"]
# Nothing listens at port 1.
QUIET = ("postgresql://me@localhost:1/shop", "postgresql://localhost:1/shop?user=me")
WARNED = (
    "postgresql://me:hunter2@localhost:1/shop",
    "postgres://me:hunter2@localhost:1/shop",
    "postgresql://localhost:1/shop?password=hunter2",
    "postgresql://me:hunt/hunter2@localhost:1/shop",
    "postgresql://me:hunt?hunter2@localhost:1/shop",
    "postgresql://me:hunter2/er@localhost:1/shop",
    "postgresql://me:hunter2%zz@localhost:1/shop",
)


def lines_of(database, directory, capfd):
    flags = [f"--input={database}", "--max_partitions_per_user=1", f"--output={directory}/r"]
    assert release_frequency_list.main([*FLAGS, *flags]) == 1
    out, err = capfd.readouterr()
    assert out == ""
    return err.splitlines()


@pytest.mark.parametrize("database", WARNED)
def test_a_password_is_warned_of_and_not_repeated(database, tmp_path, capfd):
    warning, error = lines_of(database, tmp_path, capfd)
    assert warning.startswith("warning: --input has a password in it") and "PGPASSWORD" in warning
    assert error.startswith("error: the database cannot be opened")
    assert "hunter2" not in warning + error


@pytest.mark.parametrize("database", QUIET)
def test_no_password_is_not_warned_of(database, tmp_path, capfd):
    (error,) = lines_of(database, tmp_path, capfd)
    assert error.startswith("error: the database cannot be opened")
