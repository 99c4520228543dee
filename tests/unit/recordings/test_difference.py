"""One line per difference, readable and cut nowhere that matters."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.recordings.difference import Difference, histogram_part


def line(field: str, recorded: Any, decided: Any, **where: str) -> str:
    plugin, node = where.get("plugin"), where.get("node")
    return str(Difference(7, "a/x", field, plugin, node, recorded, decided))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (line("node", "n1", "n2"), "node: recorded 'n1', decided 'n2'"),
        (line("node", "n1", None), "node: recorded 'n1', decided nothing"),
        (line("tied", ["n1"], []), "tied: recorded ['n1'], decided []"),
        (line("total", 4, 5, node="n1"), "total on node n1: recorded 4, decided 5"),
        (
            line("raw", 4, 5, node="n1", plugin="Fit"),
            "raw of Fit on node n1: recorded 4, decided 5",
        ),
        (
            line("scores", "present", "absent", plugin="Fit"),
            "scores of Fit: recorded 'present', decided 'absent'",
        ),
        (
            line(
                "prefilter",
                {"plugin": "Fit", "code": "Unschedulable", "reasons": ["a", "b"]},
                None,
            ),
            "prefilter: recorded Fit Unschedulable (a; b), decided nothing",
        ),
    ],
)
def test_a_line_says_step_pod_field_plugin_node_and_both_values(found: str, expected: str) -> None:
    assert found == f"step 7, pod a/x: {expected}"


def test_a_difference_survives_json() -> None:
    before = Difference(1, "a/x", "raw", "Fit", "n1", 3, None)
    assert msgspec.json.decode(msgspec.json.encode(before), type=Difference) == before


@pytest.mark.parametrize(
    "reason",
    [
        "Insufficient cpu",
        "node(s) had untolerated taint(s)",
        "a sentence. Another sentence",
        "an odd one. preemption of a kind",
        "node(s) didn't match pod topology spread constraints (missing required label)",
    ],
)
def test_reasons_with_full_stops_do_not_end_the_histogram(reason: str) -> None:
    histogram = f"0/2 nodes are available: 2 {reason}."
    tail = " preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    assert histogram_part(histogram + tail) == histogram
    assert histogram_part(histogram) == histogram
