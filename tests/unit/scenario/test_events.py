"""The table of events: what is recorded, and how much."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mooring.clock import VirtualClock
from mooring.objects.codec.decode import convert
from mooring.objects.node import Node
from mooring.scenario.tables.events import MESSAGE_LENGTH_MAX, EventLog
from tests.helpers.scenario_files import Spec, nodes, pod, run

SPEC: Spec = {
    "end": {"at": "10m"},
    "cluster": {"nodes": [nodes(2)]},
    "workload": [
        {"name": "large", "at": "1m", "create": pod("99")},
        {"name": "cordon", "at": "2m", "cordon": {"node": "node-1"}},
        {"name": "gone", "at": "3m", "delete": {"kind": "Node", "name": "node-1"}},
    ],
}


def node(heartbeat: str, **spec: Any) -> Node:
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat}
    status = {"allocatable": {"cpu": "4"}, "conditions": [ready]}
    raw = {"metadata": {"name": "n", "labels": {"a": "b"}}, "spec": spec, "status": status}
    own: Node = convert(raw, "Node")
    return own


def test_a_run_records_its_nodes_and_refusals_outside_the_digest(tmp_path: Path) -> None:
    result = run(tmp_path, SPEC)
    assert result.events is not None
    events = list(
        zip(*(result.events[name] for name in ("time_s", "event", "object")), strict=True)
    )
    assert events[:2] == [(0, "node", "node-0"), (0, "node", "node-1")]
    assert events[2] == (60, "refused", "default/large")
    assert (120, "node", "node-1") in events
    assert (180, "node-removed", "node-1") in events
    assert result._replace(events=None).digest == result.digest
    assert run(tmp_path, SPEC).events == result.events


def test_a_node_is_recorded_again_only_if_something_shown_has_changed() -> None:
    clock = VirtualClock()
    log = EventLog(clock)
    log.node(node("2026-01-01T00:00:00Z"))
    log.node(node("2026-01-01T00:00:10Z"))
    clock.advance(5)
    log.node(node("2026-01-01T00:00:20Z", unschedulable=True))
    columns = log.columns()
    assert list(columns["time_s"]) == [0, 5]
    documents = [json.loads(text) for text in columns["text"]]
    assert [own["spec"]["unschedulable"] for own in documents] == [False, True]
    assert documents[0]["metadata"] == {"name": "n", "labels": {"a": "b"}}
    assert documents[0]["status"]["allocatable"] == {"cpu": "4"}


def test_events_have_a_limit_which_is_recorded() -> None:
    clock = VirtualClock()
    log = EventLog(clock, {"nodes": 5, "pods": 2})
    for number in range(4):
        log.failed("refused", f"default/{number}", "no")
        clock.advance(1)
    log.node_removed("n")
    columns = log.columns()
    assert columns["event"] == ["refused", "refused", "limit", "node-removed"]
    assert (columns["time_s"][2], columns["text"][2]) == (2, "pods")


def test_long_messages_are_cut() -> None:
    log = EventLog(VirtualClock())
    log.failed("error", "default/a", "x" * 5_000, ["B", "A"])
    columns = log.columns()
    assert columns["text"] == ["x" * MESSAGE_LENGTH_MAX]
    assert columns["plugins"] == ["A,B"]
