"""How the exponential mechanism on integer partitions is drawn: a walk along diagonals."""
