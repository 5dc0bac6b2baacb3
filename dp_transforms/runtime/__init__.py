"""How records travel: their kinds, batches, the shuffle and the threads under every transform."""
