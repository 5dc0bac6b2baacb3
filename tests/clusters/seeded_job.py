"""Runs a job under a secret that anyone can repeat, so that its releases can be compared.

    python -m tests.clusters.seeded_job SEED MODULE FLAGS...

For data that are made up, never for a release.
"""

import importlib
import sys

from dp_transforms.__main__ import leave
from dp_transforms.runtime.job_secret import JobSecret


def main(seed: str, module: str, *flags: str) -> int:
    secret = JobSecret.insecure_for_testing(int(seed))
    # All jobs take their secret from here.
    JobSecret.from_os = lambda: secret  # type: ignore[method-assign]
    return importlib.import_module(module).main(flags)


if __name__ == "__main__":
    leave(main(*sys.argv[1:]))
