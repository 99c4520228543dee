"""Object kinds without a table: budgets, namespaces, workloads, device classes."""
