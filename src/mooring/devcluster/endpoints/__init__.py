"""The endpoint slice controller of an in-memory cluster."""
