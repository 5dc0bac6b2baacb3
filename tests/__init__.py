"""Releases of tests have one time, so that they can be compared byte by byte."""

import os

os.environ.setdefault("SOURCE_DATE_EPOCH", "1767225600")
