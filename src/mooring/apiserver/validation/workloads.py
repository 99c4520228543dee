"""What is wrong with Deployments, ReplicaSets, DaemonSets and StatefulSets, in upstream's words.

Source: pkg/apis/apps/validation/validation.go. Differs: of a StatefulSet's claims only the names
count.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from msgspec import convert

from mooring.apiserver.errors import FieldFault, forbidden_field, invalid, not_supported, required
from mooring.apiserver.validation.metadata import (
    IMMUTABLE,
    validate_annotations,
    validate_label_selector,
    validate_labels,
)
from mooring.apiserver.validation.other_kinds import validate_share
from mooring.apiserver.validation.pod import validate_spec
from mooring.objects.meta import LabelSelector
from mooring.objects.selectors import compile_label_selector

if TYPE_CHECKING:
    from mooring.apiserver.types import Object

MISMATCH = "`selector` does not match template `labels`"
_NOT_NEGATIVE = "must be greater than or equal to 0"
#: What may be changed in a StatefulSet.
_OPEN_IN_STATEFUL_SETS = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


def validate_workload(found: Object) -> list[FieldFault]:
    """A new workload: its selector must select what it makes."""
    kind, spec = found["kind"], found["spec"]
    before: tuple[str, ...] = ("replicas",)
    after: tuple[str, ...] = ("minReadySeconds", "revisionHistoryLimit")
    faults: list[FieldFault] = []
    if kind == "StatefulSet":
        faults += _validate_stateful(spec)
        before, after = ("replicas", "minReadySeconds"), ()
    elif kind == "ReplicaSet":
        before, after = ("replicas", "minReadySeconds"), ()
    faults += _not_negative(spec, before)
    faults += _validate_selector(found)
    faults += _validate_template(spec, kind)
    if kind == "Deployment":
        faults += _validate_strategy(spec["strategy"])
    faults += _not_negative(spec, after[:1])
    if kind == "DaemonSet":
        faults += _validate_daemon_strategy(spec["updateStrategy"])
    faults += _not_negative(spec, after[1:])
    if kind == "Deployment":
        faults += _validate_deadline(spec)
    return faults


def _not_negative(spec: Object, names: tuple[str, ...]) -> list[FieldFault]:
    return [
        invalid(f"spec.{name}", spec[name], _NOT_NEGATIVE)
        for name in names
        if spec.get(name, 0) < 0
    ]


def _validate_selector(found: Object) -> list[FieldFault]:
    selector = found["spec"].get("selector")
    if selector is None:
        # Of DaemonSets upstream does not ask for it here.
        return [] if found["kind"] == "DaemonSet" else [required("spec.selector")]
    faults = validate_label_selector(selector, "spec.selector")
    if not selector:
        # Of ReplicaSets, as upstream has it.
        kind = "deployment" if found["kind"] == "ReplicaSet" else found["kind"].lower()
        problem = f"empty selector is invalid for {kind}"
        faults.append(invalid("spec.selector", selector, problem))
    return faults


def _validate_template(spec: Object, kind: str) -> list[FieldFault]:
    template = spec.get("template", {})
    faults: list[FieldFault] = []
    if not matches_template(spec):
        labels = template.get("metadata", {}).get("labels")
        shown = dict(sorted(labels.items())) if labels else labels
        faults.append(invalid("spec.template.metadata.labels", shown, MISMATCH))
    faults += validate_template_metadata(template)
    if kind == "StatefulSet":
        faults += validate_template_metadata(template)  # twice, as upstream
    own = template.get("spec", {})
    faults += validate_spec(_with_claims(spec, own), "spec.template.spec", is_template=True)
    policy = own.get("restartPolicy")
    if policy != "Always":
        faults.append(not_supported("spec.template.spec.restartPolicy", policy, ["Always"]))
    if "activeDeadlineSeconds" in own:
        title = "ReplicaSet" if kind == "Deployment" else kind
        problem = f"activeDeadlineSeconds in {title} is not Supported"
        faults.append(forbidden_field("spec.template.spec.activeDeadlineSeconds", problem))
    return faults


def matches_template(spec: Object) -> bool:
    """Whether a selector selects its template's pods; what is wrong in itself is said elsewhere."""
    selector = spec.get("selector")
    if selector is None:
        return False
    if validate_label_selector(selector, ""):
        return True
    labels = spec.get("template", {}).get("metadata", {}).get("labels", {})
    return compile_label_selector(convert(selector, LabelSelector)).matches(labels)


def validate_template_metadata(template: Object) -> list[FieldFault]:
    """What is wrong with the labels and annotations that pods would get."""
    metadata: dict[str, Any] = template.get("metadata", {})
    faults = validate_labels(metadata.get("labels", {}), "spec.template.labels")
    if annotations := metadata.get("annotations"):
        faults += validate_annotations(annotations, "spec.template.annotations")
    return faults


def _with_claims(spec: Object, own: Object) -> Object:
    """Returns the template's spec with the volumes that the claims of a StatefulSet will be."""
    names = [claim["metadata"].get("name", "") for claim in spec.get("volumeClaimTemplates", ())]
    if not names:
        return own
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    volumes += [volume for volume in own.get("volumes", ()) if volume["name"] not in names]
    return {**own, "volumes": volumes}


def _validate_strategy(strategy: Object) -> Iterator[FieldFault]:
    field, kind = "spec.strategy", strategy["type"]
    rolling = strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is not None:
            problem = "may not be specified when strategy `type` is 'Recreate'"
            yield forbidden_field(f"{field}.rollingUpdate", problem)
        return
    if kind != "RollingUpdate":
        # Upstream shows its internal type, whose fields have other names.
        shown = {"Type": kind, "RollingUpdate": rolling}
        yield not_supported(field, shown, ["Recreate", "RollingUpdate"])
        return
    assert rolling is not None
    where = f"{field}.rollingUpdate"
    unavailable, surge = rolling["maxUnavailable"], rolling["maxSurge"]
    yield from validate_share(unavailable, f"{where}.maxUnavailable", is_capped=False)
    yield from validate_share(surge, f"{where}.maxSurge", is_capped=False)
    if unavailable in (0, "0%") and surge in (0, "0%"):
        problem = "may not be 0 when `maxSurge` is 0"
        yield invalid(f"{where}.maxUnavailable", unavailable, problem)
    if isinstance(unavailable, str) and unavailable[:-1].isdecimal():
        yield from validate_share(unavailable, f"{where}.maxUnavailable")


def _validate_daemon_strategy(strategy: Object) -> list[FieldFault]:
    kind = strategy["type"]
    if kind in ("RollingUpdate", "OnDelete"):
        return []
    shown = {"Type": kind, "RollingUpdate": strategy.get("rollingUpdate")}
    return [not_supported("spec.updateStrategy", shown, ["RollingUpdate", "OnDelete"])]


def _validate_deadline(spec: Object) -> Iterator[FieldFault]:
    field, deadline = "spec.progressDeadlineSeconds", spec.get("progressDeadlineSeconds")
    if deadline is None:
        return
    if deadline < 0:
        yield invalid(field, deadline, _NOT_NEGATIVE)
    if deadline <= spec.get("minReadySeconds", 0):
        yield invalid(field, deadline, "must be greater than minReadySeconds")


def _validate_stateful(spec: Object) -> Iterator[FieldFault]:
    policy = spec["podManagementPolicy"]
    if policy not in ("OrderedReady", "Parallel"):
        problem = "must be 'OrderedReady' or 'Parallel'"
        yield invalid("spec.podManagementPolicy", policy, problem)
    strategy = spec["updateStrategy"]
    if strategy["type"] not in ("RollingUpdate", "OnDelete"):
        shown = {"Type": strategy["type"], "RollingUpdate": strategy.get("rollingUpdate")}
        yield invalid("spec.updateStrategy", shown, "must be 'RollingUpdate' or 'OnDelete'")


def validate_workload_update(new: Object, old: Object) -> list[FieldFault]:
    """Returns a change of a workload: what it selects stays the same."""
    faults = validate_workload(new)
    spec, before = new["spec"], old["spec"]
    if new["kind"] == "StatefulSet":
        names = ({*spec} | {*before}) - {*_OPEN_IN_STATEFUL_SETS}
        if any(spec.get(name) != before.get(name) for name in names):
            listed = ", ".join(f"'{name}'" for name in _OPEN_IN_STATEFUL_SETS[:-1])
            problem = (
                f"updates to statefulset spec for fields other than {listed} and "
                f"'{_OPEN_IN_STATEFUL_SETS[-1]}' are forbidden"
            )
            faults.append(forbidden_field("spec", problem))
    elif spec.get("selector") != before.get("selector"):
        fault = invalid("spec.selector", _sorted(spec.get("selector")), IMMUTABLE)
        faults = [fault, *faults] if new["kind"] == "DaemonSet" else [*faults, fault]
    return faults


def _sorted(selector: Object | None) -> Object | None:
    """Returns a selector with its labels in Go's order."""
    if not selector or "matchLabels" not in selector:
        return selector
    return {**selector, "matchLabels": dict(sorted(selector["matchLabels"].items()))}
