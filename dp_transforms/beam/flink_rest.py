"""Cancels jobs on a Flink cluster by its REST interface.

Beam's job server for Flink answers that a job is cancelled, and stops waiting for it, but does not
tell the cluster (at least to Beam 2.62).
"""

from __future__ import annotations

import json
import time
import urllib.parse
import urllib.request
from typing import Any

from apache_beam.runners.portability.flink_runner import MAGIC_HOST_NAMES

_ENDED = ("CANCELED", "FAILED", "FINISHED")
_SECONDS_TO_ANSWER = 5.0
_SECONDS_BETWEEN_LOOKS = 0.2


def has_rest(master: str | None) -> bool:
    """Tells whether the option --flink_master is the address of a REST interface."""
    return bool(master) and master not in MAGIC_HOST_NAMES


def cancel_on_flink(master: str, name: str, until: float) -> bool:
    """Cancels the only job of a name that has not ended; tells whether that job has ended.

    Args:
      master: HOST:PORT of the REST interface, or its URL.
      name: of the job.
      until: the time, of ``time.monotonic``, until which to wait for its end.

    Raises:
      OSError, ValueError: the cluster did not answer, or not as Flink does.
    """
    url = master if "://" in master else f"http://{master}"
    # Of two jobs of a name, one is somebody else's.
    jobs = [job for job in _answer(f"{url}/jobs/overview")["jobs"] if job["name"] == name]
    running = [job["jid"] for job in jobs if job["state"] not in _ENDED]
    if len(running) != 1:
        return bool(jobs) and not running
    (job,) = running
    path = f"{url}/jobs/{urllib.parse.quote(job)}"
    _answer(path, "PATCH")
    while _answer(path)["state"] not in _ENDED:
        if time.monotonic() > until:
            return False
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    return True


def _answer(url: str, method: str = "GET") -> Any:
    request = urllib.request.Request(url, method=method)
    with urllib.request.urlopen(request, timeout=_SECONDS_TO_ANSWER) as answer:
        return json.loads(answer.read() or b"{}")
