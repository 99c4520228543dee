"""Informers: local copies of all objects of a kind, synchronized with the API server."""
