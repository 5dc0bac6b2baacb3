"""Shuffles beyond memory: nothing readable on disk. Releases are compared in
``tests/test_engine_conformance.py``."""

import errno
import functools
import itertools
import os
import random
import signal
import subprocess
import sys
import textwrap

import pytest

from dp_transforms.columnar import columns
from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.engines import local_shuffle
from dp_transforms.engines.local_shuffle import Buckets, SpillError
from tests import reference
from tests.beam_runs import rows_of, table_of

KEY = bytes(range(32))
PIECES = [(i * i % 7, bytes([i]) * (i % 11)) for i in range(200)]


@pytest.mark.parametrize("most_bytes", [0, 100, 10**6])
@pytest.mark.parametrize("segment", [1, 1 << 22])
def test_pieces_come_back_in_order(tmp_path, monkeypatch, most_bytes, segment):
    monkeypatch.setattr(local_shuffle, "_SEGMENT_BYTES", segment)
    expected = {bucket: [p for b, p in PIECES if b == bucket] for bucket, _ in PIECES}
    with Buckets(most_bytes, str(tmp_path)) as buckets:
        for start in range(0, len(PIECES), 10):
            buckets.add(PIECES[start : start + 10])
            assert buckets.held <= most_bytes
        assert (buckets._file is not None) == (most_bytes < 10**6)
        # Twice, as for a bucket that is gone through in parts.
        taken = [(list(pieces), list(pieces)) for pieces in buckets.take()]
        assert taken == [(expected[b], expected[b]) for b in sorted(expected)]


@pytest.mark.thorough
def test_batches_of_many_duplicates_travel_together(monkeypatch):
    rng = random.Random(7)
    batches = [[(f"u{rng.betavariate(1, 3):.2f}", i % 7) for i in range(2_000)] for _ in range(45)]
    repeated = [table_of(records * 4) for records in batches]
    sent, add = [], Buckets.add
    monkeypatch.setattr(Buckets, "add", lambda *args: sent.append(len(args[1])) or add(*args))
    monkeypatch.setattr(columns, "_BATCH_ROWS", 8_000)
    bound = functools.partial(distinct_pairs, at_most=3, key=KEY)
    bounded = local_shuffle.reduced(repeated, ("user", "partition"), bound, KEY, 16)
    assert sorted(rows_of(bounded)) == sorted(reference.bound(itertools.chain(*batches), 3, KEY))
    # A batch of 8,000 records keeps at most 1,200: those of several make one.
    assert len(sent) <= 6


def test_what_is_on_disk_is_encrypted_and_authenticated(tmp_path):
    secret = random.Random(1).randbytes(2000)  # which no compression hides
    halves = set()
    for _ in range(2):
        with Buckets(0, str(tmp_path)) as buckets:
            buckets.add([(0, secret), (1, secret)])
            file = buckets._file.fileno()
            assert os.fstat(file).st_mode & 0o777 == 0o600
            assert os.fstat(file).st_nlink == 0
            data = os.pread(file, 10**6, 0)
            assert len(data) > 2 * len(secret) and secret[:4] not in data
            half = len(data) // 2
            # Neither one key for two files, nor one nonce for two segments.
            halves |= {data[:half], data[half:]}
            taken = list(buckets.take())
            assert [list(pieces) for pieces in taken] == [[secret], [secret]]
            # The two segments change places.
            os.pwrite(file, data[half:] + data[:half], 0)
            for pieces in taken:
                with pytest.raises(SpillError, match="cannot be read again"):
                    list(pieces)
    assert len(halves) == 4


ENDLESS = """
    import itertools
    import pyarrow as pa
    from dp_transforms.columnar.bounding import distinct_pairs
    from dp_transforms.engines import local_shuffle

    local_shuffle.memory_limit = lambda: 0
    local_shuffle.is_full = lambda *_: True
    write = local_shuffle.Buckets._write

    def told(self, placed):
        write(self, placed)
        print("spilled", flush=True)

    local_shuffle.Buckets._write = told
    tables = (pa.table({"user": [i], "partition": ["page"]}) for i in itertools.count())
    list(local_shuffle.reduced(tables, ("user", "partition"), distinct_pairs, bytes(32), 16))
"""


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_of_a_job_that_is_killed(tmp_path, sent):
    options = {"env": os.environ | {"TMPDIR": str(tmp_path)}, "stderr": subprocess.DEVNULL}
    command = [sys.executable, "-c", textwrap.dedent(ENDLESS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, **options) as job:
        assert job.stdout.readline() == b"spilled\n"
        assert not list(tmp_path.iterdir())  # the file has no name
        job.send_signal(sent)
    assert job.returncode
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_an_error_of_one_line(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    says = rf"cannot be written to {tmp_path} \(no space left on device\): set TMPDIR to"
    with Buckets(0, str(tmp_path)) as buckets, pytest.raises(SpillError, match=says) as error:
        buckets.add(PIECES)
    assert "\n" not in str(error.value)
