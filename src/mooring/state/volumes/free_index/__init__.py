"""Index of free volumes: the smallest one that matches a claim, for every node."""
