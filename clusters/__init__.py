"""Engines on this machine, to run the jobs on and to break while they run."""
