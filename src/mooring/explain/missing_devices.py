"""Explains which devices are missing on the nodes that DynamicResources rejected.

Nodes of one group (``Utilization.groups``) with the same cause share a paragraph: its numbers are
sums over these nodes, and the best node is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from mooring.decision import ERROR, SCHEDULED, Decision
from mooring.dra import (
    AllocationError,
    CELCompiler,
    NodePools,
    PreparedClaim,
    Selectors,
    TargetNode,
    prepare_claim,
)
from mooring.explain.claims import ClaimsOfPod, claims_of, nodes_text, unready_text
from mooring.explain.device_text import (
    LACKS_RESOURCE,
    NOT_AVAILABLE,
    Examined,
    Paragraph,
    ParagraphText,
)
from mooring.explain.devices import CONSTRAINT, FAILED, Cause, NodeExamination
from mooring.explain.holders import Holders
from mooring.objects.meta import key
from mooring.objects.node import Node
from mooring.objects.pod import ContainerExtendedResourceRequest, Pod
from mooring.objects.selectors import compile_node_selector
from mooring.plugins.dynamic_resources.extended_resources import (
    requested_resources,
    requests_and_mappings,
    resources_by_devices,
    with_requests,
)
from mooring.simulation.utilization import Utilization
from mooring.state import NodeTable, PodInfo, Snapshot
from mooring.state.devices.devices import Devices

PLUGIN: Final = "DynamicResources"

#: Limits: nodes that are examined, and paragraphs of the output.
NODES_MAX: Final = 1000
PARAGRAPHS_MAX: Final = 12


def explain_claims(
    pod: Pod, decision: Decision, utilization: Utilization, snapshot: Snapshot
) -> Iterator[str]:
    """Yields the lines about the claims of a pod; none if it has no claims, or they do not matter.

    Args:
        pod: The pod.
        decision: The decision to explain.
        utilization: The cluster, for the groups of nodes.
        snapshot: The cluster before the decision.
    """
    devices: Devices = snapshot.devices
    claims = claims_of(pod, devices)
    if not claims.lines or (decision.result == SCHEDULED and not claims.has_problem):
        return
    yield from ("", "Its claims:")
    yield from (f"  {line}" for line in claims.lines)
    rejected = [
        name for name, rejection in decision.rejected.items() if PLUGIN in rejection.plugins
    ]
    if decision.result == ERROR:
        rejected = list(utilization.nodes)
    if not rejected or decision.result == SCHEDULED:
        return
    missing = _MissingDevices(pod, claims, devices)
    paragraphs = list(missing.paragraphs(rejected, utilization, snapshot.nodes))
    if decision.result == ERROR:
        paragraphs = list(filter(missing.is_error, paragraphs))
    if paragraphs:
        yield from ("", "Missing devices, by group of nodes:")
    text = ParagraphText(Holders(devices), devices.slices)
    for paragraph in paragraphs[:PARAGRAPHS_MAX]:
        yield from text.lines(paragraph)
    if len(paragraphs) > PARAGRAPHS_MAX:
        yield f"  ... and {len(paragraphs) - PARAGRAPHS_MAX} more groups"
    if len(rejected) > NODES_MAX:
        yield f"  ... and {len(rejected) - NODES_MAX} nodes that were not examined"


class _Special(NamedTuple):
    """The special claim on nodes with the same resources by devices."""

    claims: tuple[PreparedClaim, ...]
    uses: dict[str, str]


class _MissingDevices:
    """The explanation of one pod."""

    def __init__(self, pod: Pod, claims: ClaimsOfPod, devices: Devices) -> None:
        self._pod = pod
        self._claims = claims
        self._devices = devices
        self._selectors = Selectors(CELCompiler())
        self._resources = requested_resources(PodInfo(pod))
        self._prepared = tuple(
            prepare_claim(claim, devices.classes.get, devices.features)
            for claim in claims.user
            if claim.status.allocation is None
        )
        self._specials: dict[tuple[str, ...], _Special] = {}

    def paragraphs(
        self, names: Sequence[str], utilization: Utilization, nodes: NodeTable
    ) -> Iterable[Paragraph]:
        """Returns the nodes by group and cause, largest paragraph first."""
        by_cause: dict[object, Paragraph] = {}
        for name in names[:NODES_MAX]:
            row = nodes.live_row(name)
            if row < 0 or name not in utilization.nodes:
                continue
            examined = self._examine(nodes.node(row))
            if examined is not None:
                group = utilization.nodes[name].group
                states = tuple(
                    pool.state for pool in examined.examination.pools.pools if pool.state
                )
                index = group, examined.cause, examined.unavailable, states
                by_cause.setdefault(index, Paragraph(group, [])).nodes.append(examined)
        return sorted(by_cause.values(), key=lambda paragraph: -len(paragraph.nodes))

    def is_error(self, paragraph: Paragraph) -> bool:
        """Returns whether these nodes end an attempt: a selector fails, or a constraint of all."""
        return paragraph.nodes[0].cause.kind == CONSTRAINT or any(
            finding.count(FAILED)
            for examined in paragraph.nodes
            for claim, prepared in enumerate(examined.examination.claims)
            for request in range(len(prepared.requests))
            for finding in examined.examination.findings(claim, request)
        )

    # -- one node ---------------------------------------------------------------------------------

    def _examine(self, node: Node) -> Examined | None:
        target = TargetNode(node.metadata.name, node.metadata.labels)
        try:
            pools = self._devices.slices.pools(target)
        except AllocationError:
            return None  # the message of the decision is the text of this error
        claims, uses = self._prepared, dict[str, str]()
        if self._claims.special is not None:
            resources = resources_by_devices(node, self._resources, self._devices.classes)
            if resources is None:
                empty = self._examination(target, pools, ())
                return Examined(empty, Cause(LACKS_RESOURCE), {}, ())
            claims, uses = self._special_for(resources)
        examined = self._examination(target, pools, claims)
        unavailable = tuple(self._unavailable(node))
        cause = examined.cause() if claims else Cause(NOT_AVAILABLE)
        return Examined(examined, cause, uses, unavailable)

    def _examination(
        self, target: TargetNode, pools: NodePools, claims: Sequence[PreparedClaim]
    ) -> NodeExamination:
        devices = self._devices
        rule_of = devices.taint_rules.rule_of
        return NodeExamination(target, pools, claims, devices.allocated, self._selectors, rule_of)

    def _special_for(self, resources: tuple[str, ...]) -> _Special:
        claims_there = self._specials.get(resources)
        if claims_there is None:
            special = self._claims.special
            assert special is not None
            extended = requests_and_mappings(self._pod, resources, self._devices.classes)
            claims = self._prepared
            if extended.requests:
                of_node = with_requests(special, extended.requests)
                claims = (
                    *claims,
                    prepare_claim(of_node, self._devices.classes.get, self._devices.features),
                )
            uses = {mapping.request_name: _use(mapping) for mapping in reversed(extended.mappings)}
            claims_there = self._specials[resources] = _Special(claims, uses)
        return claims_there

    def _unavailable(self, node: Node) -> Iterator[str]:
        """Yields the allocated claims that are for other nodes, or whose devices fail."""
        for claim in self._claims.user:
            allocation = claim.status.allocation
            if allocation is None:
                continue
            yield from (f"claim {key(claim)}: {problem}" for problem in unready_text(claim))
            if allocation.node_selector is None:
                continue
            selector = compile_node_selector(allocation.node_selector)
            if not selector.matches(node.metadata.labels, node.metadata.name):
                nodes = nodes_text(allocation.node_selector)
                yield f"claim {key(claim)} is allocated for {nodes} only"


def _use(mapping: ContainerExtendedResourceRequest) -> str:
    return f"{mapping.resource_name} of container {mapping.container_name}"
