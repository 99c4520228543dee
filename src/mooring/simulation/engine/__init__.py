"""Runs the real scheduler over a table of objects, on virtual time."""
