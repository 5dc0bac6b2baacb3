import pytest

from pipelines import release_frequency_list
from tests.jobs import job_flags


@pytest.mark.parametrize("flag", ["--input=b.csv", "--ledger=a.db", "--epsilon=2"])
def test_a_flag_of_one_value_is_not_given_twice(tmp_path, failure, flag):
    name = flag.partition("=")[0]
    flags = [*job_flags(tmp_path), "--ledger=b.db", name.replace("_", "-"), flag.partition("=")[2]]
    failure(2, f"{name} is given 2 times", release_frequency_list.main, flags)


def test_a_list_in_a_config_is_no_value(tmp_path, failure):
    (tmp_path / "a.yaml").write_text("ledger: [a.db, b.db]")
    flags = [*job_flags(tmp_path), f"--config={tmp_path}/a.yaml"]
    failure(2, "--ledger is given 2 times", release_frequency_list.main, flags)
