"""Carries records through every transform: their kinds, batches, shuffle and threads."""
