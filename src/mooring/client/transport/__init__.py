"""Connections to an API server: HTTP, TLS, credentials, kubeconfig files."""
