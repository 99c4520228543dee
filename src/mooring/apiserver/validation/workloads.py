"""Validation of Deployments, ReplicaSets, DaemonSets and StatefulSets, with upstream's messages.

Source: pkg/apis/apps/validation/validation.go. Differs: of a StatefulSet's claims only the names
are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import convert

from mooring.apiserver.errors import Errors, forbidden_field, invalid, not_supported, required
from mooring.apiserver.validation.metadata import (
    validate_annotations,
    validate_label_selector,
    validate_labels,
)
from mooring.apiserver.validation.other_kinds import validate_int_or_percent
from mooring.apiserver.validation.pod import validate_spec
from mooring.apiserver.validation.rules import IMMUTABLE, NOT_NEGATIVE, not_negative
from mooring.objects.meta import LabelSelector
from mooring.objects.selectors import compile_label_selector

if TYPE_CHECKING:
    from mooring.apiserver.types import Object

MISMATCH = "`selector` does not match template `labels`"
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


def validate_workload(workload: Object) -> Errors:
    """Validates a new workload."""
    kind, spec = workload["kind"], workload["spec"]
    before: tuple[str, ...] = ("replicas",)
    after: tuple[str, ...] = ("minReadySeconds", "revisionHistoryLimit")
    if kind == "StatefulSet":
        yield from _validate_stateful(spec)
        before, after = ("replicas", "minReadySeconds"), ()
    elif kind == "ReplicaSet":
        before, after = ("replicas", "minReadySeconds"), ()
    yield from not_negative(spec, "spec", *before)
    yield from _validate_selector(workload)
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
    pod_spec = template.get("spec", {})
    yield from validate_spec(_with_claims(spec, pod_spec), "spec.template.spec", is_template=True)
    policy = pod_spec.get("restartPolicy")
    if policy != "Always":
        yield not_supported("spec.template.spec.restartPolicy", policy, ["Always"])
    if "activeDeadlineSeconds" in pod_spec:
        title = "ReplicaSet" if kind == "Deployment" else kind
        problem = f"activeDeadlineSeconds in {title} is not Supported"
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


def validate_template_metadata(template: Object) -> Errors:
    """Validates the labels and annotations of a pod template."""
    metadata: dict[str, Any] = template.get("metadata", {})
    yield from validate_labels(metadata.get("labels", {}), "spec.template.labels")
    if annotations := metadata.get("annotations"):
        yield from validate_annotations(annotations, "spec.template.annotations")


def _with_claims(spec: Object, pod_spec: Object) -> Object:
    """Returns the template's spec with a volume for each claim of a StatefulSet."""
    names = [claim["metadata"].get("name", "") for claim in spec.get("volumeClaimTemplates", ())]
    if not names:
        return pod_spec
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    volumes += [volume for volume in pod_spec.get("volumes", ()) if volume["name"] not in names]
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
        internal = {"Type": kind, "RollingUpdate": rolling}
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


def _validate_daemon_strategy(strategy: Object) -> Errors:
    kind = strategy["type"]
    if kind in ("RollingUpdate", "OnDelete"):
        return []
    internal = {"Type": kind, "RollingUpdate": strategy.get("rollingUpdate")}
    return [not_supported("spec.updateStrategy", internal, ["RollingUpdate", "OnDelete"])]


def _validate_deadline(spec: Object) -> Errors:
    field, deadline = "spec.progressDeadlineSeconds", spec.get("progressDeadlineSeconds")
    if deadline is None:
        return
    if deadline < 0:
        yield invalid(field, deadline, NOT_NEGATIVE)
    if deadline <= spec.get("minReadySeconds", 0):
        yield invalid(field, deadline, "must be greater than minReadySeconds")


def _validate_stateful(spec: Object) -> Errors:
    policy = spec["podManagementPolicy"]
    if policy not in ("OrderedReady", "Parallel"):
        problem = "must be 'OrderedReady' or 'Parallel'"
        yield invalid("spec.podManagementPolicy", policy, problem)
    strategy = spec["updateStrategy"]
    if strategy["type"] not in ("RollingUpdate", "OnDelete"):
        internal = {"Type": strategy["type"], "RollingUpdate": strategy.get("rollingUpdate")}
        yield invalid("spec.updateStrategy", internal, "must be 'RollingUpdate' or 'OnDelete'")


def validate_workload_update(new: Object, old: Object) -> Errors:
    """Validates a change of a workload: its selector is immutable."""
    spec, before = new["spec"], old["spec"]
    has_new_selector = spec.get("selector") != before.get("selector")
    selector_error = invalid("spec.selector", _sorted(spec.get("selector")), IMMUTABLE)
    if new["kind"] == "DaemonSet" and has_new_selector:
        yield selector_error
    yield from validate_workload(new)
    if new["kind"] == "StatefulSet":
        names = ({*spec} | {*before}) - {*_MUTABLE_IN_STATEFUL_SETS}
        if any(spec.get(name) != before.get(name) for name in names):
            names_text = ", ".join(f"'{name}'" for name in _MUTABLE_IN_STATEFUL_SETS[:-1])
            problem = (
                f"updates to statefulset spec for fields other than {names_text} and "
                f"'{_MUTABLE_IN_STATEFUL_SETS[-1]}' are forbidden"
            )
            yield forbidden_field("spec", problem)
    elif new["kind"] != "DaemonSet" and has_new_selector:
        yield selector_error


def _sorted(selector: Object | None) -> Object | None:
    """Returns a selector with its labels in Go's order."""
    if not selector or "matchLabels" not in selector:
        return selector
    return {**selector, "matchLabels": dict(sorted(selector["matchLabels"].items()))}
