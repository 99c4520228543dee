"""Validates objects as kube-apiserver does, with its messages."""
