"""Follows which pods have a PodScheduled condition, as far as a scheduler can know.

``lastTransitionTime`` is the time at which the status of a condition changed. The scheduler always
writes "False", so it writes a time with the first condition of a pod, and none after that: else
the pod seems to be unschedulable since its last message only.

Source: pkg/api/v1/pod/util.go (UpdatePodCondition).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from mooring.client import Client, Request
from mooring.client.transport.transport import Response
from mooring.scheduler.status_writer import StatusUpdate, StatusWriter

POD_SCHEDULED: Final = "PodScheduled"


class Transitions:
    """The conditions of pods, by UID; attached to a writer and the requests of its client.

    Args:
        writer: Has written nothing yet.
        client: The writer's.
        report: Called with each problem.
    """

    def __init__(self, writer: StatusWriter, client: Client, report: Callable[[str], None]) -> None:
        self._report = report
        real: Any = writer
        self._enqueue, real.enqueue = real.enqueue, self._enqueues
        transport: Any = client.transport
        self._send, transport.request = transport.request, self._sends
        #: In the version for which the last condition was asked.
        self._before: dict[str, bool] = {}
        #: Task -> whether the last answer to a patch that it sent asks for a wait.
        self.requested: dict[object, bool] = {}
        #: Sent, and known to be stored.
        self._sent: set[str] = set()
        self._stored: set[str] = set()

    def forget(self, uid: str) -> None:
        """Follows that the writer has forgotten what it stored for a pod."""
        self._stored.discard(uid)

    def _enqueues(self, update: StatusUpdate) -> None:
        self._asked(update.pod.metadata.uid, update.pod.status.conditions)
        self._enqueue(update)

    async def _sends(self, request: Request) -> Response:
        body = msgspec.json.decode(request.body) if request.method == "PATCH" else {}
        written = body.get("status", {}).get("conditions", ())
        conditions = [condition for condition in written if condition["type"] == POD_SCHEDULED]
        uid = body.get("metadata", {}).get("uid", "")
        for condition in conditions:
            for problem in self._problems(uid, condition):
                self._report(f"{uid}: {problem}")
        task = asyncio.current_task()
        self.requested[task] = False
        response: Response = await self._send(request)
        if request.method == "PATCH":
            self.requested[task] = response.headers.get("retry-after", "0") != "0"
        if conditions and response.status == 200:
            self._stored.add(uid)
        return response

    def _asked(self, uid: str, conditions: Iterable[Any]) -> None:
        """Follows the version of a pod for which a condition is to be written."""
        self._before[uid] = any(
            (condition.type, condition.status) == (POD_SCHEDULED, "False")
            for condition in conditions
        )

    def _problems(self, uid: str, condition: Mapping[str, Any]) -> Iterator[str]:
        """Yields what is wrong with the time of a condition that is sent now."""
        has_time = condition.get("lastTransitionTime") is not None
        is_first = uid not in self._sent and not self._before.get(uid, False)
        is_known = uid in self._stored or self._before.get(uid, False)
        self._sent.add(uid)
        if is_first and not has_time:
            yield "the first condition has no time of its transition"
        if is_known and has_time:
            yield "a further condition has a time, but the status is the same"
