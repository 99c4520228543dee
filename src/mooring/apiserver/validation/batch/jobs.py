"""Preparation and validation of Jobs, with kube-apiserver's messages.

Source: pkg/registry/batch/job/strategy.go, pkg/apis/batch/validation/validation.go.
Differs: successPolicy and managedBy are not validated; messages print a changed
template with the field names of v1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.apiserver import names as name_checks
from mooring.apiserver.errors import Errors, invalid, not_supported, required
from mooring.apiserver.validation.batch.failure_policies import validate_failure_policy
from mooring.apiserver.validation.batch.success_policies import (
    validate_managed_by,
    validate_replacement_policy,
    validate_success_policy,
)
from mooring.apiserver.validation.metadata import ordered_selector, validate_label_selector
from mooring.apiserver.validation.pod import validate_spec
from mooring.apiserver.validation.rules import IMMUTABLE, immutable, not_negative
from mooring.apiserver.validation.workloads import (
    MISMATCH,
    matches_template,
    selects,
    validate_template_metadata,
)

if TYPE_CHECKING:
    from mooring.apiserver.types import Object

CONTROLLER_LABEL, NAME_LABEL = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"
_OLD_CONTROLLER_LABEL, _OLD_NAME_LABEL = "controller-uid", "job-name"
_MODES = ("NonIndexed", "Indexed")
_RESTART_POLICIES = ("OnFailure", "Never")
_NOT_NEGATIVE = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_PARALLELISM_OF_INDEXED_MAX = 100_000
_FAILED_INDEXES_MAX = 100_000
#: A job with more completions may have fewer pods at a time, and fewer failed indexes.
_MANY_COMPLETIONS, _MANY_MAX = 100_000, 10_000
_TEMPLATE = "spec.template"
#: Fields of the pod spec of a suspended job that may change. The labels and annotations may, too.
_SCHEDULING_DIRECTIVES = ("nodeSelector", "tolerations", "schedulingGates")


def prepare_job(job: Object, _now: str) -> None:
    """Generates the job's selector and labels, unless it has a manual selector."""
    spec, metadata = job["spec"], job["metadata"]
    if not spec.get("manualSelector"):
        labels = spec["template"]["metadata"].setdefault("labels", {})
        for name in (_OLD_NAME_LABEL, NAME_LABEL):
            labels.setdefault(name, metadata.get("name", ""))
        for name in (_OLD_CONTROLLER_LABEL, CONTROLLER_LABEL):
            labels.setdefault(name, metadata["uid"])
        match_labels = spec.setdefault("selector", {}).setdefault("matchLabels", {})
        match_labels.setdefault(CONTROLLER_LABEL, metadata["uid"])
    labels = spec["template"]["metadata"].get("labels")
    if labels and metadata.get("labels", labels) is labels:
        # Upstream applies defaults again when the stored job is read.
        metadata["labels"] = dict(labels)


def validate_job(job: Object) -> Errors:
    """Validates a new job."""
    yield from _validate_generated(job)
    yield from _validate_spec(job["spec"])
    completions = job["spec"].get("completions", 0)
    if job["spec"].get("completionMode") == "Indexed" and completions > 0:
        name = job["metadata"].get("name", "")
        last = f"{name}-{completions - 1}"
        if name_checks.dns_label(last):
            problem = f"will not able to create pod with invalid DNS label: {last}"
            yield invalid("metadata.name", name, problem)


def validate_job_update(new: Object, old: Object) -> Errors:
    """Validates a change of a job: its pod template is immutable once it has started."""
    yield from _validate_spec(new["spec"])
    spec, before = new["spec"], old["spec"]
    if spec.get("completions") != before.get("completions") and not _may_resize(spec, before):
        yield invalid("spec.completions", spec.get("completions"), IMMUTABLE)
    selector = spec.get("selector")
    if selector != before.get("selector"):
        yield invalid("spec.selector", ordered_selector(selector), IMMUTABLE)
    yield from _validate_template_update(spec["template"], old)
    names = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy")
    yield from immutable(spec, before, *names, "successPolicy", parent="spec.")


def _validate_template_update(template: Object, old: Object) -> Errors:
    """Validates a change of the pod template of a job.

    While the job is suspended and no pod of it is active, what decides where its pods go may
    change, and the resources of its containers.
    """
    before = old["spec"]["template"]
    if not _is_suspended(old):
        if template != before:
            yield invalid(_TEMPLATE, template, IMMUTABLE)
        return
    spec, expected = template["spec"], dict(before["spec"])
    for name in _SCHEDULING_DIRECTIVES:
        _copy_field(expected, spec, name)
    affinity = dict(expected.get("affinity") or {})
    _copy_field(affinity, spec.get("affinity") or {}, "nodeAffinity")
    if affinity or "affinity" in spec:
        expected["affinity"] = affinity
    else:
        expected.pop("affinity", None)
    for name in ("containers", "initContainers"):
        expected |= _with_resources(name, expected, spec)
    if spec != expected:
        yield invalid(f"{_TEMPLATE}.spec", spec, IMMUTABLE)


def _is_suspended(job: Object) -> bool:
    """Returns True if a job is suspended, and none of its pods runs."""
    status = job["status"]
    is_paused = "startTime" not in status or any(
        condition["type"] == "Suspended" and condition["status"] == "True"
        for condition in status.get("conditions") or ()
    )
    return bool(job["spec"].get("suspend") and is_paused and not status.get("active"))


def _copy_field(target: Object, source: Object, name: str) -> None:
    if name in source:
        target[name] = source[name]
    else:
        target.pop(name, None)


def _with_resources(name: str, expected: Object, spec: Object) -> Object:
    """Returns the expected containers with the resources that they have now."""
    containers, new_ones = expected.get(name, []), spec.get(name, [])
    if len(containers) != len(new_ones):
        return {}
    changed = []
    for container, new in zip(containers, new_ones, strict=True):
        if container["name"] == new["name"]:
            container = {**container}
            _copy_field(container, new, "resources")
        changed.append(container)
    return {name: changed} if changed else {}


def _may_resize(spec: Object, before: Object) -> bool:
    """Returns True if completions may change: of indexed jobs, together with the parallelism."""
    is_indexed = spec.get("completionMode") == "Indexed"
    if not is_indexed or "completions" not in spec or "completions" not in before:
        return False
    return bool(spec["completions"] == spec.get("parallelism"))


def _validate_generated(job: Object) -> Errors:
    spec, metadata = job["spec"], job["metadata"]
    if spec.get("manualSelector") or "selector" not in spec:
        return
    expected = {
        _OLD_CONTROLLER_LABEL: metadata["uid"],
        _OLD_NAME_LABEL: metadata.get("name", ""),
        CONTROLLER_LABEL: metadata["uid"],
        NAME_LABEL: metadata.get("name", ""),
    }
    labels = spec["template"]["metadata"].get("labels", {})
    field = f"{_TEMPLATE}.metadata.labels"
    for name, value in expected.items():
        if name not in labels:
            yield required(field, f"must be '{value}'")
        elif labels[name] != value:
            yield invalid(field, labels, f"must be '{value}'")
    if not selects(spec["selector"], expected):
        yield invalid("spec.selector", spec["selector"], "`selector` not auto-generated")


def _validate_spec(spec: Object) -> Errors:
    yield from _validate_shared(spec, "spec")
    if "selector" not in spec:
        yield required("spec.selector")
    else:
        yield from validate_label_selector(spec["selector"], "spec.selector")
    labels = spec["template"]["metadata"].get("labels")
    if not matches_template(spec):
        labels_text = dict(sorted(labels.items())) if labels else labels
        yield invalid(f"{_TEMPLATE}.metadata.labels", labels_text, MISMATCH)


def _validate_shared(spec: Object, field: str) -> Errors:
    """Validates what jobs and the templates of CronJobs have in common."""
    yield from not_negative(spec, field, *_NOT_NEGATIVE)
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        yield required(f"{field}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    yield from validate_managed_by(spec, f"{field}.managedBy")
    yield from _validate_mode(spec, field)
    if spec.get("podFailurePolicy") is not None:
        yield from validate_failure_policy(spec, f"{field}.podFailurePolicy")
    yield from validate_success_policy(spec, f"{field}.successPolicy")
    yield from validate_replacement_policy(spec, f"{field}.podReplacementPolicy")
    template = spec["template"]
    own = template["spec"]
    yield from validate_template_metadata(template, f"{field}.template")
    yield from validate_spec(own, f"{field}.template.spec")
    policy = own.get("restartPolicy", "")
    must_be_never = spec.get("podFailurePolicy") is not None
    yield from _validate_restart_policy(policy, must_be_never=must_be_never, parent=field)


def _validate_mode(spec: Object, field: str) -> Errors:
    mode = spec.get("completionMode", "NonIndexed")
    if mode not in _MODES:
        yield not_supported(f"{field}.completionMode", mode, _MODES)
        return
    if mode == "NonIndexed":
        names = ("backoffLimitPerIndex", "maxFailedIndexes")
        problem = "requires indexed completion mode"
        own = [name for name in names if name in spec]
        yield from (invalid(f"{field}.{name}", spec[name], problem) for name in own)
        return
    if "completions" not in spec:
        yield required(f"{field}.completions", "when completion mode is Indexed")
    if spec.get("parallelism", 0) > _PARALLELISM_OF_INDEXED_MAX:
        problem = f"must be less than or equal to {_PARALLELISM_OF_INDEXED_MAX} "
        problem += "when completion mode is Indexed"
        yield invalid(f"{field}.parallelism", spec["parallelism"], problem)
    yield from _validate_failed_indexes(spec, field)


def _validate_failed_indexes(spec: Object, field: str) -> Errors:
    """Validates how many indexes may fail, which is limited in jobs with many."""
    completions, failed = spec.get("completions"), spec.get("maxFailedIndexes")
    inner = f"{field}.maxFailedIndexes"
    if failed is not None:
        if completions is not None and failed > completions:
            yield invalid(inner, failed, "must be less than or equal to completions")
        if failed > _FAILED_INDEXES_MAX:
            yield invalid(inner, failed, f"must be less than or equal to {_FAILED_INDEXES_MAX}")
    if (completions or 0) <= _MANY_COMPLETIONS or spec.get("backoffLimitPerIndex") is None:
        return
    if failed is None:
        problem = f"must be specified when completions is above {_MANY_COMPLETIONS}"
        yield required(inner, problem)
    problem = (
        f"must be less than or equal to {_MANY_MAX} when completions are above "
        f"{_MANY_COMPLETIONS} and used with backoff limit per index"
    )
    yield from (
        invalid(f"{field}.{name}", spec[name], problem)
        for name in ("parallelism", "maxFailedIndexes")
        if spec.get(name, 0) > _MANY_MAX
    )


def validate_job_template(spec: Object, field: str) -> Errors:
    """Validates the spec of the jobs that a CronJob creates."""
    yield from _validate_shared(spec, field)
    if "selector" in spec:
        problem = "`selector` will be auto-generated"
        yield invalid(f"{field}.selector", spec["selector"], problem)
    if spec.get("manualSelector"):
        yield not_supported(f"{field}.manualSelector", True, ("nil", "false"))


def _validate_restart_policy(policy: str, *, must_be_never: bool, parent: str) -> Errors:
    field = f"{parent}.template.spec.restartPolicy"
    if policy in ("", "Always"):
        return [required(field, 'valid values: "OnFailure", "Never"')]
    if policy not in _RESTART_POLICIES:
        return [not_supported(field, policy, _RESTART_POLICIES)]
    if must_be_never and policy != "Never":
        problem = 'only "Never" is supported when podFailurePolicy is specified'
        return [invalid(field, policy, problem)]
    return []
