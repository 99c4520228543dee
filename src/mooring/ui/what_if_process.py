"""The process that decides pods under two configurations: ``python -m mooring.ui.what_if_process``.

It reads a ``Request`` and the objects from standard input, and writes a ``Line`` for its progress
and one for the result.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

import msgspec

from mooring.config import KubeSchedulerConfiguration, loads
from mooring.errors import SchedulerError
from mooring.objects.codec.decode import convert
from mooring.objects.kinds import KINDS
from mooring.objects.meta import KubernetesObject, key
from mooring.objects.pod import FINISHED_PHASES, MIRROR, Pod, unbound
from mooring.simulation.inputs.unsupported import notes
from mooring.simulation.results import EVICTED, NOT_OURS, PLACED, WAITING, PodResult
from mooring.simulation.run import Simulation, SimulationOptions, run_simulation
from mooring.simulation.workload import Workload, workload_of
from mooring.ui.what_if import Line, Request, WhatIfResult, WhatIfRow

#: Pods of one result.
ROWS_MAX: Final = 5_000
#: Pods between two lines of progress.
_STEP: Final = 100


def main() -> None:
    """Reads the input, decides, and writes the result."""
    request = msgspec.json.decode(sys.stdin.buffer.readline(), type=Request)
    try:
        _write(Line(result=decide(request, sys.stdin.buffer.read(), on_progress=_progress)))
    except SchedulerError as error:
        _write(Line(problem=str(error)))


def _write(line: Line) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
    sys.stdout.buffer.flush()


def _progress(done: int, total: int) -> None:
    _write(Line(done, total))


def decide(
    request: Request, objects: bytes, *, on_progress: Callable[[int, int], None]
) -> WhatIfResult:
    """Decides the pods under both configurations.

    Args:
        request: The configurations and which pods.
        objects: The cluster as one JSON list.
        on_progress: Called with the number of decided pods and of all, both runs together.

    Raises:
        SchedulerError: a configuration, a plugin or an object cannot be used.
    """
    read = [
        convert(raw, raw["kind"])
        for raw in msgspec.json.decode(objects)["items"]
        if raw["kind"] in KINDS
    ]
    nodes = {key(obj): obj.spec.node_name for obj in read if isinstance(obj, Pod)}
    if request.scope == "all":
        read = [_unbound(obj) for obj in read]
    workload = workload_of("what-if", read)
    after_config = loads(request.after)
    progress = _Progress(2 * len(workload.pending), on_progress)
    before = _run(workload, loads(request.before), request, progress)
    after = _run(workload, after_config, request, progress)
    rows = _rows(nodes, before, after)
    return WhatIfResult(
        pods=len(rows),
        placed_before=sum(bool(row.before) for row in rows),
        placed_after=sum(bool(row.after) for row in rows),
        evicted_before=len(before.evictions),
        evicted_after=len(after.evictions),
        differing=sum(row.differs for row in rows),
        rows=rows[:ROWS_MAX],
        notes=notes(after_config),
    )


class _Progress:
    """Counts pods that were decided for the first time in one of both runs."""

    def __init__(self, total: int, on_progress: Callable[[int, int], None]) -> None:
        self._total = total
        self._on_progress = on_progress
        self._done = 0
        self._seen: set[str] = set()

    def begin(self) -> None:
        """Begins a run."""
        self._seen.clear()

    def on_result(self, result: PodResult) -> None:
        """Counts a pod."""
        if result.pod in self._seen:
            return
        self._seen.add(result.pod)
        self._done += 1
        if self._done % _STEP == 0:
            self._on_progress(min(self._done, self._total), self._total)


def _run(
    workload: Workload, config: KubeSchedulerConfiguration, request: Request, progress: _Progress
) -> Simulation:
    progress.begin()
    options = SimulationOptions(
        config=config,
        plugins=request.plugins,
        seed=request.seed,
        gates=request.gates,
        on_result=progress.on_result,
    )
    return run_simulation(workload, options)


def _unbound(obj: KubernetesObject) -> KubernetesObject:
    """Returns a pod as it was before it was bound; static pods and finished ones stay."""
    if not isinstance(obj, Pod) or not obj.spec.node_name or MIRROR in obj.metadata.annotations:
        return obj
    if obj.status.phase in FINISHED_PHASES or obj.metadata.deletion_timestamp is not None:
        return obj
    return unbound(obj)


def _rows(nodes: dict[str, str], before: Simulation, after: Simulation) -> list[WhatIfRow]:
    """Returns the pods that differ first, then the others, by name."""
    results = {result.pod: result for result in before.results}
    rows = []
    for result in after.results:
        old = results.get(result.pod, PodResult(result.pod))
        reason = "" if result.outcome == PLACED else _reason(result)
        if not reason and old.outcome != PLACED:
            reason = f"in effect: {_reason(old)}"
        names = _node(old), _node(result)
        row = WhatIfRow(result.pod, nodes.get(result.pod, ""), *names, reason, names[0] != names[1])
        rows.append(row)
    return sorted(rows, key=lambda row: (not row.differs, row.pod))


def _node(result: PodResult) -> str:
    return result.node if result.outcome == PLACED else ""


def _reason(result: PodResult) -> str:
    if result.outcome == WAITING:
        return f"waits for its victims on {result.nominated_node}"
    if result.outcome == EVICTED:
        return f"evicted for {result.evicted_by}"
    if result.outcome == NOT_OURS:
        return "no profile has its schedulerName"
    return result.message or result.outcome


if __name__ == "__main__":
    main()
