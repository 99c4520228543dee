"""Reads files of Kubernetes objects, strictly and within limits, and writes YAML."""
