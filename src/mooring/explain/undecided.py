"""Pods for which no decision is made: finished, being deleted, static, or of another scheduler."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.explain.reasons.case import similar
from mooring.objects.meta import key
from mooring.objects.pod import MIRROR, Pod
from mooring.queue import profile_of

FINISHED = frozenset({"Succeeded", "Failed"})


def reason_without_decision(pod: Pod, profiles: Iterable[str]) -> str:
    """Returns why no decision is made about a pod, as a sentence; "" = one is made.

    Args:
        pod: The pod.
        profiles: The schedulerNames of the profiles.
    """
    name, where = f"Pod {key(pod)}", f" on {pod.spec.node_name}" if pod.spec.node_name else ""
    scheduler, names = profile_of(pod), list(profiles)
    if pod.status.phase in FINISHED:
        return f"{name} is finished ({pod.status.phase}){where}: it is not scheduled again."
    since = pod.metadata.deletion_timestamp
    if since is not None:
        return f"{name} is being deleted{where} since {since}: it is not scheduled."
    if MIRROR in pod.metadata.annotations and where:
        text = "is a static pod: its kubelet runs it from a manifest, and no scheduler decides it"
        return f"{name}{where} {text}."
    if scheduler not in names:
        near = similar(scheduler, names)
        hint = f"; did you mean {near}?" if near else ""
        is_on = f" is{where}; it" if where else ""
        return (
            f"{name}{is_on} is scheduled by {scheduler}, not by a profile of this configuration"
            f" ({', '.join(names)}){hint or '.'}"
        )
    return ""
