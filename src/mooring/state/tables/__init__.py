"""The tables of the cluster: nodes, pods on nodes, counts by selector, (anti-)affinity terms."""
