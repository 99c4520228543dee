"""Validation of pods and of their changes, with kube-apiserver's messages.

Source: pkg/apis/core/validation/validation.go (ValidatePodCreate, ValidatePodUpdate,
ValidatePodStatusUpdate, ValidatePodSpec).
"""

from __future__ import annotations

from copy import deepcopy
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from mooring.apiserver import names
from mooring.apiserver.errors import (
    Errors,
    duplicate,
    forbidden_field,
    invalid,
    required,
)
from mooring.apiserver.object_fields import restore_fields
from mooring.apiserver.validation.affinity import (
    validate_affinity,
    validate_gates,
    validate_spread,
    validate_tolerations,
)
from mooring.apiserver.validation.metadata import validate_labels
from mooring.apiserver.validation.pods.annotations import (
    MIRROR,
    has_pod_annotations,
    validate_pod_annotation_changes,
    validate_pod_annotations,
)
from mooring.apiserver.validation.pods.containers import (
    validate_containers,
    validate_host_network,
    validate_image_spaces,
    validate_init_resize,
)
from mooring.apiserver.validation.pods.dns import (
    validate_dns_config,
    validate_host_aliases,
    validate_host_name,
)
from mooring.apiserver.validation.pods.env import validate_file_volumes
from mooring.apiserver.validation.pods.pod_resources import validate_pod_resources
from mooring.apiserver.validation.pods.security import validate_host_users, validate_pod_security
from mooring.apiserver.validation.pods.volumes import is_valid_claim_name, validate_volumes
from mooring.apiserver.validation.pods.windows import validate_host_processes, validate_system
from mooring.apiserver.validation.resources import validate_requirements
from mooring.apiserver.validation.rules import field_errors, one_of, required_one_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mooring.apiserver.types import Object

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
#: Fields with names, in the order in which they are validated.
_NAMES_FIRST = (("serviceAccountName", names.dns_subdomain), ("nodeName", names.dns_subdomain))
_HOST_NAMES = (("hostname", names.dns_label), ("subdomain", names.dns_label))
_NAMES_LAST = (
    ("priorityClassName", names.dns_subdomain),
    ("runtimeClassName", names.dns_subdomain),
)
_INT32_MAX = 2**31 - 1
CHANGEABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
#: Valid specs in the cache, none of them larger than this: 16 MiB at most.
VALID_SPEC_CACHE_SIZE = 1024
CACHED_SPEC_BYTES_MAX = 16 << 10
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def validate_pod(pod: Object) -> Errors:
    """Validates a new pod, except its metadata.

    Most pods are created from few templates, so valid specs are cached.
    """
    encoded = msgspec.json.encode(pod["spec"])
    is_cached = len(encoded) <= CACHED_SPEC_BYTES_MAX and _is_valid_cached(encoded)
    return [] if is_cached and fits_metadata(pod) else validate_new_pod(pod)


def fits_metadata(pod: Object) -> bool:
    """Returns whether a spec that is valid by itself is valid with the metadata of its pod."""
    metadata, spec = pod["metadata"], pod["spec"]
    if has_pod_annotations(metadata):
        is_mirror = MIRROR in metadata["annotations"]
        if (is_mirror and spec.get("resourceClaims")) or any(
            validate_pod_annotations(metadata, spec, "")
        ):
            return False
    return all(
        is_valid_claim_name(metadata.get("name", ""), volume["name"])
        for volume in spec.get("volumes") or ()
        if "ephemeral" in volume
    )


@lru_cache(maxsize=VALID_SPEC_CACHE_SIZE)
def _is_valid_cached(encoded_spec: bytes) -> bool:
    return not any(validate_new_pod({"metadata": {}, "spec": msgspec.json.decode(encoded_spec)}))


def validate_new_pod(pod: Object) -> Errors:
    """Validates a new pod, except its metadata, without the cache."""
    yield from validate_pod_spec(pod)
    spec = pod["spec"]
    yield from validate_init_resize(spec)
    if spec.get("ephemeralContainers"):
        yield forbidden_field("spec.ephemeralContainers", "cannot be set on create")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        problem = "cannot be set until all schedulingGates have been cleared"
        yield forbidden_field("spec.nodeName", problem)


def validate_pod_spec(pod: Object) -> Errors:
    """Validates the spec of a new or changed pod, and the annotations that concern it."""
    metadata, spec = pod["metadata"], pod["spec"]
    yield from validate_pod_annotations(metadata, spec, "metadata.annotations")
    yield from validate_spec(spec, "spec", metadata=metadata)
    for kind in ("containers", "initContainers"):
        yield from validate_image_spaces(spec.get(kind) or (), f"spec.{kind}")


def validate_spec(spec: Object, field: str, *, metadata: Object | None = None) -> Errors:
    """Validates the spec of a pod, or of a pod template.

    Args:
        spec: The spec.
        field: Its path.
        metadata: Of the pod; None = it is a template.
    """
    is_template = metadata is None
    pod_name = "" if metadata is None else metadata.get("name", "")
    is_mirror = metadata is not None and MIRROR in (metadata.get("annotations") or {})
    volumes, volume_errors = validate_volumes(
        spec.get("volumes", ()), f"{field}.volumes", pod_name=pod_name, is_template=is_template
    )
    yield from volume_errors
    claims = frozenset(claim["name"] for claim in spec.get("resourceClaims", ()))
    claim_field = f"{field}.resourceClaims"
    yield from _validate_claims(spec.get("resourceClaims", ()), claim_field, is_mirror=is_mirror)
    yield from validate_containers(spec, field, volumes, claims)
    yield from validate_pod_resources(spec, field, claims)
    yield from validate_host_network(spec, field, is_template=is_template)
    yield from one_of(f"{field}.restartPolicy", spec["restartPolicy"], _RESTART_POLICIES)
    yield from one_of(f"{field}.dnsPolicy", spec["dnsPolicy"], _DNS_POLICIES)
    yield from validate_labels(spec.get("nodeSelector", {}), f"{field}.nodeSelector")
    yield from validate_pod_security(spec, field)
    yield from validate_affinity(spec.get("affinity"), f"{field}.affinity")
    yield from validate_dns_config(spec, field)
    yield from _validate_readiness_gates(spec.get("readinessGates") or (), field)
    yield from validate_gates(spec.get("schedulingGates", ()), f"{field}.schedulingGates")
    yield from validate_spread(
        spec.get("topologySpreadConstraints", []), f"{field}.topologySpreadConstraints"
    )
    yield from validate_host_processes(spec, field)
    yield from validate_host_users(spec, field)
    yield from validate_host_name(spec, field)
    yield from _validate_names(spec, field, _NAMES_FIRST)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _INT32_MAX:
        problem = f"must be between 1 and {_INT32_MAX}, inclusive"
        yield invalid(f"{field}.activeDeadlineSeconds", deadline, problem)
    yield from _validate_names(spec, field, _HOST_NAMES)
    yield from validate_tolerations(spec.get("tolerations", ()), f"{field}.tolerations")
    yield from validate_host_aliases(spec.get("hostAliases") or (), f"{field}.hostAliases")
    yield from _validate_names(spec, field, _NAMES_LAST)
    policy = spec.get("preemptionPolicy")
    if policy is not None:
        yield from required_one_of(f"{field}.preemptionPolicy", policy, _PREEMPTION_POLICIES)
    if overhead := spec.get("overhead"):
        yield from validate_requirements({"limits": overhead}, f"{field}.overhead")
    yield from validate_system(spec, field)
    yield from validate_file_volumes(spec, field)
    if is_template and spec.get("ephemeralContainers"):
        problem = "ephemeral containers not allowed in pod template"
        yield forbidden_field(f"{field}.ephemeralContainers", problem)


def _validate_readiness_gates(gates: Iterable[Object], field: str) -> Errors:
    for number, gate in enumerate(gates):
        child_field = f"{field}.readinessGates[{number}].conditionType"
        yield from field_errors(child_field, gate["conditionType"], names.qualified_name)


def _validate_names(spec: Object, field: str, checks: Iterable[tuple[str, names.Check]]) -> Errors:
    for name, check in checks:
        if value := spec.get(name):
            yield from field_errors(f"{field}.{name}", value, check)


def _validate_claims(claims: Iterable[Object], field: str, *, is_mirror: bool) -> Errors:
    claim_names: set[str] = set()
    for number, claim in enumerate(claims):
        if is_mirror:
            yield forbidden_field("[]", "static pods do not support resource claims")
            continue
        item_field, name = f"{field}[{number}]", claim["name"]
        if not name:
            yield required(f"{item_field}.name")
        elif name in claim_names:
            yield duplicate(f"{item_field}.name", name)
        else:
            yield from field_errors(f"{item_field}.name", name, names.dns_label)
        claim_names.add(name)
        kinds = ("resourceClaimName", "resourceClaimTemplateName")
        sources = [kind for kind in kinds if kind in claim]
        if len(sources) != 1:
            problem = (
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
                if sources
                else "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            )
            yield invalid(item_field, _internal_claim(claim), problem)
        for kind in sources:
            yield from field_errors(f"{item_field}.{kind}", claim[kind], names.dns_subdomain)


def _internal_claim(claim: Object) -> Object:
    """Returns a claim with the field names of upstream's internal type, for messages."""
    return {
        "Name": claim["name"],
        "ResourceClaimName": claim.get("resourceClaimName"),
        "ResourceClaimTemplateName": claim.get("resourceClaimTemplateName"),
    }


# ---------------------------------------------------------------------- changes


def validate_update(new: Object, old: Object) -> Errors:
    """Validates a change of a pod, except its metadata."""
    spec, before = new["spec"], old["spec"]
    metadata, earlier = new["metadata"], old["metadata"]
    if spec == before and not (has_pod_annotations(metadata) or has_pod_annotations(earlier)):
        return
    yield from validate_pod_spec(new)
    yield from validate_pod_annotation_changes(metadata, earlier, "metadata.annotations")
    yield from validate_pod_annotations(metadata, spec, "metadata.annotations")
    if spec == before:
        return
    for kind in ("containers", "initContainers"):
        field, containers = f"spec.{kind}", spec.get(kind) or ()
        if len(containers) != len(before.get(kind) or ()):
            yield forbidden_field(field, "pod updates may not add or remove containers")
            return
        for number, container in enumerate(containers):
            if not container.get("image"):
                yield required(f"{field}[{number}].image")
        yield from validate_image_spaces(containers, field)
    deadline_errors = list(_validate_deadline(spec, before))
    yield from deadline_errors
    if deadline_errors and spec.get("activeDeadlineSeconds") is not None:
        return
    yield from _validate_tolerations_added(spec, before)
    yield from _validate_gates_removed(spec, before)
    yield from _validate_rest(spec, before)


def _validate_deadline(spec: Object, before: Object) -> Errors:
    field = "spec.activeDeadlineSeconds"
    deadline, earlier = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if deadline is None:
        if earlier is not None:
            yield invalid(field, None, "must not update from a positive integer to nil value")
    elif not 0 <= deadline <= _INT32_MAX:
        yield invalid(field, deadline, f"must be between 0 and {_INT32_MAX}, inclusive")
    elif earlier is not None and earlier < deadline:
        yield invalid(field, deadline, "must be less than or equal to previous value")


def _validate_tolerations_added(spec: Object, before: Object) -> Errors:
    """Checks that tolerations are only added; existing ones may change their seconds."""
    field = "spec.tolerations"

    def rest(toleration: Object) -> Object:
        return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}

    present = [rest(toleration) for toleration in spec.get("tolerations", ())]
    if any(rest(toleration) not in present for toleration in before.get("tolerations", ())):
        problem = "existing toleration can not be modified except its tolerationSeconds"
        return [forbidden_field(field, problem)]
    return validate_tolerations(spec.get("tolerations", ()), field)


def _validate_gates_removed(spec: Object, before: Object) -> Errors:
    old_names = {gate["name"] for gate in before.get("schedulingGates", ())}
    return [
        forbidden_field(
            f"spec.schedulingGates[{number}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate['name']}'",
        )
        for number, gate in enumerate(spec.get("schedulingGates", ()))
        if gate["name"] not in old_names
    ]


def _validate_rest(spec: Object, before: Object) -> Errors:
    """Checks that all fields that may not change are equal."""
    spec = deepcopy(spec)
    for kind in ("containers", "initContainers"):
        pairs = zip(spec.get(kind) or (), before.get(kind) or (), strict=True)
        for container, other in pairs:
            container["image"] = other.get("image", "")
    restore_fields(spec, before, "activeDeadlineSeconds", "schedulingGates", "tolerations")
    grace = before.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        spec["terminationGracePeriodSeconds"] = grace
    if before.get("schedulingGates"):
        yield from _validate_gated(spec, before)
    if spec != before:
        changed = sorted(name for name in {*spec, *before} if spec.get(name) != before.get(name))
        problem = f"pod updates may not change fields other than {CHANGEABLE}\n"
        yield forbidden_field("spec", problem + describe_difference(spec, before, changed))


def describe_difference(spec: Object, before: Object, changed: list[str]) -> str:
    """Returns the differences as lines; upstream prints its internal types here."""
    lines = []
    for name in changed:
        if name in before:
            lines.append(f"- {name}: {before[name]}")
        if name in spec:
            lines.append(f"+ {name}: {spec[name]}")
    return "\n".join(lines) + "\n"


def _validate_gated(spec: Object, before: Object) -> Errors:
    """Validates a change of a gated pod's node selector and affinity: only restrictions."""
    selector, old_selector = spec.get("nodeSelector", {}), before.get("nodeSelector", {})
    if selector != old_selector:
        if any(selector.get(key) != value for key, value in old_selector.items()):
            problem = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            yield invalid("spec.nodeSelector", selector, problem)
        restore_fields(spec, before, "nodeSelector")
    node_affinity = spec.get("affinity", {}).get("nodeAffinity")
    old_affinity = before.get("affinity", {}).get("nodeAffinity")
    if node_affinity != old_affinity:
        yield from _validate_terms_added(node_affinity, old_affinity)
        affinity = dict(spec.get("affinity", {}))
        affinity.pop("nodeAffinity", None)
        if old_affinity is not None:
            affinity["nodeAffinity"] = old_affinity
        if affinity or "affinity" in before:
            spec["affinity"] = affinity
        else:
            spec.pop("affinity", None)


def _validate_terms_added(new: Any, old: Any) -> Errors:
    field = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    before = (old or {}).get(_REQUIRED, {}).get("nodeSelectorTerms", [])
    if not before:
        return []
    terms = (new or {}).get(_REQUIRED, {}).get("nodeSelectorTerms", [])
    if len(terms) != len(before):
        problem = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [invalid(field, terms, problem)]
    problem = "only additions are allowed (no mutations or deletions)"
    return [
        invalid(f"{field}[{number}]", term, problem)
        for number, (term, other) in enumerate(zip(terms, before, strict=True))
        if not _has_only_additions(term, other)
    ]


def _has_only_additions(term: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    if not before and term:
        return False
    return all(
        list(term.get(name, ()))[: len(before.get(name, ()))] == list(before.get(name, ()))
        for name in ("matchExpressions", "matchFields")
    )
