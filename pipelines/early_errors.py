"""Errors of a worker before its first connection for data, and how a runner hears of them.

Beam's runners in Java wait for that connection before they look at a worker's answers
(https://github.com/apache/beam/issues/20391, to Beam 2.62 at least), and Beam's worker connects
when it has unpickled a stage's steps. Of an error in that, for example in a pool with another
version of this package, they hear after three minutes, and try again as often as they try: a job
seems to hang.
"""

from __future__ import annotations

from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.worker.bundle_processor import (
    DATA_INPUT_URN,
    DATA_OUTPUT_URN,
    BundleProcessor,
)
from apache_beam.runners.worker.sdk_worker import BundleProcessorCache


class ConnectingCache(BundleProcessorCache):
    """What makes a worker's stages; it connects for data even if it can not make one."""

    def get(self, instruction_id: str, bundle_descriptor_id: str) -> BundleProcessor:
        try:
            return super().get(instruction_id, bundle_descriptor_id)
        except Exception:
            for transform in self.fns[bundle_descriptor_id].transforms.values():
                if transform.spec.urn in (DATA_INPUT_URN, DATA_OUTPUT_URN):
                    port = beam_fn_api_pb2.RemoteGrpcPort.FromString(transform.spec.payload)
                    self.data_channel_factory.create_data_channel(port)
            raise
