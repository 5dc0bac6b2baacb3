"""The travel of records: kinds, batches, the shuffle and the threads under every transform."""
