"""PodTopologySpread: spreads matching pods over the domains of topology keys."""

from mooring.plugins.pod_topology_spread.plugin import PodTopologySpread

__all__ = ["PodTopologySpread"]
