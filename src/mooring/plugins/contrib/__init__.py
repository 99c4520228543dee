"""Plugins that kube-scheduler does not have. A configuration enables them by name."""
