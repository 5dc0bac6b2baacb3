"""Engines on this machine, to run the jobs on and to break while they run."""

# Filters a warning that Beam gives when it is imported.
import pipelines as pipelines
