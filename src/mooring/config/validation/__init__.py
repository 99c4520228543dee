"""Validates a configuration as kube-scheduler does, and reports every error."""
