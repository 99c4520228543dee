"""The lines about the devices that some nodes lack: the text of ``missing_devices``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from mooring.dra import PreparedClaim, Slices
from mooring.dra.constraints import attribute_of, value_of
from mooring.dra.devices import SliceDevice
from mooring.explain.devices import (
    CLAIMS,
    CONSTRAINT,
    FAILED,
    FREE,
    NO_CAPACITY,
    NO_COUNTERS,
    NOT_SELECTED,
    REQUESTS,
    SHORT,
    TAINTED,
    TAKEN,
    UNKNOWN,
    Cause,
    DeviceVerdict,
    NodeExamination,
    RequestFinding,
)
from mooring.explain.holders import Holders, devices_text, examples
from mooring.objects.resource import DeviceConstraint
from mooring.plugins.dynamic_resources.extended_resources import NAME_IN_MEMORY

#: Causes beside those of ``devices``: the claims are allocated for other nodes; the node lacks an
#: extended resource that no class stands for.
NOT_AVAILABLE: Final = "not available"
LACKS_RESOURCE: Final = "lacks resource"

#: The most pools of a paragraph that are not used.
POOLS_MAX: Final = 6

_KINDS: Final = (FREE, TAKEN, TAINTED, NOT_SELECTED, NO_CAPACITY, NO_COUNTERS, FAILED)


class Examined(NamedTuple):
    """A node, its cause, and the claims there."""

    examination: NodeExamination
    cause: Cause
    #: Request of the special claim -> "example.com/gpu of container main".
    uses: dict[str, str]
    #: What the claims that are allocated elsewhere say.
    unavailable: tuple[str, ...]


class Paragraph(NamedTuple):
    """Nodes of one group with one cause."""

    group: str
    nodes: list[Examined]


class ParagraphText:
    """Writes paragraphs about the devices of a cluster."""

    def __init__(self, holders: Holders, slices: Slices) -> None:
        self._holders = holders
        self._slices = slices

    def lines(self, paragraph: Paragraph) -> Iterator[str]:
        """Yields the lines of a paragraph."""
        first = paragraph.nodes[0]
        names = [node.examination.node.name for node in paragraph.nodes]
        count = "1 node" if len(names) == 1 else f"{len(names)} nodes"
        yield f"  {count} of {paragraph.group} ({examples(names)}):"
        yield from (f"    {line}" for line in first.unavailable)
        if first.cause.kind == LACKS_RESOURCE:
            yield "    an extended resource is missing that no device class stands for"
        yield from self._pools(paragraph)
        yield from (f"    {line}" for line in self._cause(paragraph, first))

    def _pools(self, paragraph: Paragraph) -> Iterator[str]:
        pools = {
            pool.name: pool
            for node in paragraph.nodes
            for pool in node.examination.pools.pools
            if pool.state
        }
        for pool in list(pools.values())[:POOLS_MAX]:
            state = f"{pool.state}, so its devices are not used"
            yield f"    pool {pool.name} is {state}: {pool.problem}"

    def _cause(self, paragraph: Paragraph, first: Examined) -> Iterator[str]:
        cause = first.cause
        if cause.kind == SHORT:
            for claim, request in cause.requests:
                yield from self._request(paragraph, claim, request)
        elif cause.kind == REQUESTS:
            yield from self._together(paragraph, first.examination.claims[cause.claim])
        elif cause.kind == CONSTRAINT:
            yield from self._constraints(first, cause)
        elif cause.kind == CLAIMS:
            claims = ", ".join(_label(claim) for claim in first.examination.claims)
            yield f"each claim could have its devices, but not all of them together: {claims}"
        elif cause.kind == UNKNOWN and not first.unavailable:
            yield "no single cause was found: the search for devices may have timed out"

    def _request(self, paragraph: Paragraph, claim: int, request: int) -> Iterator[str]:
        """Yields what excludes the devices for a request, or for each of its alternatives."""
        findings = [node.examination.findings(claim, request) for node in paragraph.nodes]
        prepared = paragraph.nodes[0].examination.claims[claim]
        for index, finding in enumerate(findings[0]):
            of_nodes = [of_node[index] for of_node in findings]
            name = f"{_label(prepared)}, request {finding.choice.full_name}"
            if prepared.claim.metadata.name == NAME_IN_MEMORY:
                name = paragraph.nodes[0].uses.get(finding.choice.full_name, name)
            yield f"{name}: {_needs(finding)}"
            yield from (f"  {line}" for line in self._counts(paragraph, of_nodes))

    def _counts(self, paragraph: Paragraph, findings: Sequence[RequestFinding]) -> Iterator[str]:
        entries = [entry for finding in findings for entry in finding.devices]
        if not entries:
            yield "no device of the class"
            return
        numbers = [(kind, sum(finding.count(kind) for finding in findings)) for kind in _KINDS]
        parts = [f"{number} {kind}" for kind, number in numbers if number or kind == FREE]
        yield f"{devices_text(len(entries))} of the class: {', '.join(parts)}"
        best = max(range(len(findings)), key=lambda index: findings[index].count(FREE))
        most = findings[best].count(FREE)
        if len(findings) > 1 and most:
            yield f"at best {most} free on one node ({paragraph.nodes[best].examination.node.name})"
        yield from self._exclusions(entries)

    def _exclusions(self, entries: Sequence[DeviceVerdict]) -> Iterator[str]:
        """Yields what excludes devices, and which of them."""
        yield from _by_detail(entries, NOT_SELECTED, "selector {} excludes {}")
        yield from _failures(entries)
        taken = [entry.device for entry in entries if entry.verdict.kind == TAKEN]
        yield from self._holders.lines(taken, "taken")
        yield from _by_detail(entries, TAINTED, "taint {} is on {}")
        for kind in (NO_CAPACITY, NO_COUNTERS):
            short = [entry for entry in entries if entry.verdict.kind == kind]
            if short:
                more = f" ({devices_text(len(short))} in all)" if len(short) > 1 else ""
                yield f"{short[0].verdict.detail}{more}"
            yield from self._holders.lines(self._users(short, kind), "used")

    def _users(self, short: Sequence[DeviceVerdict], kind: str) -> list[SliceDevice]:
        """Returns the devices whose users leave too little capacity, or too few counters."""
        if kind == NO_CAPACITY:
            return [entry.device for entry in short]
        pools = {entry.device.pool_key for entry in short}
        return [
            device
            for prepared in self._slices.of_pools(pools)
            for device in prepared.devices
            if device.consumption
        ]

    def _together(self, paragraph: Paragraph, claim: PreparedClaim) -> Iterator[str]:
        index = paragraph.nodes[0].examination.claims.index(claim)
        yield f"{_label(claim)}: each request has enough devices, but not all requests together"
        for request in range(len(claim.requests)):
            for finding in paragraph.nodes[0].examination.findings(index, request):
                yield f"  request {finding.choice.full_name}: {_needs(finding)}, {_free(finding)}"

    def _constraints(self, first: Examined, cause: Cause) -> Iterator[str]:
        """Yields the constraints, and the values of free devices on the first node."""
        claim = first.examination.claims[cause.claim]
        for index in cause.constraints:
            constraint = claim.constraints[index]
            kind = "matchAttribute" if constraint.match_attribute else "distinctAttribute"
            attribute = constraint.match_attribute or constraint.distinct_attribute or ""
            of = f" of requests {', '.join(constraint.requests)}" if constraint.requests else ""
            yield f"{_label(claim)}: constraint {kind} {attribute}{of} cannot be satisfied"
            yield f"  values of the free devices on {first.examination.node.name}:"
            yield from _values_by_request(first.examination, cause.claim, constraint)


def _values_by_request(
    examination: NodeExamination, claim: int, constraint: DeviceConstraint
) -> Iterator[str]:
    """Yields the values of the free devices of each request that a constraint is about."""
    attribute = constraint.match_attribute or constraint.distinct_attribute or ""
    for request in range(len(examination.claims[claim].requests)):
        for finding in examination.findings(claim, request):
            name = finding.choice.full_name
            if constraint.requests and not {name, finding.choice.parent} & {*constraint.requests}:
                continue
            yield f"    request {name}, {_needs(finding)}: {_values(finding, attribute)}"


def _label(claim: PreparedClaim) -> str:
    if claim.claim.metadata.name == NAME_IN_MEMORY:
        return "the extended resources"
    return f"claim {claim.key}"


def _needs(finding: RequestFinding) -> str:
    choice = finding.choice
    device_class = choice.device_class.metadata.name if choice.device_class is not None else "?"
    if choice.wants_all:
        return f"all devices of class {device_class}"
    return f"{devices_text(choice.count)} of class {device_class}"


def _free(finding: RequestFinding) -> str:
    """Returns the free devices of a request."""
    names = [str(entry.device.id) for entry in finding.devices if entry.verdict.kind == FREE]
    return f"{len(names)} free: {examples(names)}"


def _values(finding: RequestFinding, attribute: str) -> str:
    """Returns the values of an attribute with the number of free devices that have them."""
    counts: dict[str, int] = {}
    for entry in finding.devices:
        if entry.verdict.kind == FREE:
            attribute_value = attribute_of(entry.device, attribute)
            value = value_of(attribute_value) if attribute_value is not None else None
            text = "none" if value is None else str(value[1])
            counts[text] = counts.get(text, 0) + 1
    return ", ".join(f"{value} ({devices_text(count)})" for value, count in counts.items())


def _by_detail(entries: Sequence[DeviceVerdict], kind: str, form: str) -> Iterator[str]:
    """Yields a line for each selector or taint, with its devices."""
    by_detail: dict[str, list[str]] = {}
    for entry in entries:
        if entry.verdict.kind == kind:
            by_detail.setdefault(entry.verdict.detail, []).append(str(entry.device.id))
    for detail, names in by_detail.items():
        yield f"{form.format(detail, devices_text(len(names)))}: {examples(names)}"


def _failures(entries: Sequence[DeviceVerdict]) -> Iterator[str]:
    """Yields a line for each selector and error, with the devices for which it failed."""
    by_error: dict[tuple[str, str], list[str]] = {}
    for entry in entries:
        if entry.verdict.kind == FAILED:
            error = entry.verdict.detail, entry.verdict.error
            by_error.setdefault(error, []).append(str(entry.device.id))
    for (selector, text), names in by_error.items():
        if text.startswith("CEL compile error"):
            yield f"selector {selector} does not compile"
        else:
            yield f"selector {selector} fails for {devices_text(len(names))}: {examples(names)}"
        yield from (f"  {line}" for line in text.splitlines())
