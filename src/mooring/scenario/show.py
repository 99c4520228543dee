"""Shows a scenario before it runs: what is there, what arrives when, and what happens."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from mooring.chance import Streams
from mooring.config.durations import duration_text
from mooring.objects.node import Node
from mooring.scenario.arrivals import TracePods
from mooring.scenario.document import Deletion, Scale
from mooring.scenario.scenario import (
    ActionItem,
    ArrivalItem,
    Creation,
    NodeAction,
    Patching,
    Removal,
    RunTime,
    Scenario,
    Template,
    TraceItem,
)
from mooring.simulation.report import aligned

#: Parts of a line of arrivals.
_PARTS: Final = 40
_BARS: Final = " ▁▂▃▄▅▆▇█"
#: Arrivals that are drawn to show a process.
_ARRIVALS_MAX: Final = 200_000


def shown(scenario: Scenario) -> str:
    """Returns a scenario as text: cluster, workload by time, and arrivals as small bars."""
    nodes = sum(isinstance(obj, Node) for obj in scenario.objects)
    end = "when all is settled" if scenario.end_s is None else f"at {_time(scenario.end_s)}"
    lines = [f"{scenario.name}: seed {scenario.seed}, ends {end}", ""]
    lines.append(f"cluster: {nodes} nodes, {len(scenario.pending)} pending pods")
    lines += [
        f"  group {group.name}: {group.min} to {group.max} nodes, ready after"
        f" {group.provision.text()}, price {group.price:g} an hour"
        for group in scenario.groups
    ]
    rows = [("item", "when", "objects", "run time")]
    rows += [_row(item) for item in scenario.items]
    if len(rows) > 1:
        lines += ["", *aligned(rows, indent="", text_columns=4)]
    lines += _arrival_lines(scenario)
    lines += _step_lines(scenario)
    if scenario.stages:
        lines += ["", *(f"stage {own.name}: {own.text}" for own in scenario.stages)]
    if scenario.failures:
        lines.append("")
    for process in scenario.failures:
        lines.append(
            f"{process.name}: a crash every {process.mtbf.text()}, back after {process.mttr.text()}"
        )
    if scenario.expectations:
        lines += ["", "expected: " + "; ".join(item.text for item in scenario.expectations)]
    return "\n".join(line.rstrip() for line in lines)


def arrival_times(scenario: Scenario) -> dict[str, list[float]]:
    """Returns item -> the times of its arrivals, as a run draws them; the first 200 000."""
    streams = Streams(scenario.seed)
    times: dict[str, list[float]] = {}
    for item in scenario.items:
        instants: Iterator[float]
        if isinstance(item, ArrivalItem):
            instants = item.arrivals.instants(streams.stream(item.name, "arrivals"))
        elif isinstance(item, TraceItem):
            instants = TracePods(item).instants()
        else:
            continue
        end_s = math.inf if scenario.end_s is None else scenario.end_s
        times[item.name] = [
            instant_s for instant_s in islice(instants, _ARRIVALS_MAX) if instant_s <= end_s
        ]
    return times


def _step_lines(scenario: Scenario) -> list[str]:
    """Returns the operations by step."""
    rows = [("step", "operation", "")]
    words = {Creation: "create", Patching: "patch", Removal: "delete"}
    for step in scenario.steps:
        number = str(step.number)
        if not step.operations:
            rows.append((number, "", "the end"))
        for operation in step.operations:
            what = f"{words[type(operation.action)]} {operation.action.object.text}"
            rows.append((number, operation.name, what))
            number = ""
    return ["", *aligned(rows, indent="", text_columns=3)] if len(rows) > 1 else []


def _arrival_lines(scenario: Scenario) -> list[str]:
    times = arrival_times(scenario)
    if not any(times.values()):
        return []
    last_s = max(max(own, default=0.0) for own in times.values()) or 1.0
    width = max(map(len, times))
    lines = ["", f"arrivals from 0s to {_time(last_s)}:"]
    for name, own in times.items():
        more = " or more" if len(own) == _ARRIVALS_MAX else ""
        lines.append(f"  {name:{width}} {_bars(own, last_s)} {len(own)}{more}")
    return lines


def _bars(times: Sequence[float], last_s: float) -> str:
    """Returns the density of times from 0 to ``last_s`` as bars."""
    counts = Counter(min(_PARTS - 1, int(at_s / last_s * _PARTS)) for at_s in times)
    highest = max(counts.values(), default=1)
    steps = len(_BARS) - 1
    return "".join(_BARS[math.ceil(counts[part] * steps / highest)] for part in range(_PARTS))


def _row(item: ArrivalItem | TraceItem | ActionItem) -> tuple[str, str, str, str]:
    if isinstance(item, ArrivalItem):
        return item.name, item.arrivals.text, _objects(item.template), _run_time(item.run_time)
    if isinstance(item, TraceItem):
        stretch = item.item.stretch
        when = "as in the trace" if stretch == 1 else f"as in the trace, times {stretch:g}"
        return item.name, when, f"{len(TracePods(item))} pods", "as in the trace"
    action = item.action
    what = _objects(action) if isinstance(action, Template) else _action(action)
    run_time = _run_time(item.run_time) if isinstance(action, Template) else ""
    return item.name, f"at {_time(item.at_s)}", what, run_time


def _action(action: NodeAction | Scale | Deletion) -> str:
    if isinstance(action, Scale):
        return f"scale {action.kind} {action.namespace}/{action.name} to {action.replicas}"
    if isinstance(action, Deletion):
        return f"delete {action.kind} {action.name or _labels(action.match_labels)}"
    nodes = action.nodes.name or _labels(action.nodes.match_labels)
    back = f", back after {action.duration.text()}" if action.what == "fail" else ""
    return f"{action.what} node {nodes}{back}"


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in labels.items())


def _objects(template: Template) -> str:
    kinds = Counter(
        [
            *("Pod" for _ in template.pods),
            *(raw["kind"] for raw in template.workloads),
            *(type(obj).__name__ for obj in template.others),
        ]
    )
    return ", ".join(kind if n == 1 else f"{n} {kind}" for kind, n in kinds.items())


def _run_time(run_time: RunTime) -> str:
    text = run_time.duration.text()
    return text if not run_time.failure else f"{text}, {run_time.failure:.0%} fail"


def _time(seconds: float) -> str:
    return duration_text(round(seconds, 3))
