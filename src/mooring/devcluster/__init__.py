"""A cluster in one process: API server, scheduler, and simulated kubelets and controllers."""
