"""Every predicate and priority that a Policy could name, and what does its work today.

Only tables; ``policy`` reads them.

Source: pkg/scheduler/framework/plugins/legacy_registry.go of Kubernetes v1.22, the last one; for
names that were gone by then, pkg/scheduler/algorithm of v1.14 (predicates and priorities).
"""

from __future__ import annotations

from typing import Final

_TAINTS: Final = "the node lifecycle controller taints such nodes, and TaintToleration sees that"
_CSI: Final = "NodeVolumeLimits does it now, for all CSI drivers; in-tree volumes count as theirs"

#: Predicate -> the plugins that filter in its place.
PREDICATES: Final[dict[str, tuple[str, ...]]] = {
    "CheckNodeUnschedulable": ("NodeUnschedulable",),
    "CheckVolumeBinding": ("VolumeBinding",),
    "EvenPodsSpread": ("PodTopologySpread",),
    "GeneralPredicates": ("NodeResourcesFit", "NodeName", "NodePorts", "NodeAffinity"),
    "HostName": ("NodeName",),
    "MatchInterPodAffinity": ("InterPodAffinity",),
    "MatchNodeSelector": ("NodeAffinity",),
    "MaxAzureDiskVolumeCount": ("NodeVolumeLimits",),
    "MaxCSIVolumeCountPred": ("NodeVolumeLimits",),
    "MaxCinderVolumeCount": ("NodeVolumeLimits",),
    "MaxEBSVolumeCount": ("NodeVolumeLimits",),
    "MaxGCEPDVolumeCount": ("NodeVolumeLimits",),
    "NoDiskConflict": ("VolumeRestrictions",),
    "NoVolumeZoneConflict": ("VolumeZone",),
    "PodFitsHostPorts": ("NodePorts",),
    "PodFitsPorts": ("NodePorts",),
    "PodFitsResources": ("NodeResourcesFit",),
    "PodToleratesNodeTaints": ("TaintToleration",),
}

#: Plugins that filter even if the list of predicates is empty.
MANDATORY: Final = ("NodeUnschedulable", "TaintToleration")

#: Predicates that work on under another name, which is worth saying.
MOVED_PREDICATES: Final[dict[str, str]] = {
    "MaxAzureDiskVolumeCount": _CSI,
    "MaxCinderVolumeCount": _CSI,
    "MaxEBSVolumeCount": _CSI,
    "MaxGCEPDVolumeCount": _CSI,
}

#: Predicates that nothing does any more -> why, or what to use.
GONE_PREDICATES: Final[dict[str, str]] = {
    "CheckNodeCondition": _TAINTS,
    "CheckNodeDiskPressure": _TAINTS,
    "CheckNodeLabelPresence": "without an argument of labelsPresence it checked nothing",
    "CheckNodeMemoryPressure": _TAINTS,
    "CheckNodePIDPressure": _TAINTS,
    "CheckServiceAffinity": "without an argument of serviceAffinity it checked nothing",
    "PodToleratesNodeNoExecuteTaints": "TaintToleration does it with the other taints, always",
}

#: What documentation called predicates that had another name.
MISNAMED_PREDICATES: Final[dict[str, str]] = {
    "MaxCSIVolumeCount": "MaxCSIVolumeCountPred",
    "PodFitsHost": "HostName",
}

#: These two are opposites.
LEAST_REQUESTED: Final = "LeastRequestedPriority"
MOST_REQUESTED: Final = "MostRequestedPriority"

#: Spread what pods ask for.
EVEN_PODS_SPREAD: Final = "EvenPodsSpreadPriority"
#: Spread the pods of a service or a controller: default constraints do it now. Two names for one.
SELECTOR_SPREAD: Final = "SelectorSpreadPriority"
SERVICE_SPREADING: Final = "ServiceSpreadingPriority"

#: Priority -> the plugin that scores in its place. NodeResourcesFit can score in one way only.
PRIORITIES: Final[dict[str, str]] = {
    "BalancedResourceAllocation": "NodeResourcesBalancedAllocation",
    EVEN_PODS_SPREAD: "PodTopologySpread",
    "ImageLocalityPriority": "ImageLocality",
    "InterPodAffinityPriority": "InterPodAffinity",
    LEAST_REQUESTED: "NodeResourcesFit",
    MOST_REQUESTED: "NodeResourcesFit",
    "NodeAffinityPriority": "NodeAffinity",
    SELECTOR_SPREAD: "PodTopologySpread",
    SERVICE_SPREADING: "PodTopologySpread",
    "TaintTolerationPriority": "TaintToleration",
}

#: Priorities that nothing does any more -> why, or what to use.
GONE_PRIORITIES: Final[dict[str, str]] = {
    "EqualPriority": "it gave every node the same score, which decides nothing",
    "NodePreferAvoidPodsPriority": (
        "the annotation scheduler.alpha.kubernetes.io/preferAvoidPods is not read any more; taint "
        "such nodes with effect PreferNoSchedule"
    ),
    "ResourceLimitsPriority": "scores go by requests; NodeResourcesFit has no strategy for limits",
}

#: Arguments that no plugin takes any more -> what to use.
GONE_ARGUMENTS: Final[dict[str, str]] = {
    "serviceAffinity": "let the pods ask for it, with podAffinity and the label as topologyKey",
    "serviceAntiAffinity": (
        "say it in defaultConstraints of PodTopologySpread, with the label as topologyKey and "
        "whenUnsatisfiable: ScheduleAnyway"
    ),
    "labelPreference": (
        "say it in addedAffinity of NodeAffinity, as preferredDuringSchedulingIgnoredDuring"
        "Execution; it is scored together with what the pods prefer"
    ),
}
