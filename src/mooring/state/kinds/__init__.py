"""Kinds without a table of their own: budgets, namespaces, workloads, device classes."""
