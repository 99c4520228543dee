"""InterPodAffinity: places pods near to, or away from, other pods."""

from mooring.plugins.inter_pod_affinity.plugin import InterPodAffinity

__all__ = ["InterPodAffinity"]
