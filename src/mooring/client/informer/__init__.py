"""Informers: local copies of all objects of a kind, kept equal to the API server."""
