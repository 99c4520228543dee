"""VolumeBinding: filters nodes by the volumes of a pod, and binds its claims in PreBind."""

from mooring.plugins.volume_binding.plugin import VolumeBinding

__all__ = ["VolumeBinding"]
