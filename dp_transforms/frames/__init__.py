"""Makes releases from data frames in this process, without Beam, and answers questions by them."""
