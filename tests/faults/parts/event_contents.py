"""Each field of each event that is written, and of its series, by what was recorded and when."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

from mooring.client import Request
from mooring.objects.pod import Pod

PATH: Final = "/apis/events.k8s.io/v1/namespaces/default/events"
NAME: Final = re.compile(r"web\.[0-9a-f]{16}")
PATCH: Final = "application/strategic-merge-patch+json"


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
        name = (
            body["metadata"]["name"] if request.method == "POST" else request.path[len(PATH) + 1 :]
        )
        is_new = request.method == "POST"
        path = PATH if is_new else f"{PATH}/{name}"
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
        pods = {"regarding": "web"} | ({"related": related["name"]} if related["name"] else {})
        expected: dict[str, Any] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": "default"},
            "reportingController": "default-scheduler",
            "reportingInstance": "one",
            "action": "Test",
            "reason": event["reason"],
            "type": "Normal",
            "eventTime": event["eventTime"],
            "note": event["note"],
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
