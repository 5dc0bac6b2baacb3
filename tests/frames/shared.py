"""Visits of users to pages, and how functions are told of them."""

import numpy as np

from dp_transforms import JobSecret

SECRET = JobSecret.insecure_for_testing(7)
RANDOM = np.random.default_rng(3)
USERS = [f"user {n}" for n in RANDOM.integers(0, 400, 3_000)]
PAGES = [f"/{n}" for n in (RANDOM.pareto(1, 3_000) * 3).astype(int)]
COMMON = {"user": "who", "partition": "page", "max_partitions_per_user": 3}
