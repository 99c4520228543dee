"""Changes of DynamicResources: the claim, the class, the requests, and pods that have devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from mooring.dra import (
    AllocationError,
    CELCompiler,
    DeviceID,
    PreparedClaim,
    Selectors,
    TargetNode,
    prepare_claim,
)
from mooring.explain.changes.change import EDIT_POD, RESOURCES, SuggestedChange, removal
from mooring.explain.claims import claims_of
from mooring.explain.devices import (
    FREE,
    TAINTED,
    TAKEN,
    NodeExamination,
    RequestFinding,
    taint_text,
)
from mooring.explain.reasons.case import Case, similar
from mooring.objects.meta import key
from mooring.objects.node import Node
from mooring.objects.pod import Pod, PodResourceClaim
from mooring.objects.resource import (
    DeviceRequest,
    DeviceTaint,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from mooring.state import PodInfo

#: Pods that are removed together.
REMOVALS_MAX = 2


class _Request(NamedTuple):
    """A request of a claim of the pod, and where an edit of it belongs.

    Attributes:
        claim: The claim.
        template: The key of the template from which the claim is made; "" = from none.
        name: The name of the request.
    """

    claim: ResourceClaim
    template: str
    name: str

    @property
    def text(self) -> str:
        """The request in words."""
        return f"request {self.name} of {_owner_text(self.claim, self.template)}"


def corrected_claims(case: Case) -> Iterator[SuggestedChange]:
    """Yields, for each claim and class that does not exist, the most similar one."""
    pod, devices = case.pod, case.snapshot.devices
    namespace = pod.metadata.namespace
    names = [
        claim.metadata.name
        for claim in devices.claims.all()
        if claim.metadata.namespace == namespace
    ]
    for entry in pod.spec.resource_claims:
        name = entry.resource_claim_name
        if name and devices.claims.get(f"{namespace}/{name}") is None:
            near = similar(name, names)
            if near is not None:
                yield _renamed(name, near)
    for claim in _open_claims(case):
        for name in dict.fromkeys(_class_names(claim)):
            near = similar(name, devices.classes.names())
            if devices.classes.get(name) is None and near is not None:
                yield _other_class(case, claim, name, near)


def for_devices(case: Case, node: Node) -> Iterator[tuple[SuggestedChange, ...]]:
    """Yields tolerations of devices, fewer devices, and the removal of pods that have some."""
    examined = _examined(case, node)
    if examined is None:
        return
    requests = [
        (_Request(claim.claim, _template_of(case, claim.claim), finding.choice.parent), finding)
        for index, claim in enumerate(examined.claims)
        for number in range(len(claim.requests))
        for finding in _only(examined.findings(index, number))
    ]
    short = [item for item in requests if item[1].is_short and not item[1].choice.wants_all]
    for find in (_toleration, _fewer):
        changes = [change for item in short for change in (find(*item),) if change is not None]
        if short and len(changes) == len(short):
            yield tuple(changes)
    for pods in _users(case, node, [finding for _, finding in short or requests]):
        yield tuple(map(removal, pods))


def _only(findings: list[RequestFinding]) -> list[RequestFinding]:
    """Returns the finding of a request without alternatives; of others, nothing."""
    return findings if len(findings) == 1 and not findings[0].choice.sub else []


def _examined(case: Case, node: Node) -> NodeExamination | None:
    """Returns the devices of a node for the claims of the pod; None = they cannot be counted."""
    devices = case.snapshot.devices
    target = TargetNode(node.metadata.name, node.metadata.labels)
    try:
        claims, selectors = case.once("prepared claims", lambda: _prepared(case))
        pools = devices.slices.pools(target)
    except AllocationError:
        return None
    rule_of = devices.taint_rules.rule_of
    return NodeExamination(target, pools, claims, devices.allocated, selectors, rule_of)


def _prepared(case: Case) -> tuple[list[PreparedClaim], Selectors]:
    devices = case.snapshot.devices
    claims = [
        prepare_claim(claim, devices.classes.get, devices.features) for claim in _open_claims(case)
    ]
    return claims, Selectors(CELCompiler())


def _open_claims(case: Case) -> list[ResourceClaim]:
    """Returns the claims of the pod that have no devices yet."""
    claims = case.once("claims", lambda: claims_of(case.pod, case.snapshot.devices))
    return [claim for claim in claims.user if claim.status.allocation is None]


def _class_names(claim: ResourceClaim) -> Iterator[str]:
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            yield request.exactly.device_class_name


# ---- the pod and its claims ----


def _renamed(name: str, near: str) -> SuggestedChange:
    def entry(item: PodResourceClaim) -> PodResourceClaim:
        is_old = item.resource_claim_name == name
        return replace(item, resource_claim_name=near) if is_old else item

    def edit(pod: Pod) -> Pod:
        entries = tuple(map(entry, pod.spec.resource_claims))
        return replace(pod, spec=replace(pod.spec, resource_claims=entries))

    text = f"name resource claim {near} in the pod (instead of {name})"
    return SuggestedChange(text, EDIT_POD, f"resource claim {name}", edit)


def _other_class(case: Case, claim: ResourceClaim, old: str, new: str) -> SuggestedChange:
    def exactly(item: ExactDeviceRequest) -> ExactDeviceRequest:
        return replace(item, device_class_name=new) if item.device_class_name == old else item

    template = _template_of(case, claim)
    text = f"request class {new} in {_owner_text(claim, template)} (instead of {old})"
    text += _again(template)
    edit = _edit_of(lambda _: True, exactly)
    return SuggestedChange(
        text, EDIT_POD, f"class {old}", claims={key(claim): edit}, template=template
    )


def _toleration(request: _Request, finding: RequestFinding) -> SuggestedChange | None:
    """Returns the toleration of a taint by which there are enough devices; None = no taint."""
    taints: Counter[DeviceTaint] = Counter()
    for item in finding.devices:
        if item.verdict.kind == TAINTED:
            taint = item.device.taints[0]
            taints[replace(taint, time_added=None)] += len(item.device.taints) == 1
    if not taints:
        return None
    ((taint, count),) = taints.most_common(1)
    if finding.count(FREE) + count < finding.needed:
        return None
    operator = "Equal" if taint.value else "Exists"
    toleration = DeviceToleration(
        key=taint.key, operator=operator, value=taint.value, effect=taint.effect
    )

    def exactly(item: ExactDeviceRequest) -> ExactDeviceRequest:
        return replace(item, tolerations=(*item.tolerations, toleration))

    text = f"tolerate {taint_text(taint)} in {request.text}"
    return _changed(request, exactly, text, EDIT_POD)


def _fewer(request: _Request, finding: RequestFinding) -> SuggestedChange | None:
    """Returns a request for the devices that are free; None = there are none."""
    free, count = finding.count(FREE), finding.choice.count
    if not 0 < free < count:
        return None

    def exactly(item: ExactDeviceRequest) -> ExactDeviceRequest:
        return replace(item, count=free)

    noun = "device" if free == 1 else "devices"
    text = f"request {free} {noun} in {request.text} (instead of {count})"
    return _changed(request, exactly, text, RESOURCES + (count - free) / count)


def _changed(
    request: _Request,
    exactly: Callable[[ExactDeviceRequest], ExactDeviceRequest],
    text: str,
    cost: float,
) -> SuggestedChange:
    edit = _edit_of(lambda name: name == request.name, exactly)
    return SuggestedChange(
        text + _again(request.template),
        cost,
        f"{text.split()[0]} {request.text}",
        claims={key(request.claim): edit},
        template=request.template,
    )


def _edit_of(
    selects: Callable[[str], bool], exactly: Callable[[ExactDeviceRequest], ExactDeviceRequest]
) -> Callable[[ResourceClaimSpec], ResourceClaimSpec]:
    """Returns an edit of the selected requests of a claim."""

    def request(item: DeviceRequest) -> DeviceRequest:
        is_edited = selects(item.name) and item.exactly is not None
        return replace(item, exactly=exactly(item.exactly)) if is_edited else item  # type: ignore[arg-type]

    def edit(spec: ResourceClaimSpec) -> ResourceClaimSpec:
        requests = tuple(map(request, spec.devices.requests))
        return replace(spec, devices=replace(spec.devices, requests=requests))

    return edit


def _template_of(case: Case, claim: ResourceClaim) -> str:
    """Returns the key of the template from which a claim is made; "" = from none."""
    namespace, status = case.pod.metadata.namespace, case.pod.status
    names = {item.name: item.resource_claim_name for item in status.resource_claim_statuses}
    for entry in case.pod.spec.resource_claims:
        if entry.resource_claim_template_name and names.get(entry.name) == claim.metadata.name:
            return f"{namespace}/{entry.resource_claim_template_name}"
    return ""


def _owner_text(claim: ResourceClaim, template: str) -> str:
    return f"resource claim template {template}" if template else f"resource claim {key(claim)}"


def _again(template: str) -> str:
    """Returns the end of the text of an edit: the specs of claims and templates are immutable.

    A pending pod refers to a claim by name, so that it uses the new one. The claim that was made
    from a template belongs to the pod, and is deleted with it.

    Source: pkg/apis/resource/validation/validation.go (ValidateResourceClaimUpdate,
    ValidateResourceClaimTemplateUpdate).
    """
    subject = "the template, and then the pod," if template else "the claim"
    return f"; {subject} must be deleted and created again"


# ---- other pods ----


def _users(case: Case, node: Node, findings: list[RequestFinding]) -> Iterator[list[PodInfo]]:
    """Yields pods of a node without which there may be enough devices: one, or two together."""
    # If each request alone has enough devices, one more may be enough for all.
    missing = max(1, sum(item.needed - item.count(FREE) for item in findings))
    taken = {
        entry.device.id
        for item in findings
        for entry in item.devices
        if entry.verdict.kind == TAKEN
    }
    devices_of = _devices_of_pods(case)
    counts = {
        info: len(taken & devices_of[info.uid])
        for info in sorted(case.pods_on(node.metadata.name), key=lambda info: info.priority)
        if info.uid in devices_of
    }
    users = [info for info, count in counts.items() if count]
    sufficient = [info for info in users if counts[info] >= missing]
    yield from ([info] for info in sufficient)
    if not sufficient and sum(counts[info] for info in users[:REMOVALS_MAX]) >= missing:
        yield users[:REMOVALS_MAX]


def _devices_of_pods(case: Case) -> dict[str, set[DeviceID]]:
    """Returns UID of a pod -> the devices that are free without it."""

    def compute() -> dict[str, set[DeviceID]]:
        devices: dict[str, set[DeviceID]] = {}
        for claim in case.snapshot.devices.claims.all():
            uids = {user.uid for user in claim.status.reserved_for}
            allocation = claim.status.allocation
            if allocation is None or len(uids) != 1:
                continue
            results = allocation.devices.results
            ids = {DeviceID(item.driver, item.pool, item.device) for item in results}
            devices.setdefault(uids.pop(), set()).update(ids)
        return devices

    return case.once("devices of pods", compute)
