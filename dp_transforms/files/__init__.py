"""Reads the files of jobs, and writes their releases."""
