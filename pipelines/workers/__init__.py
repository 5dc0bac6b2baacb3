"""Worker processes, for engines that ask for them."""

FAILURE = 1
"""The exit code of a worker that ends because a part of it failed."""


def take_system_memory() -> None:
    """Has Arrow use the system's allocator in this process.

    Arrow's own one returns memory to the system and asks for it again: up to a fifth of the time.
    """
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())
