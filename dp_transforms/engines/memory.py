"""Finds out how much memory this process may have."""

from __future__ import annotations

import os
import pathlib
import resource
from collections.abc import Iterator

_SYSTEM = pathlib.Path("/sys/fs/cgroup")
_MEMBERSHIP = pathlib.Path("/proc/self/cgroup")


def memory_limit() -> int:
    """Returns the bytes of memory that this process may have: the least of the machine's memory,
    the limits of its control group and of all groups around that, and its own limits (``ulimit -v``
    and ``-d``)."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    own = (resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA))
    limits += [limit for limit in own if limit != resource.RLIM_INFINITY]
    return min([*limits, *group_limits()])


def group_limits(
    system: pathlib.Path = _SYSTEM, membership: pathlib.Path = _MEMBERSHIP
) -> Iterator[int]:
    """Yields the memory limits of this process's control group and of all groups around it, in both
    versions of control groups. A limit of systemd (MemoryMax) is one of them.

    Args:
      system: where control groups are mounted. In a container this may be the group itself.
      membership: the file that names this process's groups, as ``/proc/self/cgroup``.
    """
    places = {(system, "memory.max"), (system / "memory", "memory.limit_in_bytes")}
    try:
        lines = membership.read_text().splitlines()
    except OSError:  # not Linux
        lines = []
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        own = pathlib.PurePosixPath(path.lstrip("/"))
        if not controllers:
            places |= {(system / group, "memory.max") for group in (own, *own.parents)}
        elif "memory" in controllers.split(","):
            root = system / "memory"
            places |= {(root / group, "memory.limit_in_bytes") for group in (own, *own.parents)}
    for group, name in sorted(places):
        try:
            yield int((group / name).read_text())
        except (OSError, ValueError):  # there is no file, or no number in it
            continue
