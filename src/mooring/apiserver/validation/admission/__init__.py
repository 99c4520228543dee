"""Validation of webhook configurations and admission policies, with kube-apiserver's messages."""
