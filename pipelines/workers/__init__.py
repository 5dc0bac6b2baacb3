"""Worker processes, for engines that ask for them."""

FAILURE = 1
"""The exit code of a worker that ends because a part of it failed."""
