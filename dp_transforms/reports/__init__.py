"""Writes statements and pages about a release, from the release alone."""
