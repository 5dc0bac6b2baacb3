"""Probability distributions of a release at a list that is given: as private as that list."""
