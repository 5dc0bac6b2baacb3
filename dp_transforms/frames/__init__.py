"""Releases from data frames in this process, without Beam, and what they answer."""
