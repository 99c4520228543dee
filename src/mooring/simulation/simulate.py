"""The simulation's loop: one attempt at each pending pod, in queue order, on virtual time."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from mooring.clock import rfc3339
from mooring.decision import UNSCHEDULABLE, Decision
from mooring.objects.codec.decode import to_builtins
from mooring.objects.meta import key
from mooring.objects.pod import Pod
from mooring.recordings.format import FORMAT, Document, Effects, Recording, RecordingWriter, Step
from mooring.simulation.progress import View
from mooring.simulation.report import OutcomeCounts
from mooring.simulation.utilization import Utilization
from mooring.simulation.workload import Workload

if TYPE_CHECKING:
    from mooring.simulation.driver import Driver
    from mooring.simulation.outcome import Outcome

#: Start of virtual time; every binding advances it by a minute, as in kube-scheduler's
#: recordings, so that no two pods have the same start time.
EPOCH_S: Final = 1_769_904_000
BINDING_S: Final = 60

#: The family of recordings of simulations.
FAMILY: Final = "simulate"

#: Message of a pod that was bound and then preempted.
PREEMPTED: Final = "preempted by a pod of a higher priority"


def simulate(
    pending: Iterable[Pod],
    driver: Driver,
    counts: OutcomeCounts,
    utilization: Utilization,
    view: View,
    *,
    writer: RecordingWriter | None = None,
) -> None:
    """Schedules every pod once and applies each decision at once.

    A preemptor gets a second attempt after its victims are removed. Pods that wait in Permit count
    as placed until their wait ends, at the end of the simulation.

    Args:
        pending: In queue order.
        driver: Holds the cluster.
        counts: Counts the outcomes.
        utilization: Updated with every placed or removed pod.
        view: Called after every pod.
        writer: Records every step, which costs far more than a decision; None = no recording.
    """
    bound: set[str] = set()
    n_bindings = 0
    driver.start_time = _start_time(n_bindings)
    for pod in pending:
        for attempt in _attempts(pod, driver, explain=writer is not None):
            final = attempt.final
            for victim in final.victims:
                _evict(victim.key, counts, utilization, bound)
            if not final.victims or attempt.number > 1:
                _count(final, counts)
            if writer is not None:
                writer.add(_step(attempt, driver.start_time))
            if final.node is not None:
                utilization.add(pod, final.node)
                bound.add(key(pod))
                n_bindings += 1
                driver.start_time = _start_time(n_bindings)
        view.step()
    for final in driver.settle():
        if final.node is None and key(final.info.pod) in bound:
            counts.bound -= 1
            _count(final, counts)
            utilization.remove(key(final.info.pod))


def decide_until(
    pending: Iterable[Pod], driver: Driver, utilization: Utilization, pod_key: str
) -> Decision:
    """Schedules pods in order up to the named pod; returns the Decision about that pod.

    ``utilization`` is left in the state before the named pod's attempt.

    Raises:
        LookupError: the pod is not pending.
    """
    for pod in pending:
        is_named = key(pod) == pod_key
        if is_named:
            return driver.attempt(pod, explain=True).decision()
        for attempt in _attempts(pod, driver, explain=False):
            for victim in attempt.final.victims:
                utilization.remove(victim.key)
            if attempt.final.node is not None:
                utilization.add(pod, attempt.final.node)
    raise LookupError(pod_key)


class _Attempt(NamedTuple):
    """One attempt to schedule a pod, and its final outcome."""

    pod: Pod
    number: int
    start_index: int
    final: Outcome


def _attempts(pod: Pod, driver: Driver, *, explain: bool) -> Iterator[_Attempt]:
    """Attempts to schedule a pod; a second time if the first attempt evicted victims."""
    for number in (1, 2):
        start_index = driver.next_start_index
        final = driver.apply(driver.attempt(pod, explain=explain))
        yield _Attempt(pod, number, start_index, final)
        if not final.victims:
            return
        nominated = replace(pod.status, nominated_node_name=final.nominated or "")
        pod = replace(pod, status=nominated)


def _evict(pod_key: str, counts: OutcomeCounts, utilization: Utilization, bound: set[str]) -> None:
    """Removes an evicted pod; one that this simulation bound is no longer counted as bound."""
    utilization.remove(pod_key)
    if pod_key in bound:
        bound.remove(pod_key)
        counts.bound -= 1
        counts.add(UNSCHEDULABLE, (), PREEMPTED)


def recording_header(
    workload: Workload,
    *,
    upstream: str,
    seed: int,
    node_order: Sequence[str],
    config: Document | None,
) -> Recording:
    """Returns a simulation's recording before its first step; pending pods follow as steps."""
    return Recording(
        format=FORMAT,
        name=workload.name,
        family=FAMILY,
        seed=seed,
        upstream=upstream,
        config=config,
        node_order=tuple(node_order),
        objects=tuple(to_builtins(obj) for obj in workload.objects),
        steps=(),
    )


def peak_rss_bytes() -> int:
    """Returns the peak resident memory of this process."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _count(outcome: Outcome, counts: OutcomeCounts) -> None:
    reasons = () if outcome.node is not None else outcome.reasons
    counts.add(outcome.result, reasons, "" if reasons else outcome.message)


def _start_time(n_bindings: int) -> str:
    """Returns the start time of the next pod that is bound."""
    return rfc3339(EPOCH_S + (n_bindings + 1) * BINDING_S)


def _step(attempt: _Attempt, start_time: str | None) -> Step:
    final = attempt.final
    decision, effects = final.decision(), None
    updated = tuple(map(to_builtins, final.updated))
    deleted_claims = tuple(f"resourceclaims {name}" for name in final.deleted_claims)
    if final.victims:
        deleted = (*(f"pods {victim.key}" for victim in final.victims), *deleted_claims)
        nominated = {key(attempt.pod): final.nominated or ""}
        effects = Effects(deleted=deleted, updated=updated, nominated=nominated)
    elif decision.node is not None or updated or deleted_claims:
        started = start_time if decision.node is not None else None
        effects = Effects(deleted=deleted_claims, start_time=started, updated=updated)
    pod = to_builtins(attempt.pod)
    return Step(pod, attempt.number, attempt.start_index, decision, effects)
