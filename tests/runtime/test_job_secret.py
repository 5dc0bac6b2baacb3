import copy
import dataclasses
import gc
import os
import pickle
import weakref

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.display import DisplayData

import dp_transforms as dp
from dp_transforms.mechanisms.selection import OptimalSelection
from tests.beam_runs import steps_of

SECRET = dp.JobSecret.insecure_for_testing(1)


def test_nothing_shows_the_secret():
    for text in (repr(SECRET), str(SECRET), f"{SECRET}", repr([SECRET])):
        assert "hidden" in text
        assert SECRET.secret.hex() not in text
        assert repr(SECRET.secret) not in text


@pytest.mark.parametrize("secret", [b"", b"x" * 31, b"x" * 33, "x" * 32, bytearray(32)])
def test_a_secret_has_32_bytes(secret):
    with pytest.raises(ValueError, match="secret must be 32 bytes") as error:
        dp.JobSecret(secret)
    assert "x" * 31 not in str(error.value)


def test_it_is_drawn_anew_frozen_and_travels():
    assert dp.JobSecret.from_os() != dp.JobSecret.from_os()
    with pytest.raises(dataclasses.FrozenInstanceError):
        SECRET.secret = bytes(32)
    assert pickle.loads(pickle.dumps(SECRET)) == SECRET


def test_every_purpose_has_its_own_randomness():
    secrets = [dp.JobSecret.insecure_for_testing(2), SECRET]
    keys = {secret.key(context) for secret in secrets for context in ("a", "b", "ab")}
    words = {int(s.tape(p).words("w", 1)[0]) for s in secrets for p in ("a", "b", "ab")}
    assert len(keys) == len(words) == 6
    assert {len(key) for key in keys} == {32}
    assert dp.JobSecret.insecure_for_testing(1).key("a") == SECRET.key("a")
    assert SECRET.tape("a").words("w", 3).tolist() == SECRET.tape("a").words("w", 3).tolist()


@pytest.mark.parametrize("use", [SECRET.key, SECRET.tape])
def test_a_purpose_must_be_named(use):
    with pytest.raises(ValueError, match="purpose must name"):
        use("")


@pytest.mark.parametrize("flag", ["template_location=gs://bucket/t", "output_executable_path=j"])
def test_what_could_be_run_again_is_refused(flag):
    pipeline = beam.Pipeline(Silent(), PipelineOptions([f"--{flag}"]))
    with pytest.raises(ValueError, match=f"{flag.partition('=')[0]} makes a .*, whose runs"):
        _ = pipeline | beam.Create(RECORDS) | dp.BoundContributions(1)


RECORDS = [("ann", "jazz"), ("bob", "jazz")]
USES = {
    "selection by Measured": lambda **use: dp.SelectPartitions(1, 1e-3, 1, **use),
    "selection by": lambda **use: (
        dp.DeclareBounded(1, counted=True) | dp.SelectFromCounts(OptimalSelection(1, 1e-3), **use)
    ),
    "frequency list by": lambda **use: (
        dp.DeclareBounded(1, counted=True) | dp.ReleaseFrequencyList(1, **use)
    ),
    "user degrees by": lambda **use: dp.ReleaseUserDegrees(1, **use),
    "list of attribute": lambda context="a", **use: dp.ReleaseAttributes(
        [context], epsilon=len(context), **use
    ),
    "frequency list of": lambda context="a", **use: dp.ReleaseGroupedLists(
        [dp.Attribute(context, ("x",))],
        epsilon_all=len(context),
        epsilon_groups=1,
        max_partitions_per_user=1,
        **use,
    ),
}
TRANSFORMS = {name: make() for name, make in USES.items()} | {
    "bound": dp.BoundContributions(1),
    "count": dp.CountDistinctUsers(),
    "degrees": dp.CountDegrees(),
    "projected degrees": dp.CountProjectedDegrees(2),
    "select in rounds": dp.SelectPartitions(1, 1e-3, 2, strategy="renyi_rounds"),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_pipeline_runs_once(name):
    pipeline = beam.Pipeline(runner=Silent())
    records = pipeline | beam.Create(RECORDS)
    # Without a secret it runs as often as it likes.
    pipeline.run()
    pipeline.run()
    _ = records | TRANSFORMS[name]
    pipeline.run()
    with pytest.raises(ValueError, match="this pipeline has run"):
        pipeline.run()
    # Not one that was extended meanwhile, either.
    with pytest.raises(ValueError, match="this pipeline has run"), pipeline:
        _ = pipeline | "More" >> beam.Create(RECORDS) | "Bound more" >> dp.BoundContributions(1)


def test_parts_of_a_pipeline_are_not_run_again():
    # With the name of Beam's runner.
    pipeline = beam.Pipeline(runner=type("InteractiveRunner", (Silent,), {})())
    with pytest.raises(ValueError, match="the InteractiveRunner runs parts"):
        _ = pipeline | beam.Create(RECORDS) | dp.BoundContributions(1)


def test_a_secret_serves_one_pipeline():
    def bounded(pipeline, secret, label="first"):
        records = pipeline | label >> beam.Create(RECORDS)
        return records | f"bound {label}" >> dp.BoundContributions(1, secret=secret)

    secret = dp.JobSecret.from_os()
    first, second = (beam.Pipeline(runner=Silent()) for _ in range(2))
    _ = bounded(first, secret) | dp.CountDistinctUsers(secret=secret)
    with pytest.raises(ValueError, match="this secret serves another pipeline"):
        bounded(second, secret)
    # Nor does it after the first one is gone.
    gone = weakref.ref(first)
    del first, _
    gc.collect()
    assert gone() is None
    with pytest.raises(ValueError, match="this secret serves another pipeline"):
        bounded(second, secret, "again")
    for pipeline in (second, beam.Pipeline(runner=Silent())):
        bounded(pipeline, SECRET, "tests")
    with pytest.raises(TypeError, match=r"be a JobSecret, .* got bytes"):
        bounded(second, bytes(32), "no secret")


def test_copies_and_forks_of_a_secret_serve_nothing(monkeypatch):
    secret = dp.JobSecret.from_os()
    travelled = pickle.loads(pickle.dumps(secret))
    for copied in (copy.copy(secret), copy.deepcopy(secret), travelled, copy.copy(travelled)):
        assert copied == secret
        with pytest.raises(ValueError, match="or is a copy"):
            copied.claim(monkeypatch)
    monkeypatch.setattr(os, "getpid", lambda: 0)
    with pytest.raises(ValueError, match="or is a copy"):
        secret.claim(monkeypatch)


@pytest.mark.parametrize("again", [dataclasses.replace, lambda secret: dp.JobSecret(secret.secret)])
def test_secrets_of_the_same_bytes_count_as_one(again, monkeypatch):
    first, second = (beam.Pipeline(runner=Silent()) for _ in range(2))
    secret = dp.JobSecret.from_os()
    same = again(secret)
    same.claim(first)
    secret.claim(first)
    for copied in (secret, same, again(same)):
        with pytest.raises(ValueError, match="this secret serves another pipeline"):
            copied.claim(second)
    # Nor does it serve another one after all that held it are gone.
    content = secret.secret
    del secret, same, copied
    gc.collect()
    with pytest.raises(ValueError, match="this secret serves another pipeline"):
        dp.JobSecret(content).claim(second)


def test_a_secret_from_before_a_fork_serves_nothing_by_way_of_its_bytes(monkeypatch):
    secret = dp.JobSecret.from_os()
    monkeypatch.setattr(os, "getpid", lambda: 0)
    for copied in (dataclasses.replace(secret), dp.JobSecret(secret.secret)):
        with pytest.raises(ValueError, match="or is a copy"):
            copied.claim(monkeypatch)


def test_copies_of_what_has_travelled_serve_nothing():
    packed, content = pickled_elsewhere()
    travelled = pickle.loads(packed)
    assert travelled.secret == content
    for copied in (dataclasses.replace(travelled), dp.JobSecret(content)):
        with pytest.raises(ValueError, match="or is a copy"):
            copied.claim(test_copies_of_what_has_travelled_serve_nothing)


def pickled_elsewhere():
    """A secret as another process sends it, and its bytes."""
    secret = dp.JobSecret.from_os()
    return pickle.dumps(secret), secret.secret


@pytest.mark.parametrize("use", USES)
def test_a_secret_serves_one_release_of_each_context(use):
    secret, pipeline = dp.JobSecret.from_os(), beam.Pipeline(runner=Silent())
    records, other_records = (pipeline | name >> beam.Create(RECORDS) for name in ("one", "other"))
    _ = records | "first" >> USES[use](secret=secret)
    with pytest.raises(ValueError, match=f"this secret serves another {use}"):
        _ = other_records | "changed" >> USES[use](secret=secret)
    _ = other_records | "its own" >> USES[use](secret=secret, context="another")


@pytest.mark.parametrize("use", USES)
def test_no_step_shows_the_secret(use):
    pipeline = beam.Pipeline(runner=Silent())
    _ = pipeline | beam.Create(RECORDS) | USES[use](secret=SECRET)
    steps = [step.transform for step in steps_of(pipeline.transforms_stack[0]) if step.transform]
    items = [item for step in steps for item in DisplayData.create_from(step).items]
    shown = repr([steps, *map(vars, items)])
    assert SECRET.secret.hex() not in shown and repr(SECRET.secret) not in shown


class Silent(beam.runners.PipelineRunner):
    def run_pipeline(self, pipeline, options):
        return beam.runners.runner.PipelineResult(beam.runners.runner.PipelineState.DONE)
