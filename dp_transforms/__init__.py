"""Differentially private partition selection and frequency lists on Apache Beam."""
