"""Workloads whose controller would never end: refused, even if files are not validated.

A controller creates pods until enough are selected, so an API server refuses a workload whose
selector does not select the pods of its template.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from mooring.objects.files.documents import Path
from mooring.objects.files.limits import WORKLOAD_PODS_MAX
from mooring.objects.meta import LabelSelector
from mooring.objects.selectors import SelectorError, compile_label_selector
from mooring.objects.types import Object

#: The fields with the number of pods that run at once.
_SIZES = ("replicas", "parallelism")

_PERCENTAGE = re.compile(r"[0-9]{1,9}%")


class WorkloadProblem(NamedTuple):
    """The field that makes a workload impossible to run."""

    path: Path
    text: str
    value: Any = None


def problem_of(workload: Object) -> WorkloadProblem | None:
    """Returns why a workload cannot be simulated; None if it can.

    Example:
        >>> job = {"parallelism": 10**9, "template": {"spec": {}}}
        >>> problem_of({"kind": "Job", "spec": job}).text
        'is more than 500000 pods of one workload'
    """
    kind, spec = workload["kind"], workload.get("spec") or {}
    path: Path = ("spec",)
    if kind == "CronJob":
        spec, path = (
            (spec.get("jobTemplate") or {}).get("spec") or {},
            (*path, "jobTemplate", "spec"),
        )
    for name in _SIZES:
        pods = spec.get(name) or 0
        if min(pods, spec.get("completions") or pods) > WORKLOAD_PODS_MAX:
            text = f"is more than {WORKLOAD_PODS_MAX} pods of one workload"
            return WorkloadProblem((*path, name), text, pods)
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        if not (claim.get("metadata") or {}).get("name"):
            place = (*path, "volumeClaimTemplates", index, "metadata", "name")
            return WorkloadProblem(place, "must name the claim")
    if kind in ("Job", "CronJob"):
        return None
    return _rolling_problem(spec) or _selector_problem(spec, kind)


def _rolling_problem(spec: Object) -> WorkloadProblem | None:
    """Returns which limit of a rolling update is neither a number nor a percentage."""
    for strategy in ("strategy", "updateStrategy"):
        rolling = (spec.get(strategy) or {}).get("rollingUpdate") or {}
        for name in ("maxSurge", "maxUnavailable"):
            value = rolling.get(name, 0)
            if isinstance(value, str) and not _PERCENTAGE.fullmatch(value):
                path = ("spec", strategy, "rollingUpdate", name)
                return WorkloadProblem(path, "must be a number or a percentage", value)
    return None


def _selector_problem(spec: Object, kind: str) -> WorkloadProblem | None:
    raw = spec.get("selector")
    if not raw:
        return WorkloadProblem(("spec", "selector"), "must select the pods of the template")
    template = spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    if kind == "ReplicationController":
        raw = {"matchLabels": raw}
    try:
        selector = compile_label_selector(msgspec.convert(raw, LabelSelector))
    except (SelectorError, msgspec.ValidationError) as error:
        return WorkloadProblem(("spec", "selector"), f"is no selector: {error}")
    if selector.matches(labels):
        return None
    text = "does not select the pods of the template: their controller would create pods for ever"
    return WorkloadProblem(("spec", "selector"), text, spec["selector"])
