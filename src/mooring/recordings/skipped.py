"""Steps of a recording that are applied but not compared."""

from __future__ import annotations

from mooring.objects.pod import Pod
from mooring.plugins.dynamic_resources import requested_devices
from mooring.state import PodInfo, Snapshot

#: The only reason at present.
DEVICES = "their pods ask for devices, which DynamicResources cannot allocate yet"


def why_not_compared(snapshot: Snapshot, pod: Pod) -> str | None:
    """Returns why decisions about this pod may differ from kube-scheduler's, or None."""
    if pod.spec.resource_claims:
        return DEVICES
    return DEVICES if requested_devices(PodInfo(pod), snapshot.device_classes) else None
