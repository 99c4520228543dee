"""Writes of resource claims by the running scheduler."""
