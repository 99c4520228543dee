"""Validation of Deployments, ReplicaSets, ReplicationControllers, DaemonSets and StatefulSets.

The messages are kube-apiserver's.

Source: pkg/apis/apps/validation/validation.go, pkg/apis/core/validation/validation.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import convert

from mooring.apiserver import names
from mooring.apiserver.errors import Errors, forbidden_field, invalid, not_supported, required
from mooring.apiserver.validation.metadata import (
    ordered_selector,
    validate_annotations,
    validate_label_selector,
    validate_labels,
)
from mooring.apiserver.validation.other_kinds import validate_int_or_percent
from mooring.apiserver.validation.pod import validate_spec
from mooring.apiserver.validation.pods.annotations import validate_pod_annotations
from mooring.apiserver.validation.rules import (
    IMMUTABLE,
    NOT_NEGATIVE,
    field_errors,
    immutable,
    not_negative,
    one_of,
)
from mooring.apiserver.validation.volume_claims import validate_claim_spec
from mooring.objects.meta import LabelSelector
from mooring.objects.selectors import compile_label_selector

if TYPE_CHECKING:
    from mooring.apiserver.types import Object

MISMATCH = "`selector` does not match template `labels`"
_RETENTION_POLICIES = ("Retain", "Delete")
#: Mutable fields of a StatefulSet's spec.
_MUTABLE_IN_STATEFUL_SETS = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


def validate_controller(controller: Object) -> Errors:
    """Validates a new or changed ReplicationController, whose selector is a set of labels."""
    spec = controller["spec"]
    yield from not_negative(spec, "spec", "minReadySeconds")
    selector, template = spec.get("selector") or {}, spec.get("template")
    if not selector:
        yield required("spec.selector")
    yield from not_negative(spec, "spec", "replicas")
    if template is None:
        yield required("spec.template")
        return
    labels = template.get("metadata", {}).get("labels")
    if not selector.items() <= (labels or {}).items():
        sorted_labels = dict(sorted(labels.items())) if labels else labels
        yield invalid("spec.template.metadata.labels", sorted_labels, MISMATCH)
    yield from validate_template_metadata(template)
    yield from _validate_pod_spec(template.get("spec", {}), "ReplicationController")


def validate_workload(workload: Object, *, is_new: bool = True) -> Errors:
    """Validates a new or changed workload."""
    kind, spec = workload["kind"], workload["spec"]
    before: tuple[str, ...] = ("replicas",)
    after: tuple[str, ...] = ("minReadySeconds", "revisionHistoryLimit")
    if kind == "StatefulSet":
        yield from _validate_stateful(spec, is_new=is_new)
        before, after = ("replicas", "minReadySeconds"), ()
    elif kind == "ReplicaSet":
        before, after = ("replicas", "minReadySeconds"), ()
    yield from not_negative(spec, "spec", *before)
    if kind == "StatefulSet":
        yield from not_negative(spec.get("ordinals") or {}, "spec.ordinals", "start")
        if is_new and spec.get("serviceName"):
            yield from field_errors("spec.serviceName", spec["serviceName"], names.dns_label)
    yield from _validate_selector(workload)
    if kind != "DaemonSet" and any(validate_label_selector(spec.get("selector") or {}, "")):
        # As upstream, which does not look at the template then.
        problem = "" if kind == "StatefulSet" else "invalid label selector"
        yield invalid("spec.selector", ordered_selector(spec["selector"]), problem)
        if kind == "StatefulSet":
            yield from _validate_ends(spec.get("template", {}).get("spec", {}), kind)
    else:
        yield from _validate_template(spec, kind)
    if kind == "Deployment":
        yield from _validate_strategy(spec["strategy"])
    yield from not_negative(spec, "spec", *after[:1])
    if kind == "DaemonSet":
        yield from _validate_daemon_strategy(spec["updateStrategy"])
    yield from not_negative(spec, "spec", *after[1:])
    if kind == "Deployment":
        yield from _validate_deadline(spec)


def _validate_selector(workload: Object) -> Errors:
    selector = workload["spec"].get("selector")
    if selector is None:
        # Upstream does not require it of DaemonSets here.
        if workload["kind"] != "DaemonSet":
            yield required("spec.selector")
        return
    yield from validate_label_selector(selector, "spec.selector")
    if not selector:
        # As upstream, also for ReplicaSets.
        kind = "deployment" if workload["kind"] == "ReplicaSet" else workload["kind"].lower()
        problem = f"empty selector is invalid for {kind}"
        yield invalid("spec.selector", selector, problem)


def _validate_template(spec: Object, kind: str) -> Errors:
    template = spec.get("template", {})
    if not matches_template(spec):
        labels = template.get("metadata", {}).get("labels")
        sorted_labels = dict(sorted(labels.items())) if labels else labels
        yield invalid("spec.template.metadata.labels", sorted_labels, MISMATCH)
    yield from validate_template_metadata(template)
    if kind == "StatefulSet":
        yield from validate_template_metadata(template)  # twice, as upstream
    title = "ReplicaSet" if kind == "Deployment" else kind
    yield from _validate_pod_spec(_with_claims(spec, template.get("spec", {})), title)


def _validate_pod_spec(pod_spec: Object, kind: str) -> Errors:
    yield from validate_spec(pod_spec, "spec.template.spec")
    yield from _validate_ends(pod_spec, kind)


def _validate_ends(pod_spec: Object, kind: str) -> Errors:
    """Checks that the pods of a workload never end by themselves."""
    policy = pod_spec.get("restartPolicy")
    if policy != "Always":
        yield not_supported("spec.template.spec.restartPolicy", policy, ["Always"])
    if "activeDeadlineSeconds" in pod_spec:
        problem = f"activeDeadlineSeconds in {kind} is not Supported"
        yield forbidden_field("spec.template.spec.activeDeadlineSeconds", problem)


def matches_template(spec: Object) -> bool:
    """Returns True if a selector matches its template's pods, or is invalid itself."""
    return selects(
        spec.get("selector"), spec.get("template", {}).get("metadata", {}).get("labels", {})
    )


def selects(selector: Object | None, labels: Object) -> bool:
    """Returns True if a selector matches labels, or is invalid, which is reported elsewhere."""
    if selector is None or any(validate_label_selector(selector, "")):
        return selector is not None
    return compile_label_selector(convert(selector, LabelSelector)).matches(labels)


def validate_template_metadata(template: Object, field: str = "spec.template") -> Errors:
    """Validates the labels and annotations of a pod template."""
    metadata: dict[str, Any] = template.get("metadata", {})
    yield from validate_labels(metadata.get("labels", {}), f"{field}.labels")
    if annotations := metadata.get("annotations"):
        yield from validate_annotations(annotations, f"{field}.annotations")
        spec = template.get("spec") or {}
        yield from validate_pod_annotations(metadata, spec, f"{field}.annotations")


def _with_claims(spec: Object, pod_spec: Object) -> Object:
    """Returns the template's spec with a volume for each claim of a StatefulSet."""
    claims = [claim["metadata"].get("name", "") for claim in spec.get("volumeClaimTemplates", ())]
    if not claims:
        return pod_spec
    # A name that two templates have is one volume.
    claims = list(dict.fromkeys(claims))
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    volumes += [volume for volume in pod_spec.get("volumes", ()) if volume["name"] not in claims]
    return {**pod_spec, "volumes": volumes}


def _validate_strategy(strategy: Object) -> Errors:
    field, kind = "spec.strategy", strategy["type"]
    rolling = strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is not None:
            problem = "may not be specified when strategy `type` is 'Recreate'"
            yield forbidden_field(f"{field}.rollingUpdate", problem)
        return
    if kind != "RollingUpdate":
        # Upstream prints its internal type, whose fields have other names.
        internal = {"Type": kind, "RollingUpdate": _internal_update(rolling)}
        yield not_supported(field, internal, ["Recreate", "RollingUpdate"])
        return
    assert rolling is not None
    child_field = f"{field}.rollingUpdate"
    unavailable, surge = rolling["maxUnavailable"], rolling["maxSurge"]
    yield from validate_int_or_percent(
        unavailable, f"{child_field}.maxUnavailable", is_capped=False
    )
    yield from validate_int_or_percent(surge, f"{child_field}.maxSurge", is_capped=False)
    if unavailable in (0, "0%") and surge in (0, "0%"):
        problem = "may not be 0 when `maxSurge` is 0"
        yield invalid(f"{child_field}.maxUnavailable", unavailable, problem)
    if isinstance(unavailable, str) and unavailable[:-1].isdecimal():
        yield from validate_int_or_percent(unavailable, f"{child_field}.maxUnavailable")


def _internal_update(rolling: Object | None) -> Object | None:
    """Returns a rolling update with the names of upstream's internal type."""
    if rolling is None:
        return None
    return {
        "MaxUnavailable": rolling.get("maxUnavailable", 0),
        "MaxSurge": rolling.get("maxSurge", 0),
    }


def _validate_daemon_strategy(strategy: Object) -> Errors:
    kind, rolling = strategy["type"], strategy.get("rollingUpdate")
    field = "spec.updateStrategy"
    if kind not in ("RollingUpdate", "OnDelete"):
        internal = {"Type": kind, "RollingUpdate": _internal_update(rolling)}
        yield not_supported(field, internal, ["RollingUpdate", "OnDelete"])
        return
    if kind == "OnDelete" or rolling is None:
        return
    limits = {name: rolling.get(name, 0) for name in ("maxUnavailable", "maxSurge")}
    for name, value in limits.items():
        yield from validate_int_or_percent(value, f"{field}.rollingUpdate.{name}")
    is_set = {name: value not in (0, "0%") for name, value in limits.items()}
    if all(is_set.values()):
        problem = "may not be set when maxUnavailable is non-zero"
        yield invalid(f"{field}.rollingUpdate.maxSurge", limits["maxSurge"], problem)
    elif not any(is_set.values()):
        problem = "cannot be 0 when maxSurge is 0"
        yield required(f"{field}.rollingUpdate.maxUnavailable", problem)


def _validate_deadline(spec: Object) -> Errors:
    field, deadline = "spec.progressDeadlineSeconds", spec.get("progressDeadlineSeconds")
    if deadline is None:
        return
    if deadline < 0:
        yield invalid(field, deadline, NOT_NEGATIVE)
    if deadline <= spec.get("minReadySeconds", 0):
        yield invalid(field, deadline, "must be greater than minReadySeconds")


def _validate_stateful(spec: Object, *, is_new: bool) -> Errors:
    policy = spec["podManagementPolicy"]
    if policy not in ("OrderedReady", "Parallel"):
        problem = "must be 'OrderedReady' or 'Parallel'"
        yield invalid("spec.podManagementPolicy", policy, problem)
    yield from _validate_stateful_strategy(spec["updateStrategy"])
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for name in ("whenDeleted", "whenScaled"):
        field = f"spec.persistentVolumeClaimRetentionPolicy.{name}"
        yield from one_of(field, retention.get(name), _RETENTION_POLICIES)
    if is_new:
        for number, template in enumerate(spec.get("volumeClaimTemplates") or ()):
            field = f"spec.volumeClaimTemplates[{number}].spec"
            yield from validate_claim_spec(template.get("spec") or {}, field)


def _validate_stateful_strategy(strategy: Object) -> Errors:
    kind, rolling = strategy["type"], strategy.get("rollingUpdate")
    field = "spec.updateStrategy"
    if kind not in ("RollingUpdate", "OnDelete"):
        internal = {"Type": kind, "RollingUpdate": _internal_rolling(rolling)}
        yield invalid(field, internal, "must be 'RollingUpdate' or 'OnDelete'")
    elif rolling is not None and kind == "OnDelete":
        problem = "only allowed for updateStrategy 'RollingUpdate'"
        yield invalid(f"{field}.rollingUpdate", _internal_rolling(rolling), problem)
    elif rolling is not None:
        yield from not_negative(rolling, f"{field}.rollingUpdate", "partition")
        if rolling.get("maxUnavailable") is not None:
            child = f"{field}.rollingUpdate.maxUnavailable"
            yield from validate_int_or_percent(rolling["maxUnavailable"], child)


def _internal_rolling(rolling: Object | None) -> Object | None:
    """Returns a rolling update with the names of upstream's internal type."""
    if rolling is None:
        return None
    return {
        "Partition": rolling.get("partition", 0),
        "MaxUnavailable": rolling.get("maxUnavailable"),
    }


def validate_workload_update(new: Object, old: Object) -> Errors:
    """Validates a change of a workload: its selector is immutable."""
    spec, before = new["spec"], old["spec"]
    has_new_selector = spec.get("selector") != before.get("selector")
    selector_error = invalid("spec.selector", ordered_selector(spec.get("selector")), IMMUTABLE)
    if new["kind"] == "DaemonSet" and has_new_selector:
        yield selector_error
    yield from validate_workload(new, is_new=False)
    if new["kind"] == "StatefulSet":
        fixed = ({*spec} | {*before}) - {*_MUTABLE_IN_STATEFUL_SETS}
        if any(spec.get(name) != before.get(name) for name in fixed):
            names_text = ", ".join(f"'{name}'" for name in _MUTABLE_IN_STATEFUL_SETS[:-1])
            problem = (
                f"updates to statefulset spec for fields other than {names_text} and "
                f"'{_MUTABLE_IN_STATEFUL_SETS[-1]}' are forbidden"
            )
            yield forbidden_field("spec", problem)
    elif new["kind"] != "DaemonSet" and has_new_selector:
        yield selector_error


# -- templates and revisions -----------------------------------------------------------------------


def validate_pod_template(template: Object) -> Errors:
    """Validates a new or changed PodTemplate."""
    inner = template.get("template", {})
    yield from validate_template_metadata(inner, "template")
    yield from validate_spec(inner.get("spec", {}), "template.spec")


def templates_differ(new: Object, old: Object) -> bool:
    """Returns True if the template of a PodTemplate has changed."""
    return new.get("template") != old.get("template")


def validate_revision(revision: Object) -> Errors:
    """Validates a new ControllerRevision."""
    yield from _validate_number(revision)
    data = revision.get("data")
    if data is None:
        yield required("data", "data is mandatory")
    elif not isinstance(data, dict):
        yield required("data", "data must be a valid JSON object")


def validate_revision_update(new: Object, old: Object) -> Errors:
    """Validates a change of a ControllerRevision, whose data is immutable."""
    yield from _validate_number(new)
    yield from immutable(new, old, "data")


def _validate_number(revision: Object) -> Errors:
    if revision.get("revision", 0) < 0:
        yield invalid("revision", revision["revision"], NOT_NEGATIVE)
