"""Explains the plugins that read a node alone: its spec, taints, name, ports and features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mooring.explain.reasons.case import Case, count_text
from mooring.objects.node import Node, Taint
from mooring.objects.tolerations import HARD_EFFECTS, is_tolerated
from mooring.plugins.node_declared_features import declared_features, required_features
from mooring.state.columns.ports import ANY_ADDRESS, HostPort, conflicts


def unschedulable(case: Case, node: Node) -> Iterator[str]:
    """Yields that a node is cordoned."""
    del case, node
    yield "the node is cordoned (spec.unschedulable is true)"


def node_name(case: Case, node: Node) -> Iterator[str]:
    """Yields which node the pod names."""
    yield f"the pod names node {case.pod.spec.node_name}, this is {node.metadata.name}"


def untolerated(case: Case, node: Node) -> list[Taint]:
    """Returns all taints of a node that keep the pod away from it."""
    plugin = case.plugin("TaintToleration")
    compares = plugin.compares if plugin is not None else False
    return [
        taint
        for taint in node.spec.taints
        if taint.effect in HARD_EFFECTS
        and not is_tolerated(taint, case.pod.spec.tolerations, compares=compares)
    ]


def taints(case: Case, node: Node) -> Iterator[str]:
    """Yields each taint that is not tolerated."""
    for taint in untolerated(case, node):
        yield f"taint {taint_text(taint)} is not tolerated"


def taint_text(taint: Taint) -> str:
    """Returns a taint as kubectl writes it.

    Example:
        >>> taint_text(Taint(key="team", value="db", effect="NoSchedule"))
        'team=db:NoSchedule'
    """
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def toleration_yaml(taint: Taint) -> str:
    """Returns the toleration of one taint, as an item of ``spec.tolerations``."""
    rule = f"operator: Equal, value: {_scalar(taint.value)}" if taint.value else "operator: Exists"
    return f"- {{key: {_scalar(taint.key)}, {rule}, effect: {taint.effect}}}"


def _scalar(text: str) -> str:
    """Returns a string as YAML; in quotes if it could be read as another type."""
    is_plain = text[:1].isalpha() and text.lower() not in _YAML_WORDS
    return text if is_plain else f'"{text}"'


_YAML_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


def tolerations(case: Case, nodes: Sequence[Node]) -> Iterator[str]:
    """Yields the tolerations that the pod lacks, and the number of nodes of each."""
    counts: dict[str, int] = {}
    for node in nodes:
        for taint in untolerated(case, node):
            yaml = toleration_yaml(taint)
            counts[yaml] = counts.get(yaml, 0) + 1
    if counts:
        yield "tolerations that the pod lacks (spec.tolerations):"
    for yaml, count in sorted(counts.items(), key=lambda item: -item[1]):
        yield f"  {yaml}  # {count_text(count, 'node')}"


def port_text(port: HostPort) -> str:
    """Returns a host port, with its address if it has one of its own."""
    address, protocol, number = port
    return f"{number}/{protocol}" if address == ANY_ADDRESS else f"{address}:{number}/{protocol}"


def ports(case: Case, node: Node) -> Iterator[str]:
    """Yields which pod uses a host port that the pod requests."""
    for info in case.pods_on(node.metadata.name):
        for requested in case.info.host_ports:
            if any(conflicts(requested, used) for used in info.host_ports):
                yield f"host port {port_text(requested)} is in use by pod {info.key}"


def features(case: Case, node: Node) -> Iterator[str]:
    """Yields the features that a pod requires and a node does not declare."""
    declared = declared_features(node.status.declared_features)
    for feature in sorted(required_features(case.pod.spec) - declared):
        yield f"the node does not declare the feature {feature}"
