"""What the engine on Beam does before a release adds a step."""

import apache_beam as beam
import pytest

from dp_transforms import JobSecret
from dp_transforms.beam.engine import OnBeam
from dp_transforms.files.frame_records import RecordArguments


def test_its_secret_and_its_pipeline_serve_once_before_any_step():
    # A kind of release may add steps of its own, without a transform that looks after these.
    secret, pipeline = JobSecret.from_os(), beam.Pipeline()
    source = RecordArguments([("ann", "home")], 0, 1, False).open()
    OnBeam(pipeline, source, secret)
    with pytest.raises(ValueError, match="secret"):
        OnBeam(beam.Pipeline(), source, secret)
    pipeline.run().wait_until_finish()
    with pytest.raises(ValueError, match="run"):
        pipeline.run()
