"""Kernels over Arrow tables and numpy arrays. This package imports no Beam and no mechanism."""
