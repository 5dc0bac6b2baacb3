"""Holds a job's secret and its seal, and makes columns of Python values: for both engines."""
