"""A DAG of Airflow that makes a private release each day, and pays for each day once.

Put it into Airflow's folder of DAGs. It needs ``dp-frequency-lists`` on the PATH of the workers,
and where a ledger in PostgreSQL asks for a password, PGPASSWORD or PGPASSFILE in their environment.
Directories come from the environment too: VISITS has the records, RELEASES gets the releases, and
LEDGER is the ledger's path or URL.
"""

import datetime
import os
import subprocess

from airflow.sdk import dag, task
from airflow.sdk.exceptions import AirflowException, AirflowFailException

DONE, DONE_BEFORE = 0, 3
NO_RETRY = {
    2: "the command line is wrong",
    4: "the ledger does not pay for this: a person decides",
}
"""The exit codes after which another try would end alike."""


def outcome(code: int) -> None:
    """Ends a task as the exit code of a job asks for: with success, for good, or to be retried."""
    if code in (DONE, DONE_BEFORE):
        return
    if code in NO_RETRY:
        raise AirflowFailException(f"exit code {code}: {NO_RETRY[code]}")
    raise AirflowException(f"exit code {code}: to be tried again")


@dag(
    schedule="@daily",
    start_date=datetime.datetime(2026, 11, 1),
    catchup=False,
    max_active_runs=1,
)
def private_visits():
    # A lease runs out five minutes after a pod was killed: retries go on for longer.
    @task(retries=6, retry_delay=datetime.timedelta(minutes=2))
    def release(ds: str | None = None) -> None:
        command = [
            *("dp-frequency-lists", "release"),
            f"--input={os.environ['VISITS']}/{ds}.csv",
            *("--user_column=user", "--partition_column=page", "--max_partitions_per_user=1"),
            f"--epsilon={os.environ.get('EPSILON', '0.25')}",
            f"--ledger={os.environ['LEDGER']}",
            # A retry of this day finds what an earlier try has paid for.
            f"--job_id=visits-{ds}",
            f"--output={os.environ['RELEASES']}/{ds}",
        ]
        outcome(subprocess.run(command).returncode)

    release()


private_visits()
