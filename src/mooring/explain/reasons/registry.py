"""The explanations by plugin. DynamicResources, and shortages, have modules of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from mooring.decision import Rejection
from mooring.explain.reasons import affinity, labels, nodes, resources, spread, volumes
from mooring.explain.reasons.case import Case, Explainer, names_text
from mooring.objects.node import Node

EXPLAINERS: Final[Mapping[str, Explainer]] = MappingProxyType(
    {
        "NodeUnschedulable": Explainer(nodes.unschedulable),
        "NodeName": Explainer(nodes.node_name),
        "TaintToleration": Explainer(nodes.taints, nodes.tolerations),
        "NodeAffinity": Explainer(labels.causes, labels.notes, labels.conflict),
        "NodeResourcesFit": Explainer(resources.causes, resources.notes),
        "NodePorts": Explainer(nodes.ports),
        "PodTopologySpread": Explainer(spread.causes, spread.notes),
        "InterPodAffinity": Explainer(affinity.causes, affinity.notes),
        "VolumeBinding": Explainer(volumes.binding_causes, None, volumes.pod_causes),
        "VolumeZone": Explainer(volumes.zone_causes, None, volumes.pod_causes),
        "NodeVolumeLimits": Explainer(volumes.limit_causes),
        "VolumeRestrictions": Explainer(
            volumes.restriction_causes, None, volumes.restriction_pod_causes
        ),
        "NodeDeclaredFeatures": Explainer(nodes.features),
    }
)


def causes_of(case: Case, node: Node, rejection: Rejection) -> tuple[str, ...]:
    """Returns why a node was rejected, in words; the plugin's reasons if there are none."""
    texts: dict[str, None] = {}
    for plugin in rejection.plugins:
        explainer = EXPLAINERS.get(plugin)
        if explainer is not None:
            texts |= dict.fromkeys(explainer.causes(case, node))
    return tuple(texts) or _because_of_nominated(case, node, rejection)


def _because_of_nominated(case: Case, node: Node, rejection: Rejection) -> tuple[str, ...]:
    """Returns the reasons, with the nominated pods that count as if they were on the node."""
    nominated = [info.key for info in case.nominated_to(node.metadata.name)]
    if not nominated or not any(plugin in EXPLAINERS for plugin in rejection.plugins):
        return rejection.reasons
    pods = names_text(nominated)
    return tuple(f"{reason}, because of nominated pods: {pods}" for reason in rejection.reasons)


def notes_of(case: Case, plugin: str, rejected: Sequence[Node]) -> Iterator[str]:
    """Yields lines about all nodes that a plugin rejected."""
    explainer = EXPLAINERS.get(plugin)
    if explainer is not None and explainer.notes is not None:
        yield from explainer.notes(case, rejected)


def pod_causes_of(case: Case, rejection: Rejection) -> Iterator[str]:
    """Yields why PreFilter rejected the pod."""
    for plugin in rejection.plugins:
        explainer = EXPLAINERS.get(plugin)
        if explainer is not None and explainer.pod_causes is not None:
            yield from explainer.pod_causes(case)
