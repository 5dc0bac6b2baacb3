"""python -m runner_configs.spark up | down"""

import sys

from runner_configs.command import main
from runner_configs.spark import server

if __name__ == "__main__":
    sys.exit(main("runner_configs.spark", server, f"the job server is at {server.JOB_ENDPOINT}"))
