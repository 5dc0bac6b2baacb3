"""Exact integer noise: discrete Laplace and Gaussian."""
