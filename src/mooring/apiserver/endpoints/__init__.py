"""Handlers of the embedded API server: one request in, one response out."""
