"""Worker processes, for engines that ask for them."""
