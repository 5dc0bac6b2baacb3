"""python -m clusters.flink up | down"""

import argparse
import sys

from clusters.flink import cluster
from clusters.flink.staging import Unavailable


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m clusters.flink",
        description="A Flink session cluster on this machine, with Beam's job server.",
    )
    parser.add_argument("command", choices=("up", "down"))
    if parser.parse_args().command == "down":
        cluster.down()
        return 0
    try:
        cluster.up()
    except (Unavailable, TimeoutError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"Flink is at {cluster.REST}, the job server at {cluster.JOB_ENDPOINT}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
