"""Memory for columns that come and go."""

from __future__ import annotations

import ctypes

# glibc's numbers of what mallopt sets.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8


def take_system_memory() -> None:
    """Has Arrow use the system's allocator in this process.

    Arrow's own one returns memory to the system and asks for it again: up to a fifth of the time.
    """
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())


def keep_freed_memory() -> None:
    """Has this process use freed memory again, rather than return it and ask for it once more.

    For a process that ends with its job: up to 256 MiB that are free stay with it. glibc would
    return large columns at once, and have an arena for each thread, which is emptied on its own: a
    tenth of the time. One arena keeps nobody waiting: small pieces have a cache of each thread.
    With other C libraries only Arrow's allocator changes.
    """
    take_system_memory()
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library
        return
    mallopt(_MMAP_THRESHOLD, 32 << 20)
    mallopt(_TRIM_THRESHOLD, 256 << 20)
    mallopt(_ARENA_MAX, 1)
