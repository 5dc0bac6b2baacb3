"""Starts the process that a pool's workers are copies of; before there is a pool, if it is sure
that there will be one: then it imports Beam beside the process that submits the job."""

from __future__ import annotations

import atexit
import socket
import subprocess
import sys
from typing import NamedTuple


class Warm(NamedTuple):
    """A process of ``pipelines.workers.warm``, and the socket by which it is asked for workers."""

    process: subprocess.Popen[bytes]
    requests: socket.socket

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.requests.close()


_early: list[Warm] = []


def start_early() -> None:
    """Starts the process that is asked for next; it ends with this one if none is."""
    if not _early:
        _early.append(_start())
        atexit.register(lambda: [warm.end() for warm in _early])


def start() -> Warm:
    """The process that was started early, or else a new one."""
    return _early.pop() if _early else _start()


def _start() -> Warm:
    requests, theirs = socket.socketpair()
    with theirs:
        descriptor = theirs.fileno()
        process = subprocess.Popen(
            [sys.executable, "-m", "pipelines.workers.warm", str(descriptor)],
            stdin=subprocess.DEVNULL,
            pass_fds=(descriptor,),
        )
    return Warm(process, requests)
