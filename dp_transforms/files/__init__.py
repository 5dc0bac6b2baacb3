"""Files of jobs: what is read, and what is written."""
