"""How the corner-weighted mechanism is drawn: an exact walk along the diagonals, with labels."""
