"""Everything that imports Beam: the engine, its transforms, and how records travel through them."""
