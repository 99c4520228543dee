"""The values of feature gates that mooring does not implement, each with the reason.

A gate that is not here can be set to any value that kube-scheduler accepts: mooring does what the
value says, or the gate concerns another component of Kubernetes. A value that is the default in
v1.36 is never refused; what mooring lacks of the defaults is noted in ``DEFAULTS_MISSING``.
"""

from __future__ import annotations

from typing import Final

_WORKLOADS: Final = "scheduling of pod groups is not implemented"
_FIELDS: Final = "the fields of this gate still count if the API server returns them"
_CLIENT: Final = "mooring's client is not client-go: it speaks JSON only"

#: (Gate, value) -> why mooring refuses it.
MISSING: Final[dict[tuple[str, bool], str]] = {
    ("GenericWorkload", True): _WORKLOADS,
    ("GangScheduling", True): _WORKLOADS,
    ("TopologyAwareWorkloadScheduling", True): _WORKLOADS,
    ("WorkloadAwarePreemption", True): _WORKLOADS,
    ("DRAWorkloadResourceClaims", True): _WORKLOADS,
    (
        "DRAListTypeAttributes",
        True,
    ): "selectors and constraints do not know attributes that are lists",
    (
        "DRANodeAllocatableResources",
        True,
    ): "devices that stand for resources of the node are not counted",
    ("NativeHistograms", True): "native histograms are not implemented",
    ("CBORServingAndStorage", True): "mooring serves no CBOR",
    ("ClientsAllowCBOR", True): _CLIENT,
    ("ClientsPreferCBOR", True): _CLIENT,
}

#: (Gate, value) -> what mooring does all the same. Accepted and logged as a warning: the value
#: belongs to a whole cluster, and an API server with it gives mooring nothing that would differ.
PARTIAL: Final[dict[tuple[str, bool], str]] = {
    ("PodLevelResources", False): _FIELDS,
    ("SchedulerAsyncAPICalls", True): (
        "mooring writes conditions and bindings in the background with and without it;"
        " metrics of asynchronous API calls have no samples"
    ),
    ("InPlacePodLevelResourcesVerticalScaling", False): (
        "the pod-level amounts of a resize are still counted if the API server reports them"
    ),
}

#: Gates that are on by default although mooring does nothing of what they add.
DEFAULTS_MISSING: Final[dict[str, str]] = {
    "UnauthenticatedHTTP2DOSMitigation": "mooring serves HTTP/1.1 only",
}
