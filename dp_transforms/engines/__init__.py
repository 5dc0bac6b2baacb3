"""Makes specified releases from records: the contract of engines, and the engine of one process."""
