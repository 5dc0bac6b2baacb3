import dataclasses
import pickle

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from dp_transforms.job_secret import JobSecret, refuse_templates

SECRET = JobSecret.insecure_for_testing(1)


def test_secrets_of_the_system_differ():
    assert JobSecret.from_os() != JobSecret.from_os()


def test_nothing_shows_the_secret():
    for text in (repr(SECRET), str(SECRET), f"{SECRET}", repr([SECRET])):
        assert "hidden" in text
        assert SECRET.secret.hex() not in text
        assert repr(SECRET.secret) not in text


@pytest.mark.parametrize("secret", [b"", b"x" * 31, b"x" * 33, "x" * 32, bytearray(32)])
def test_a_secret_has_32_bytes(secret):
    with pytest.raises(ValueError, match="secret must be 32 bytes") as error:
        JobSecret(secret)
    assert "x" * 31 not in str(error.value)


def test_it_is_frozen_and_travels():
    with pytest.raises(dataclasses.FrozenInstanceError):
        SECRET.secret = bytes(32)
    assert pickle.loads(pickle.dumps(SECRET)) == SECRET


def test_every_purpose_has_its_own_randomness():
    others = [JobSecret.insecure_for_testing(2), SECRET]
    keys = {secret.key(purpose) for secret in others for purpose in ("a", "b", "ab")}
    words = {int(s.tape(p).words("w", 1)[0]) for s in others for p in ("a", "b", "ab")}
    assert len(keys) == len(words) == 6
    assert {len(key) for key in keys} == {32}
    assert JobSecret.insecure_for_testing(1).key("a") == SECRET.key("a")
    assert SECRET.tape("a").words("w", 3).tolist() == SECRET.tape("a").words("w", 3).tolist()


@pytest.mark.parametrize("use", [SECRET.key, SECRET.tape])
def test_a_purpose_must_be_named(use):
    with pytest.raises(ValueError, match="purpose must name"):
        use("")


def test_classic_templates_are_refused():
    refuse_templates(PipelineOptions([]))
    options = PipelineOptions(["--template_location=gs://bucket/template"])
    with pytest.raises(ValueError, match="template_location makes a classic template"):
        refuse_templates(options)
