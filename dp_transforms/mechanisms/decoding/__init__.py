"""Decodes noisy Frobenius coordinates: numbers only, which a release has made public."""
