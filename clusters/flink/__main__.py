"""python -m clusters.flink up | down"""

import sys

from clusters.command import main
from clusters.flink import cluster

if __name__ == "__main__":
    where = f"Flink is at {cluster.REST}, the job server at {cluster.JOB_ENDPOINT}"
    sys.exit(main("clusters.flink", cluster, where))
