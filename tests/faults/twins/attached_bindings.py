"""Follows the requests of each binding: no pod is given up while one may still arrive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from mooring.errors import ApiError, OutcomeUnknown, TooManyRequests
from mooring.objects.pod import Pod
from mooring.queue import QueuedPod
from mooring.scheduler.service import Service
from tests.faults.harness.checkers import StoreChecker
from tests.faults.harness.faults import now_s

#: An unanswered request may arrive so long after it was sent.
ARRIVES_S: Final = 125.0
ROUNDING_S: Final = 1e-6


@dataclass
class Requests:
    """The requests of one attempt to bind a pod."""

    sent_at_s: float = 0.0
    arrives_until_s: float = 0.0


class AttachedBindings:
    """Checks when a binding counts as failed.

    Args:
        service: The scheduler.
        store: The stored objects.
        check: Called with each pod before a request to bind it.
        report: Called with each problem.
    """

    def __init__(
        self,
        service: Service,
        store: StoreChecker,
        check: Callable[[Pod], None],
        report: Callable[[str], None],
    ) -> None:
        self._check = check
        self._store = store
        self._report = report
        self._requests: dict[str, Requests] = {}
        client: Any = service._client
        self._bind = client.bind
        client.bind = self._on_bind
        observer: Any = service._options.observer
        self._failed = observer.failed
        observer.failed = self._on_failed

    async def _on_bind(
        self,
        pod: Pod,
        node_name: str,
        *,
        deadline_s: float,
        on_send: Callable[[], None],
    ) -> None:
        requests = self._requests.setdefault(pod.metadata.uid, Requests())
        self._check(pod)

        def on_sent() -> None:
            requests.sent_at_s = now_s()
            on_send()

        try:
            await self._bind(pod, node_name, deadline_s=deadline_s, on_send=on_sent)
        except OutcomeUnknown as error:
            if not isinstance(error.__cause__, ApiError) or isinstance(
                error.__cause__, TooManyRequests
            ):
                requests.arrives_until_s = requests.sent_at_s + ARRIVES_S
            raise
        else:
            del self._requests[pod.metadata.uid]

    def _on_failed(self, entry: QueuedPod, why: Any) -> None:
        requests = self._requests.pop(entry.uid, None)
        stored = self._store.pods.get(entry.uid)
        if requests is not None and stored is not None and not stored.spec.node_name:
            left_s = requests.arrives_until_s - now_s()
            if left_s > ROUNDING_S:
                self._report(
                    f"{entry.pod.key} is requeued, but its binding may arrive for {left_s:.1f} s"
                )
        self._failed(entry, why)
