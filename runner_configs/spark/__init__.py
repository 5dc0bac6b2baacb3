"""Spark in one process, with Beam's job server for it."""
