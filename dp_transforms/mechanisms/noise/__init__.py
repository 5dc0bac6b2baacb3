"""Exact integer noise."""
