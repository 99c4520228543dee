"""Kubernetes' own end-to-end specs of scheduling and devices, with both schedulers."""
