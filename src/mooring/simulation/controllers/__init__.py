"""The workload controllers: from a workload object and its pods to writes."""
