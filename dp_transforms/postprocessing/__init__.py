"""PUBLIC: computes from a release, or from public numbers, alone. It costs no privacy."""
