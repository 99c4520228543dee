"""The simulation's loop: one attempt at each pending pod, in queue order, on virtual time."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from mooring.decision import Decision
from mooring.objects.decode import to_builtins
from mooring.objects.meta import key
from mooring.objects.pod import Pod
from mooring.sim.fill import Fill
from mooring.sim.live import View
from mooring.sim.recording import FORMAT, Document, Effects, Recording, RecordingWriter, Step
from mooring.sim.report import Tally
from mooring.sim.workload import Workload

if TYPE_CHECKING:
    from mooring.sim.driver import Driver
    from mooring.sim.outcome import Outcome

#: Where virtual time begins; every binding moves it on by a minute, as in kube-scheduler's
#: recordings, so that no two pods on nodes start at the same time.
EPOCH_S: Final = 1_769_904_000
BINDING_S: Final = 60


def simulate(
    pending: Iterable[Pod],
    driver: Driver,
    tally: Tally,
    fill: Fill,
    view: View,
    *,
    writer: RecordingWriter | None = None,
) -> None:
    """Decide every pod once and carry each decision out at once.

    Pods that a Permit plugin holds back count as placed until they are settled, at the end.

    Args:
        pending: In queue order.
        driver: Holds the cluster.
        tally: Counts the outcomes.
        fill: Is told of every pod that gets a node.
        view: Is told after every pod.
        writer: Gets every step, which costs far more than deciding; None = nothing is kept.
    """
    for pod in pending:
        start_index = driver.next_start_index
        outcome = driver.attempt(pod, explain=writer is not None)
        final = driver.apply(outcome)
        _count(final, tally)
        if final.node is not None:
            fill.add(pod, final.node)
        if writer is not None:
            writer.add(_step(pod, start_index, final.decision(), tally.bound))
        view.step()
    for final in driver.settle():
        if final.node is None:
            tally.bound -= 1
            _count(final, tally)
            fill.remove(key(final.info.pod))


def decide_until(pending: Iterable[Pod], driver: Driver, fill: Fill, pod_key: str) -> Decision:
    """Decide pods in order up to the one named, and tell everything about that attempt.

    ``fill`` is afterwards the cluster as that pod met it.

    Raises:
        LookupError: the pod is not among the pending ones.
    """
    for pod in pending:
        is_it = key(pod) == pod_key
        outcome = driver.attempt(pod, explain=is_it)
        if is_it:
            return outcome.decision()
        final = driver.apply(outcome)
        if final.node is not None:
            fill.add(pod, final.node)
    raise LookupError(pod_key)


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
        family="simulate",
        seed=seed,
        upstream=upstream,
        config=config,
        node_order=tuple(node_order),
        objects=tuple(to_builtins(obj) for obj in workload.objects),
        steps=(),
    )


def peak_rss_bytes() -> int:
    """The most memory that this process has had so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _count(outcome: Outcome, tally: Tally) -> None:
    reasons = () if outcome.node is not None else outcome.reasons
    tally.add(outcome.result, reasons, "" if reasons else outcome.message)


def _step(pod: Pod, start_index: int, decision: Decision, n_bound: int) -> Step:
    effects = None
    if decision.node is not None:
        start = datetime.fromtimestamp(EPOCH_S + n_bound * BINDING_S, UTC)
        effects = Effects(start_time=start.strftime("%Y-%m-%dT%H:%M:%SZ"))
    return Step(to_builtins(pod), 1, start_index, decision, effects)
