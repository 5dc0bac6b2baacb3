"""Draws from the exponential mechanism on integer partitions: a walk along diagonals."""
