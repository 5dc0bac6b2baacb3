"""Tells whether a process of this machine has ended."""

from __future__ import annotations

import contextlib
import os


def this_process() -> str:
    """Returns a name of this process: the boot of the machine, the namespace of process numbers,
    the process number, and the time of its start. It is "" on a system that does not show these."""
    try:
        return f"{_namespace()} {os.getpid()} {_started(os.getpid())[1]}"
    except OSError:
        return ""


def is_of_this_machine(process: str) -> bool:
    """Returns whether ``has_ended`` can see a process: ``this_process`` named it since this machine
    was started, and in this namespace of process numbers, so not in another container."""
    try:
        return process.rsplit(" ", 2)[0] == _namespace()
    except OSError:
        return False


def has_ended(process: str) -> bool:
    """Returns whether a process has certainly ended: ``is_of_this_machine`` holds, and its number
    is free by now or belongs to another process."""
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
