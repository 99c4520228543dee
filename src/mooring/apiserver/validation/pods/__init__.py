"""Validation of the parts of a pod."""
