"""python -m runner_configs.flink up | down"""

import sys

from runner_configs.command import main
from runner_configs.flink import cluster

if __name__ == "__main__":
    where = f"Flink is at {cluster.REST}, the job server at {cluster.JOB_ENDPOINT}"
    sys.exit(main("runner_configs.flink", cluster, where))
