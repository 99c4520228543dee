"""Converts a legacy Policy file (removed in Kubernetes v1.23) to a configuration."""
