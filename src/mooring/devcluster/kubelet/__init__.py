"""Simulated kubelets: what happens to a pod on its node."""
