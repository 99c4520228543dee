"""Each field of each event that is written, and of its series, by what was recorded and when."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

from mooring.client import Request
from mooring.objects.meta import KubernetesObject
from mooring.objects.pod import Pod
from mooring.testing import make_node, make_pod

#: The object of an event, by the last digit of its reason: a pod, a node, which has no namespace,
#: so that its events are in "default", and a pod of another namespace.
REGARDING: Final[tuple[KubernetesObject, ...]] = (
    make_pod("web"),
    make_node("web"),
    make_pod("web", namespace="team"),
)
NAME: Final = re.compile(r"web\.[0-9a-f]{16}")
PATCH: Final = "application/strategic-merge-patch+json"


def object_of(reason: str) -> KubernetesObject:
    """Returns the object of the events with a reason."""
    digit = reason[-1]
    return REGARDING[int(digit) % len(REGARDING) if digit.isdigit() else 0]


def _path_of(reason: str) -> str:
    namespace = object_of(reason).metadata.namespace or "default"
    return f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"


class EventContents:
    """Knows what was recorded, by reason and related object, and checks what is written.

    Args:
        wall_s: Returns the wall time.
    """

    def __init__(self, wall_s: Callable[[], float]) -> None:
        self._wall_s = wall_s
        #: Reason and name of the related pod -> times and notes, in order.
        self._recorded: dict[tuple[str, str], list[tuple[str, str]]] = {}

    def record(self, reason: str, related: Pod | None, note: str) -> None:
        """Notes an event."""
        at = datetime.fromtimestamp(self._wall_s(), tz=UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        key = reason, related.metadata.name if related is not None else ""
        self._recorded.setdefault(key, []).append((at, note))

    def problems(self, request: Request, stored: Any) -> Iterator[str]:
        """Yields what is wrong with a write.

        Args:
            request: It creates an event, or changes its series.
            stored: The event before; None if there is none.
        """
        body = json.loads(request.body)
        is_new = request.method == "POST"
        name = body["metadata"]["name"] if is_new else request.path.rpartition("/")[2]
        reason = {**(stored or {}), **body}.get("reason")
        if reason is None:
            return  # a series of an event that is not stored
        path = _path_of(reason) + ("" if is_new else f"/{name}")
        content_type = "application/json" if is_new else PATCH
        how = request.path, request.headers["content-type"]
        if how != (path, content_type) or request.method not in ("POST", "PATCH"):
            yield f"{request.method} {how}, not {path} as {content_type}"
        if not NAME.fullmatch(name) or (not is_new and body.keys() != {"series"}):
            yield f"an event {name} is written as {body}"
        event = {**(stored or {}), **body}
        if is_new or stored is not None:
            yield from self._differences(event, name)

    def _differences(self, event: Any, name: str) -> Iterator[str]:
        related = event.get("related") or {"name": ""}
        series = event.get("series") or {"count": 1, "lastObservedTime": event["eventTime"]}
        events = self._recorded.get((event["reason"], related["name"]), [])
        about = object_of(event["reason"])
        where = {"namespace": about.metadata.namespace} if about.metadata.namespace else {}
        pods = {"related": related["name"]} if related["name"] else {}
        expected: dict[str, Any] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": about.metadata.namespace or "default"},
            "reportingController": "default-scheduler",
            "reportingInstance": "one",
            "action": "Test",
            "reason": event["reason"],
            "type": "Normal",
            "eventTime": event["eventTime"],
            "note": event["note"],
            "regarding": {
                "kind": "Pod" if where else "Node",
                "apiVersion": "v1",
                "name": "web",
                "uid": about.metadata.uid,
                **where,
            },
        }
        for field, pod in pods.items():
            expected[field] = {
                "kind": "Pod",
                "apiVersion": "v1",
                "namespace": "default",
                "name": pod,
                "uid": f"pod-default-{pod}",
            }
        real = {field: value for field, value in event.items() if field != "series"}
        if real != expected:
            yield f"an event {real}, not {expected}"
        is_right = any(
            (at, note) == (event["eventTime"], event["note"])
            and events[number + series["count"] - 1 :][:1]
            and events[number + series["count"] - 1][0] == series["lastObservedTime"]
            for number, (at, note) in enumerate(events)
        )
        if not is_right:
            yield f"the series {event['eventTime']} {series} does not agree with {events}"
