"""NodeVolumeLimits: limits the volumes of each CSI driver per node."""

from mooring.plugins.node_volume_limits.plugin import NodeVolumeLimits

__all__ = ["NodeVolumeLimits"]
