"""Defines the mechanisms that release frequency lists."""
