"""A worker process of a local run: Beam's own, except that only progress goes to stderr.

Beam's worker also writes its log there, at length, with the tracebacks of errors. The runner hears
of errors in another way, and passes on what a user should see.
"""

import os
import sys

if __name__ == "__main__":
    # Before Beam is imported, which logs. Progress is written to sys.__stderr__.
    sys.stderr = open(os.devnull, "w")

    from apache_beam.runners.worker import sdk_worker_main

    sdk_worker_main.main(sys.argv)
