"""Steps of a recording that are followed, but on which nothing is compared."""

from __future__ import annotations

from mooring.objects.pod import Pod
from mooring.plugins.dynamic_resources import requested_devices
from mooring.state import Cache, PodInfo

#: The one reason so far.
DEVICES = "their pods ask for devices, which DynamicResources cannot allocate yet"


def why_not_compared(cache: Cache, pod: Pod) -> str | None:
    """Why a decision on this pod cannot be kube-scheduler's; None = it should be."""
    if pod.spec.resource_claims:
        return DEVICES
    return DEVICES if requested_devices(PodInfo(pod), cache.device_classes) else None
