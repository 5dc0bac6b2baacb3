"""The command that starts a pool of workers, on a node of a cluster or in a container beside one.

    python -m pipelines.worker_pool --port=50000

Jobs use it with --environment_type=EXTERNAL --environment_config=localhost:50000, an address as the
worker nodes of the engine see it.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence

from pipelines.command_line import SUCCESS, OneLineParser, failed
from pipelines.workers.pool import LOOPBACK, WorkerPool


def main(argv: Sequence[str] | None = None) -> int:
    parser = OneLineParser(
        prog="python -m pipelines.worker_pool",
        description="Start Python workers for the runner of a cluster, on one of its nodes.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--port", type=int, default=50000, help="where to listen")
    parser.add_argument(
        "--host", default=LOOPBACK, help="where to listen; whoever reaches it can run code here"
    )
    flags = parser.parse_args(argv)
    try:
        pool = WorkerPool(flags.host, flags.port)
    except OSError as error:
        return failed(f"{flags.host}:{flags.port}: {error}")
    # What a container's end sends. The workers are stopped on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(SUCCESS))
    print(f"serving workers at {pool.address}", flush=True)
    try:
        pool.wait()
    except KeyboardInterrupt:
        pass
    return SUCCESS


if __name__ == "__main__":
    sys.exit(main())
