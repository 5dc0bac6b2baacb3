import os

import pytest

from dp_transforms.beam import engine as on_beam
from dp_transforms.runtime.job_secret import JobSecret
from tests.clusters.agreement import ROOT, SECRET


@pytest.fixture
def same_secret(monkeypatch):
    """All jobs take the same test secret, and workers of other processes find this package."""
    monkeypatch.setattr(JobSecret, "from_os", lambda: SECRET)
    # Their few records are as many parts as many would be.
    monkeypatch.setattr(on_beam, "FEW_RECORDS", 0)
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
