"""Validation of changes through the status subresource, with kube-apiserver's messages."""
