"""Tells whether a process of this machine has ended."""

from __future__ import annotations

import contextlib
import os


def this_process() -> str:
    """Names this process by the machine's boot, the namespace of its number, its number and its
    start; returns "" if the system does not tell them."""
    try:
        return f"{_namespace()} {os.getpid()} {_started(os.getpid())[1]}"
    except OSError:
        return ""


def is_of_this_machine(process: str) -> bool:
    """Tells whether ``has_ended`` knows of a process: it was named by ``this_process`` on this boot
    of this machine and in this namespace, so not in another container."""
    try:
        return process.rsplit(" ", 2)[0] == _namespace()
    except OSError:
        return False


def has_ended(process: str) -> bool:
    """Tells whether a process has certainly ended: it was named by ``this_process`` on this boot of
    this machine and in this namespace, and its number is free or another's by now."""
    if not is_of_this_machine(process):
        return False
    try:
        _, number, start = process.rsplit(" ", 2)
        with contextlib.suppress(PermissionError):  # another user's process has the number
            os.kill(int(number), 0)
        state, started = _started(int(number))
    except ProcessLookupError:
        return True
    except (OSError, ValueError, OverflowError):
        return False
    return state in "ZX" or started != start


def _namespace() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"


def _started(number: int) -> tuple[str, str]:
    """Returns the state of a process, and the clock ticks from boot to its start."""
    with open(f"/proc/{number}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].decode("ascii").split()
    return fields[0], fields[19]
