"""Releases from data frames, made in this process without Beam, and the answers that they give."""
