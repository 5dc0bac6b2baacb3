"""Descriptions of pipelines hold no secret in plain where their runner has a seal."""

import copy
import functools
import pickle
import subprocess
import sys

import apache_beam as beam
import pytest

import dp_transforms as dp
from dp_transforms.errors import InputError
from dp_transforms.runtime import sealing
from tests.runtime.test_job_secret import RECORDS, TRANSFORMS, Silent
from tests.secret_search import collect_keys, with_unpacked

PIPELINES = TRANSFORMS | {
    "noisy counts": dp.SelectPartitions(1, 1e-3, 2, noisy_counts=True),
    "capped counts": dp.CountDistinctUsers(cap=2),
}


@pytest.fixture
def secret_bytes(monkeypatch):
    """A set that grows by the secret of each job, and by all keys derived from it."""
    secret = dp.JobSecret.from_os()
    monkeypatch.setattr(dp.JobSecret, "from_os", lambda: secret)
    collected = collect_keys(monkeypatch)
    collected.add(secret.secret)
    return collected


def description(transform, runner):
    """All bytes of a pipeline's description, and of what is packed in it."""
    pipeline = beam.Pipeline(runner=runner)
    _ = pipeline | beam.Create(RECORDS) | transform
    return with_unpacked(pipeline.to_runner_api(use_fake_coders=True).SerializeToString())


@pytest.mark.parametrize("name", PIPELINES)
def test_a_sealed_description_has_no_secret_in_it(name, secret_bytes):
    runner = Silent()
    sealing.seal_runner(runner, sealing.draw_seal())
    described = description(PIPELINES[name], runner)
    assert b"open_sealed" in described
    assert not [secret for secret in secret_bytes if secret in described]


@pytest.mark.parametrize("name", PIPELINES)
def test_the_search_finds_a_secret_that_is_not_sealed(name, secret_bytes):
    described = description(PIPELINES[name], Silent())
    assert [secret for secret in secret_bytes if secret in described]


@pytest.fixture
def sealed_secret():
    secret = dp.JobSecret.insecure_for_testing(4)
    secret.seal(sealing.learn_seal(bytes(range(32))))
    return secret


def test_what_is_opened_is_what_was_sealed(sealed_secret):
    for value in (sealed_secret, sealed_secret.key("a")):
        packed = pickle.dumps(value)
        assert pickle.loads(packed) == value == copy.deepcopy(value)
        # Each time under another nonce, and what was opened is sealed again.
        assert len({packed, pickle.dumps(value), pickle.dumps(pickle.loads(packed))}) == 3
        assert sealed_secret.secret not in packed and bytes(sealed_secret.key("a")) not in packed
    tape = sealed_secret.tape("a")
    packed = pickle.dumps(tape)
    assert tape._key not in packed
    plain = dp.JobSecret.insecure_for_testing(4)
    for same in (tape, pickle.loads(packed), plain.tape("a")):
        assert same.words("x", 2).tolist() == tape.words("x", 2).tolist()
    assert sealed_secret.key("a") == plain.key("a")


OPEN = "import pickle, sys; pickle.load(sys.stdin.buffer)"


def opened_elsewhere(value, **environment):
    """Opens a value in another process; returns its exit code, and what it says last."""
    done = subprocess.run(
        [sys.executable, "-c", OPEN],
        input=pickle.dumps(value),
        env=environment,
        capture_output=True,
    )
    return done.returncode, done.stderr.decode().rstrip().rpartition("\n")[2]


@pytest.mark.thorough
def test_another_process_opens_it_with_the_file_alone(sealed_secret, tmp_path):
    seal, other = tmp_path / "seal", tmp_path / "other"
    for file, content in ((seal, bytes(range(32))), (other, bytes(32))):
        file.write_bytes(content)
        file.chmod(0o600)
    code, stderr = opened_elsewhere(sealed_secret, DP_SEAL_FILE=str(seal))
    assert (code, stderr) == (0, "")
    for environment in ({}, {"DP_SEAL_FILE": str(other)}):
        code, stderr = opened_elsewhere(sealed_secret, **environment)
        assert code and "this worker cannot open the job's secret: set DP_SEAL_FILE" in stderr


def test_no_text_shows_a_key(sealed_secret):
    for secret in (sealed_secret, dp.JobSecret.insecure_for_testing(4)):
        step = functools.partial(print, key=secret.key("a"))
        assert "key=<hidden>" in repr(step)
        assert f"{secret.key('a')} {secret.key('a')!r}" == "<hidden> <hidden>"


def test_what_was_changed_is_not_opened(sealed_secret):
    _, (name, nonce, encrypted) = sealed_secret.key("a").__reduce_ex__(4)
    changed = encrypted[:-1] + bytes([encrypted[-1] ^ 1])
    with pytest.raises(InputError, match="cannot open the job's secret"):
        sealing.open_sealed(name, nonce, changed)


@pytest.mark.parametrize(
    ("content", "mode", "says"),
    [
        (None, 0o600, "is no file that can be read"),
        (bytes(31), 0o600, "does not have 32 bytes"),
        (bytes(33), 0o600, "does not have 32 bytes"),
        (bytes(32), 0o640, "is open to other users: chmod 600"),
        (bytes(32), 0o604, "is open to other users: chmod 600"),
    ],
)
def test_an_unsuitable_file_is_refused(content, mode, says, tmp_path, monkeypatch):
    file = tmp_path / "seal"
    if content is not None:
        file.write_bytes(content)
        file.chmod(mode)
    monkeypatch.setenv("DP_SEAL_FILE", str(file))
    with pytest.raises(InputError, match=f"DP_SEAL_FILE names a file that {says}"):
        sealing.seal_name_of(Silent())


def test_pipelines_take_the_seal_of_their_runner_or_of_the_environment(tmp_path, monkeypatch):
    runner = Silent()
    assert sealing.seal_name_of(runner) is None
    file = tmp_path / "seal"
    file.write_bytes(bytes(32))
    file.chmod(0o600)
    monkeypatch.setenv("DP_SEAL_FILE", str(file))
    assert sealing.seal_name_of(runner) == sealing.learn_seal(bytes(32))
    sealing.seal_runner(runner, bytes(range(32)))
    assert sealing.seal_name_of(runner) == sealing.learn_seal(bytes(range(32)))
