"""Cancels jobs on a Flink cluster by its REST interface.

When Beam's job server for Flink is asked to cancel a job, it says that the job is cancelled and
stops waiting for it, but does not tell the cluster (this is so at least up to Beam 2.62).
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
    """Returns whether the value of the option --flink_master is the address of a REST interface."""
    return bool(master) and master not in MAGIC_HOST_NAMES


def cancel_on_flink(master: str, name: str, until: float) -> bool:
    """Cancels the running job of a name, and returns whether it has ended.

    If several jobs of that name are running, none is cancelled and the result is False. If none is
    running, the result says whether there was one.

    Args:
      master: HOST:PORT of the REST interface, or its URL.
      name: the name of the job.
      until: the time, of ``time.monotonic``, until which to wait for the end of the job.

    Raises:
      OSError, ValueError: the cluster did not answer, or not as Flink does.
    """
    url = master if "://" in master else f"http://{master}"
    jobs = [job for job in _answer(f"{url}/jobs/overview")["jobs"] if job["name"] == name]
    running = [job["jid"] for job in jobs if job["state"] not in _ENDED]
    if not running:
        return bool(jobs)
    if len(running) > 1:
        # All but one of them belong to somebody else.
        return False
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
