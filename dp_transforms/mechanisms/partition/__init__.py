"""Mechanisms that release frequency lists, as one calls them."""
