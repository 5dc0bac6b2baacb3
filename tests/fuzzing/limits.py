"""How long to fuzz: a bounded run by default, a long one by ``make fuzz`` (FUZZ_EXAMPLES)."""

import contextlib
import os
import signal

from hypothesis import HealthCheck, Phase, settings

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "30"))

fuzz = settings(
    max_examples=EXAMPLES,
    deadline=None,
    # A bounded run is the same every time; a long one is there to find something new.
    derandomize="FUZZ_EXAMPLES" not in os.environ,
    database=None,
    suppress_health_check=list(HealthCheck),
    # What fails is fuzzed further by hand: shrinking would take longer than all the rest.
    phases=[Phase.explicit, Phase.generate],
)

MARKER = "zanzibar"
"""Is in all private data, and must be in no message."""

_SECONDS = 20


@contextlib.contextmanager
def no_hang():
    """Fails if the block takes longer than anything here should."""

    def stop(*_):
        raise AssertionError(f"no end within {_SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, _SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
