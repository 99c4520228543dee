"""Events of the simulated controllers and kubelets, which ``kubectl describe`` shows."""
