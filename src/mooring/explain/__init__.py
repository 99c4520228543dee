"""Explains a decision, offline, from a recording, or from a running scheduler."""
