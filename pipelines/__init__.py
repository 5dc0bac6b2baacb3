"""Runnable jobs: one module per job, `python -m pipelines.<job> --help`."""

import logging

# Without the gcp extra, Beam warns about BigQuery whenever it is imported. No job here uses
# BigQuery, and a user's first line of output should not be a warning that is not for them.
logging.getLogger().addFilter(lambda record: "apitools not found" not in record.getMessage())
