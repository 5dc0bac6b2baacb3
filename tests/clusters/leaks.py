"""Looks for what must not be there, in all that an engine shows of a job."""

import base64
import re

from runner_configs.flink import cluster

_PAGES = ("", "/config", "/plan", "/exceptions", "/accumulators", "/metrics", "/checkpoints")
_VERTEX_PAGES = ("", "/accumulators", "/metrics", "/subtasktimes", "/taskmanagers")


def needles(secret, patterns):
    """What finds a secret in any of its usual spellings, and texts of these patterns."""
    encoded = base64.b64encode(secret)
    spellings = [
        secret,
        secret.hex().encode(),
        secret.hex().upper().encode(),
        encoded.rstrip(b"="),
        base64.urlsafe_b64encode(secret).rstrip(b"="),
        repr(secret)[2:-1].encode(),
        str(int.from_bytes(secret, "big")).encode(),
        str(list(secret))[1:-1].encode(),
    ]
    return re.compile(b"|".join([*map(re.escape, spellings), *patterns]))


def leaks(pattern, texts):
    """Counts the findings, by the names of the texts where they were."""
    counts = {name: len(pattern.findall(text)) for name, text in texts}
    return {name: count for name, count in counts.items() if count}


def logs(directory):
    """All files below a directory, with names to find them by."""
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            yield path.name, path.read_bytes()


def show(lines, output):
    """Prints lines as they come, marks those that are not as they must be, and writes all of them
    to a file. The exit code is 1 if there was such a line."""
    kept, sound = [], True
    for line, good in lines:
        print(line, "" if good else "<-- NOT AS IT MUST BE", flush=True)
        kept.append(line)
        sound &= good
    if output:
        output.write_text("\n".join([*kept, ""]))
    return 0 if sound else 1


def rest_answers():
    """Yields the words and graphs of Flink's REST interface on the cluster and all its jobs."""
    for path in ("/overview", "/jobs/overview", "/jobmanager/config", "/jobmanager/environment"):
        yield path, cluster.ask_text(path)
    for manager in cluster.ask("/taskmanagers")["taskmanagers"]:
        path = f"/taskmanagers/{manager['id']}"
        yield path, cluster.ask_text(path)
    for job in cluster.ask("/jobs")["jobs"]:
        path = f"/jobs/{job['id']}"
        for page in _PAGES:
            yield path + page, cluster.ask_text(path + page)
        for vertex in cluster.ask(path)["vertices"]:
            for page in _VERTEX_PAGES:
                place = f"{path}/vertices/{vertex['id']}{page}"
                yield place, cluster.ask_text(place)
