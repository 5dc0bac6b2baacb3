"""The version of this library; setup.py reads it from here."""

VERSION = "0.2.0"
