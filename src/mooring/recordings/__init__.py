"""Recordings of decisions: their format, and the comparison of two decisions."""
