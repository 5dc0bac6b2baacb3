"""Looks for a job's secret, and for keys derived from it, in descriptions of pipelines."""

import base64
import bz2
import re
import zlib

from dp_transforms.runtime import job_secret
from dp_transforms.runtime.sealing import SecretBytes


def collect_keys(monkeypatch):
    """Returns a set that grows by all secrets and keys that may get into a description."""
    collected = set()

    def watched(content, seal_name):
        collected.add(bytes(content))
        return SecretBytes(content, seal_name)

    monkeypatch.setattr(job_secret, "SecretBytes", watched)
    return collected


def with_unpacked(description):
    """Returns a description's bytes and those of its pickles: Beam compresses them, in base64."""
    return b"".join([description, *_unpacked(description)])


def _unpacked(description):
    for text in re.findall(rb"[A-Za-z0-9+/=]{40,}", description):
        # A byte before may look like one of them.
        for start in range(4):
            for unpack in (bz2.decompress, zlib.decompress):
                try:
                    yield unpack(base64.b64decode(text[start:] + b"=="))
                except (ValueError, OSError, zlib.error):
                    continue
