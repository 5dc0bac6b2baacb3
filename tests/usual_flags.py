"""The flags of a job in tests: what is usual, but where a test gives its own."""

from collections.abc import Mapping


def flags_over(usual: Mapping[str, str], *flags: str) -> list[str]:
    """The flags, after those usual ones, by name, that they do not have."""
    given = {flag.partition("=")[0] for flag in flags}
    return [*(f"{name}={value}" for name, value in usual.items() if name not in given), *flags]
