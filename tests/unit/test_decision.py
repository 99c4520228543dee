"""A decision's JSON is that of the recordings, and garbage is refused where it stands."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from mooring.decision import (
    Decision,
    ExtenderCall,
    Rejection,
    check_decision,
    decode_decision,
    encode_decision,
)
from mooring.errors import ConfigError
from tests.helpers.paths import PARITY_DATA

RECORDINGS = sorted(PARITY_DATA.glob("*.json.gz"))

PLACED: dict[str, Any] = {
    "result": "scheduled",
    "node": "n1",
    "tied": ["n1", "n2"],
    "rejected": {"n3": {"plugin": "NodeName", "code": "Unschedulable", "reasons": ["no"]}},
    "unschedulable_plugins": [],
    "pending_plugins": [],
}


def decoded(**changes: Any) -> Decision:
    return decode_decision(json.dumps({**PLACED, **changes}))


def test_there_are_recordings_of_all_fourteen_families() -> None:
    families = {path.name.removesuffix(".json.gz").rpartition("-")[0] for path in RECORDINGS}
    assert len(families) == 14
    assert len(RECORDINGS) == 168


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.split(".")[0])
def test_every_recorded_decision_is_written_as_it_was_read(path: Path) -> None:
    steps = json.loads(gzip.decompress(path.read_bytes()))["steps"]
    assert steps
    for step in steps:
        recorded = step["decision"]
        written = encode_decision(decode_decision(json.dumps(recorded)))
        assert json.loads(written) == recorded


def test_our_own_fields_are_absent_when_there_is_nothing_to_say() -> None:
    assert json.loads(encode_decision(decoded())) == PLACED


def test_our_own_fields_survive_the_way_there_and_back() -> None:
    decision = decoded(
        durations_s={"filter": 0.001},
        sampled=7,
        error="boom",
        extenders=[{"url": "http://x", "rejected": {"n3": "no"}, "scores": {"n1": 4}}],
    )
    again = decode_decision(encode_decision(decision))
    assert again == decision
    assert again.extenders == (ExtenderCall("http://x", {"n3": "no"}, {"n1": 4}),)
    assert again.durations_s == {"filter": 0.001}


def test_nothing_scored_is_not_the_same_as_no_plugin_scored() -> None:
    assert decoded().scores is None
    assert decoded(scores={}).scores == {}
    assert json.loads(encode_decision(decoded(scores={})))["scores"] == {}


def test_passed_nodes_are_those_with_a_total() -> None:
    assert decoded().passed is None
    assert decoded(total={"n2": 3, "n1": 4}).passed == ("n2", "n1")


def test_a_rejection_by_several_plugins_knows_their_names() -> None:
    reason = "node(s) didn't satisfy plugin(s) [A B]"
    left_out = Rejection("A,B", "UnschedulableAndUnresolvable", (reason,))
    assert left_out.plugins == ("A", "B")
    assert left_out.is_left_out
    assert not Rejection("A", "Unschedulable", ("Insufficient cpu",)).is_left_out


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"result": "lost"}, "result"),
        ({"choice": "best"}, "choice"),
        ({"node": None}, "node"),
        ({"result": "unschedulable"}, "node"),
        ({"tied": ["n2"]}, "tied"),
        ({"node": "n3", "tied": ["n3"]}, "rejected"),
        ({"total": {"n3": 1}}, "total"),
        ({"scores": {"A": {"n2": 1}}, "total": {"n1": 1, "n2": 1}}, "scores.A"),
    ],
)
def test_fields_that_contradict_each_other_are_refused(changes: dict[str, Any], path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        decoded(**changes)
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"node": 4}, "node"),
        ({"tied": None}, "tied"),
        ({"scores": {"A": {"n1": 1.5}}}, "scores[...][...]"),
        ({"rejected": {"n3": {"plugin": "A"}}}, "rejected[...]"),
        ({"preemption": {"nominated": None}}, "preemption"),
        ({"nodes": []}, None),
    ],
)
def test_a_field_of_another_type_is_refused_with_its_path(
    changes: dict[str, Any], path: str | None
) -> None:
    with pytest.raises(ConfigError) as caught:
        decoded(**changes)
    assert caught.value.path == path


@pytest.mark.parametrize("field", PLACED)
def test_no_required_field_may_be_missing(field: str) -> None:
    text = json.dumps({name: value for name, value in PLACED.items() if name != field})
    with pytest.raises(ConfigError, match=field):
        decode_decision(text)


@pytest.mark.parametrize("text", [b"", b"{", b"null", b"[]", b"\xff", b'"x"', b"[" * 100_000])
def test_what_is_no_object_is_refused(text: bytes) -> None:
    with pytest.raises(ConfigError):
        decode_decision(text, file="a.json")


def test_the_path_of_a_decision_inside_a_file_is_kept() -> None:
    broken = Decision("lost", None, (), {}, (), ())
    with pytest.raises(ConfigError) as caught:
        check_decision(broken, file="a.json", path="steps[4].decision")
    assert str(caught.value).startswith("a.json: steps[4].decision.result: must be one of")
