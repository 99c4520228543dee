"""The controllers of endpoints of an in-memory cluster."""
