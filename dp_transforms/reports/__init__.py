"""Statements and pages about a release, from what was released alone."""
