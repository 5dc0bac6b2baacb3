"""Runnable Beam jobs: ``python -m pipelines.<job> --help``."""
