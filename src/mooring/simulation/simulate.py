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
from mooring.simulation.report import Tally
from mooring.simulation.utilization import Fill
from mooring.simulation.workload import Workload

if TYPE_CHECKING:
    from mooring.simulation.driver import Driver
    from mooring.simulation.outcome import Outcome

#: Where virtual time begins; every binding moves it on by a minute, as in kube-scheduler's
#: recordings, so that no two pods on nodes start at the same time.
EPOCH_S: Final = 1_769_904_000
BINDING_S: Final = 60

#: The family of recordings of simulations.
FAMILY: Final = "simulate"

#: What is said of a pod that was bound, and then had to leave.
PREEMPTED: Final = "preempted by a pod of a higher priority"


def simulate(
    pending: Iterable[Pod],
    driver: Driver,
    tally: Tally,
    fill: Fill,
    view: View,
    *,
    writer: RecordingWriter | None = None,
) -> None:
    """Decides every pod once and carries each decision out at once.

    A pod that others have to make room for is tried once more when they are gone. Pods that a
    Permit plugin holds back count as placed until they are settled, at the end.

    Args:
        pending: In queue order.
        driver: Holds the cluster.
        tally: Counts the outcomes.
        fill: Is told of every pod that gets a node.
        view: Is told after every pod.
        writer: Gets every step, which costs far more than deciding; None = nothing is kept.
    """
    bound: set[str] = set()
    n_bindings = 0
    driver.start_time = _start_time(n_bindings)
    for pod in pending:
        for tried in _attempts(pod, driver, explain=writer is not None):
            final = tried.final
            for victim in final.victims:
                _evict(victim.key, tally, fill, bound)
            if not final.victims or tried.number > 1:
                _count(final, tally)
            if writer is not None:
                writer.add(_step(tried, driver.start_time))
            if final.node is not None:
                fill.add(pod, final.node)
                bound.add(key(pod))
                n_bindings += 1
                driver.start_time = _start_time(n_bindings)
        view.step()
    for final in driver.settle():
        if final.node is None and key(final.info.pod) in bound:
            tally.bound -= 1
            _count(final, tally)
            fill.remove(key(final.info.pod))


def decide_until(pending: Iterable[Pod], driver: Driver, fill: Fill, pod_key: str) -> Decision:
    """Decides pods in order up to the one named, and tells everything about that attempt.

    ``fill`` is afterwards the cluster as that pod met it.

    Raises:
        LookupError: the pod is not among the pending ones.
    """
    for pod in pending:
        is_it = key(pod) == pod_key
        if is_it:
            return driver.attempt(pod, explain=True).decision()
        for tried in _attempts(pod, driver, explain=False):
            for victim in tried.final.victims:
                fill.remove(victim.key)
            if tried.final.node is not None:
                fill.add(pod, tried.final.node)
    raise LookupError(pod_key)


class _Tried(NamedTuple):
    """One attempt at a pod, and what came of it."""

    pod: Pod
    number: int
    start_index: int
    final: Outcome


def _attempts(pod: Pod, driver: Driver, *, explain: bool) -> Iterator[_Tried]:
    """Tries a pod; once more if its first attempt made others leave."""
    for number in (1, 2):
        start_index = driver.next_start_index
        final = driver.apply(driver.attempt(pod, explain=explain))
        yield _Tried(pod, number, start_index, final)
        if not final.victims:
            return
        nominated = replace(pod.status, nominated_node_name=final.nominated or "")
        pod = replace(pod, status=nominated)


def _evict(pod_key: str, tally: Tally, fill: Fill, bound: set[str]) -> None:
    """A pod had to leave; one that was bound before in this simulation is bound no more."""
    fill.remove(pod_key)
    if pod_key in bound:
        bound.remove(pod_key)
        tally.bound -= 1
        tally.add(UNSCHEDULABLE, (), PREEMPTED)


def recording_header(
    workload: Workload,
    *,
    upstream: str,
    seed: int,
    node_order: Sequence[str],
    config: Document | None,
) -> Recording:
    """The recording of a simulation before its first step; the pending pods come as steps."""
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
    """Returns the most memory that this process has had so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _count(outcome: Outcome, tally: Tally) -> None:
    reasons = () if outcome.node is not None else outcome.reasons
    tally.add(outcome.result, reasons, "" if reasons else outcome.message)


def _start_time(n_bindings: int) -> str:
    """When the next pod that is bound starts."""
    return rfc3339(EPOCH_S + (n_bindings + 1) * BINDING_S)


def _step(tried: _Tried, start_time: str | None) -> Step:
    decision, effects = tried.final.decision(), None
    if tried.final.victims:
        deleted = tuple(f"pods {victim.key}" for victim in tried.final.victims)
        nominated = {key(tried.pod): tried.final.nominated or ""}
        effects = Effects(deleted=deleted, nominated=nominated)
    elif decision.node is not None:
        updated = tuple(map(to_builtins, tried.final.updated))
        effects = Effects(start_time=start_time, updated=updated)
    pod = to_builtins(tried.pod)
    return Step(pod, tried.number, tried.start_index, decision, effects)
