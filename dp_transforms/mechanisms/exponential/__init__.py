"""The base-2 exponential mechanism over any finite set of outcomes."""
