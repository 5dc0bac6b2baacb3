"""python -m clusters.spark up | down"""

import sys

from clusters.command import main
from clusters.spark import server

if __name__ == "__main__":
    sys.exit(main("clusters.spark", server, f"the job server is at {server.JOB_ENDPOINT}"))
