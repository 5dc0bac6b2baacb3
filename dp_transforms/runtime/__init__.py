"""What both engines use: a job's secret and its seal, and columns of Python values."""
