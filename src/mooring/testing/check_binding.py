"""Checks ``reserve``, ``unreserve`` and ``permit`` of a plugin, and how it treats waiting pods.

Some pods are scheduled one after the other, up to Permit, and the attempts are then rolled back. A
plugin that forgets everything gives the same results when the same pods come again::

    schedule ── roll back ── 15 minutes ── schedule ── roll back twice ── schedule ── let time pass
        └──────────── equal? ─────────────────┴───────────── equal? ─────────┘
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from mooring.clock import VirtualClock
from mooring.errors import exception_text
from mooring.framework import Attempt, Cycle, Placement, schedule_pod
from mooring.framework.runtime import bind as binding
from mooring.framework.status import Status
from mooring.framework.waiting_pods import MAX_WAIT_S, WaitingPod
from mooring.objects.pod import Pod
from mooring.state import PodInfo
from mooring.testing.cases import Case
from mooring.testing.harness import Harness

#: The methods that are checked here.
METHODS = ("reserve", "unreserve", "permit")


class _Reserved(NamedTuple):
    """A pod that passed Reserve, with its node."""

    cycle: Cycle
    node_name: str


def check_binding(case: Case, target: Any, pods: Iterable[Pod] = ()) -> None:
    """Checks the plugin with the pod of the case and further pods.

    Args:
        case: Plugin, cluster and pod.
        target: The plugin, or its class or factory; a class gives each check a plugin of its own.
        pods: Further pods, which come after that of the case.

    Raises:
        AssertionError: with the violation.
    """
    if not any(hasattr(case.plugin, method) for method in METHODS):
        return
    _BindingCheck(case, target, [case.pod, *pods]).run()


class _BindingCheck:
    """The checks of one case."""

    def __init__(self, case: Case, target: Any, pods: Sequence[Pod]) -> None:
        self._case = case
        self._pods = pods
        self._clock = VirtualClock()
        self._harness = Harness(case.objects, [target], cache_results=False, clock=self._clock)
        self._plugin = self._harness.plugins[0]
        self._handle = self._harness.handle
        self._reserved: dict[str, _Reserved] = {}
        for pod in self._pods:
            self._handle.listers.apply("Pod", None, pod)

    def run(self) -> None:
        """Runs all checks.

        Raises:
            AssertionError: with the violation.
        """
        first = self._schedule()
        self._roll_back()
        self._advance(MAX_WAIT_S + 1)
        self._expect_equal(first, self._schedule(), "unreserve does not undo reserve")
        self._roll_back(calls=2)
        self._advance(MAX_WAIT_S + 1)
        self._expect_equal(first, self._schedule(), "unreserve is not idempotent")
        self._wait()
        self._check_names()
        self._roll_back()  # a plugin that is an object is used again for the next case

    def _schedule(self) -> dict[str, str]:
        """Schedules the pods up to Permit; returns what became of each, in words."""
        results: dict[str, str] = {}
        with self._case.plugin_errors_as_failures():
            for pod in self._pods:
                results[pod.metadata.name] = self._schedule_one(PodInfo(pod))
        for name, waiting in ((own.pod.metadata.name, own) for own in self._handle.waiting):
            results[name] += f", then {_status_text(waiting)}"
        return results

    def _schedule_one(self, pod: PodInfo) -> str:
        framework, cache = self._harness.framework, self._harness.cache
        snapshot = cache.snapshot()
        cycle = framework.new_cycle(pod, snapshot)
        result = schedule_pod(framework, cycle, Attempt(snapshot))
        if not isinstance(result, Placement):
            return "unschedulable"
        node = result.node_name
        cache.put_pod(pod.on_node(node).pod)
        self._reserved[pod.uid] = _Reserved(cycle, node)
        rejection = binding.reserve(framework, cycle, node)
        if rejection is not None:
            self._undo(pod.uid, calls=1)
            return f"rejected by reserve on {node} ({rejection.message})"
        status = binding.permit(framework, cycle, node, now_s=self._clock.monotonic_s())
        if isinstance(status, Status):
            self._undo(pod.uid, calls=1)
            return f"rejected by permit on {node} ({status.message})"
        return f"{'waiting' if status is not None else 'allowed'} on {node}"

    def _undo(self, uid: str, *, calls: int) -> None:
        """Rolls one attempt back, as if its pod had been deleted."""
        cycle, node = self._reserved.pop(uid)
        waiting = self._handle.waiting.get(uid)
        if waiting is not None:
            waiting.reject("", "removed")
            self._handle.waiting.remove(uid)
        if hasattr(self._plugin, "unreserve"):
            for _ in range(calls):
                self._harness.framework.call(
                    self._plugin, "Unreserve", self._plugin.unreserve, cycle, node
                )
        self._harness.cache.remove_pod(uid)

    def _roll_back(self, *, calls: int = 1) -> None:
        """Rolls all attempts back, the last one first."""
        with self._case.plugin_errors_as_failures():
            for uid in reversed(list(self._reserved)):
                self._undo(uid, calls=calls)

    def _advance(self, seconds: float) -> None:
        """Lets time pass, with the plugin's callbacks; no pod waits any more."""
        end_s = self._clock.monotonic_s() + seconds
        while (next_s := self._handle.next_call_s) <= end_s:
            self._clock.advance(max(0.0, next_s - self._clock.monotonic_s()))
            self._call_due("after its pod was deleted")
        self._clock.advance(end_s - self._clock.monotonic_s())

    def _wait(self) -> None:
        """Lets time pass until no pod waits; rejected pods are rolled back."""
        while len(self._handle.waiting):
            waiting = list(self._handle.waiting)
            next_s = min(self._handle.next_call_s, *(own.deadline_s for own in waiting), 1e12)
            self._clock.advance(max(0.0, next_s - self._clock.monotonic_s()))
            self._call_due("while its pod waits")
            self._handle.waiting.expire(self._clock.monotonic_s())
            with self._case.plugin_errors_as_failures():
                self._end_waits(waiting)

    def _end_waits(self, pods: Iterable[WaitingPod]) -> None:
        """Ends the settled ones of these waits: an allowed pod stays, others are rolled back."""
        for own in pods:
            if own.status == ():
                self._handle.waiting.remove(own.pod.uid)
            elif own.status is not None and own.pod.uid in self._reserved:
                self._undo(own.pod.uid, calls=1)

    def _call_due(self, when: str) -> None:
        try:
            self._handle.call_due()
        except Exception as error:  # a plugin may raise anything
            text = exception_text(error)
            raise AssertionError(
                f"{self._case.where}: a callback of call_later raises {when}: {text}"
            ) from error

    def _expect_equal(self, first: dict[str, str], again: dict[str, str], problem: str) -> None:
        """Compares two rounds, unless the plugin uses random numbers."""
        if self._handle.is_random:
            return
        for name, result in first.items():
            self._case.expect(
                again[name] == result,
                f"{problem}: pod {name} was {result}; when it comes again it is {again[name]}",
            )

    def _check_names(self) -> None:
        name = self._plugin.name
        for other in sorted(self._handle.allowed_by - {name}):
            self._case.expect(
                False,
                f"a waiting pod was allowed or rejected by {other!r}; it waits for {name!r}",
            )


def _status_text(waiting: WaitingPod) -> str:
    if waiting.status is None:
        return "not settled"
    return waiting.status.message if isinstance(waiting.status, Status) else "allowed"
