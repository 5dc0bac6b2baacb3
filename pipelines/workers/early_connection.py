"""Workers that connect for data before they make a stage's steps.

Beam's runners in Java wait for that connection, for three minutes at each attempt, before they look
at a worker's answers or notice its end (https://github.com/apache/beam/issues/20391, to Beam 2.62
at least). Beam's worker connects when it has unpickled the steps. So of a worker that is killed
before, or that cannot unpickle them because its pool has another version of this package, they
hear late, again and again: a job seems to hang.
"""

from __future__ import annotations

import os
import threading

from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.worker import sdk_worker
from apache_beam.runners.worker.bundle_processor import (
    DATA_INPUT_URN,
    DATA_OUTPUT_URN,
    BundleProcessor,
)

from pipelines.workers import FAILURE

# This module is all that the workers replace in Beam. Where Beam moves what is replaced,
# test_a_runner_hears_of_a_step_that_cannot_be_made fails.

# As long as runners would have waited.
SECONDS_TO_MAKE_STEPS = 180.0


class ConnectedFirst(sdk_worker.BundleProcessorCache):
    """Makes the steps of a worker's stages, connects first, and gives up after a time limit."""

    def get(self, instruction_id: str, bundle_descriptor_id: str) -> BundleProcessor:
        for transform in self.fns[bundle_descriptor_id].transforms.values():
            if transform.spec.urn in (DATA_INPUT_URN, DATA_OUTPUT_URN):
                port = beam_fn_api_pb2.RemoteGrpcPort.FromString(transform.spec.payload)
                self.data_channel_factory.create_data_channel(port)
        # Once connected, the runner notices at once that this worker has died.
        end = threading.Timer(SECONDS_TO_MAKE_STEPS, os._exit, (FAILURE,))
        end.daemon = True
        end.start()
        try:
            return super().get(instruction_id, bundle_descriptor_id)
        finally:
            end.cancel()


def connect_early() -> None:
    """Makes the workers of this process connect first."""
    sdk_worker.BundleProcessorCache = ConnectedFirst  # type: ignore[misc]
