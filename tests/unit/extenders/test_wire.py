"""Requests to extenders, and decoding of their responses, as in kube-scheduler.

Source of the forms: k8s.io/kube-scheduler extender/v1/types.go.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.errors import ExtenderError
from mooring.extender_server import wire as other_side
from mooring.extenders import wire
from mooring.framework.extender import FilterResult, PrioritizeResult, Victims
from mooring.objects.meta import ObjectMeta

ASKED = wire.names_of(["a", "b"])
POD = b'{"metadata":{"name":"web","uid":"u"},"spec":{"containers":[]}}'


def body(value: Any) -> bytes:
    return json.dumps(value).encode()


def test_a_question_by_name() -> None:
    asked = json.loads(wire.names_args(POD, wire.names_of(["a", 'b"'])))
    assert asked == {"Pod": json.loads(POD), "Nodes": None, "NodeNames": ["a", 'b"']}
    told = wire.names_args(POD, wire.names_of(["a", "b"]))
    assert other_side.read_filtering(told).names == ("a", "b")


def test_a_question_with_whole_objects() -> None:
    nodes = [body({"metadata": {"name": name}, "odd": {"x": [1]}}) for name in "ab"]
    asked = json.loads(wire.objects_args(POD, nodes))
    assert asked["NodeNames"] is None
    assert asked["Nodes"]["items"] == [json.loads(node) for node in nodes]
    assert json.loads(wire.objects_args(POD, []))["Nodes"]["items"] == []


def test_a_question_about_victims() -> None:
    by_uid = json.loads(wire.meta_victims_args(POD, {"a": Victims(("x", "y"), 1)}))
    expected = {"a": {"Pods": [{"UID": "x"}, {"UID": "y"}], "NumPDBViolations": 1}}
    assert by_uid["NodeNameToMetaVictims"] == expected
    assert by_uid["NodeNameToVictims"] is None
    whole = json.loads(wire.victims_args(POD, {'a"': ([POD, POD], 2), "b": ([], 0)}))
    assert whole["NodeNameToVictims"] == {
        'a"': {"Pods": [json.loads(POD)] * 2, "NumPDBViolations": 2},
        "b": {"Pods": [], "NumPDBViolations": 0},
    }
    assert whole["NodeNameToMetaVictims"] is None


def test_an_order_to_bind() -> None:
    asked = wire.binding_args(ObjectMeta(name="web", namespace="shop", uid="u"), "a")
    assert json.loads(asked) == {
        "PodName": "web",
        "PodNamespace": "shop",
        "PodUID": "u",
        "Node": "a",
    }
    assert other_side.read_binding(asked) == ("shop", "web", "u", "a")


@pytest.mark.parametrize(
    ("answer", "by_name", "expected"),
    [
        ({"NodeNames": ["a"]}, True, FilterResult(["a"], {}, {})),
        ({"nodenames": ["a"], "FAILEDNODES": {"b": "no"}}, True,
         FilterResult(["a"], {"b": "no"}, {})),
        ({"nodeNames": None, "Nodes": {"items": [{"metadata": {"name": "a"}}]}}, True,
         FilterResult(["a"], {}, {})),
        ({"nodes": {"Items": [{"metadata": {"name": "a"}, "spec": {}}]}, "NodeNames": ["b"]}, False,
         FilterResult(["a"], {}, {})),
        ({"failedAndUnresolvableNodes": {"b": ""}, "Error": ""}, True,
         FilterResult((), {}, {"b": ""})),
        ({"NodeNames": []}, True, FilterResult([], {}, {})),
        (None, True, FilterResult((), {}, {})),
        ({"NodeNames": ["a"], "FailedNodes": {"b": None}}, True,
         FilterResult(["a"], {"b": ""}, {})),
        ({"NodeNames": [], "FailedAndUnresolvableNodes": {"c": None}}, True,
         FilterResult([], {}, {"c": ""})),
        ({"NodeNames": ["a", "b"], "FailedNodes": {}}, True, FilterResult(["a", "b"], {}, {})),
        ({"NodeNames": ["a", "b"], "FailedNodes": {"a": "no", "c": "n"},
          "FailedAndUnresolvableNodes": {"b": "never"}}, True,
         FilterResult(["a", "b"], {"a": "no", "c": "n"}, {"b": "never"})),
        ({"NodeNames": ["b"], "FailedNodes": {"a": "no"},
          "FailedAndUnresolvableNodes": {"a": "never"}}, True,
         FilterResult(["b"], {"a": "no"}, {"a": "never"})),
        ({"Nodes": {"items": [{"metadata": {"name": "a"}}]}, "FailedNodes": {"b": "no"},
          "FailedAndUnresolvableNodes": {"c": "never"}}, False,
         FilterResult(["a"], {"b": "no"}, {"c": "never"})),
        ({"Nodes": {"items": None}, "more": {"deep": [{}]}}, False, FilterResult([], {}, {})),
    ],
)  # fmt: skip
@pytest.mark.parametrize("separators", [None, (",", ":")], ids=["spaces", "as it was sent"])
def test_answers_to_filter(
    answer: Any, by_name: bool, expected: FilterResult, separators: tuple[str, str] | None
) -> None:
    text = json.dumps(answer, separators=separators).encode()
    found = wire.read_filter(text, ASKED if by_name else None)
    assert (list(found.names), found.failed, found.failed_and_unresolvable) == (
        list(expected[0]),
        *expected[1:],
    )


def test_names_win_over_objects_for_those_that_were_asked_by_name() -> None:
    answer = body({"NodeNames": ["a"], "Nodes": {"items": [{"metadata": {"name": "b"}}]}})
    assert list(wire.read_filter(answer, ASKED).names) == ["a"]
    assert list(wire.read_filter(answer, None).names) == ["b"]


def test_an_error_is_raised_as_it_was_said() -> None:
    for read in (wire.read_bind, lambda said: wire.read_filter(said, ASKED)):
        with pytest.raises(ExtenderError, match=r"^out of order$"):
            read(body({"error": "out of order", "NodeNames": ["a"]}))
    wire.read_bind(b"{}")
    wire.read_bind(b'{"Error": null}')


def test_priorities_are_read_in_order_and_in_any_case() -> None:
    answer = [{"Host": "a", "Score": 3}, {"host": "b", "SCORE": 10}, {"Host": "c"}, {"Host": "a"}]
    assert wire.read_priorities(body(answer)) == PrioritizeResult(
        ["a", "b", "c", "a"], [3, 10, 0, 0]
    )
    assert wire.read_priorities(b"null") == PrioritizeResult([], [])
    said = other_side.priorities({"a": 100.0, "b": 45.0})
    assert wire.read_priorities(said) == PrioritizeResult(["a", "b"], [10, 5])


def test_a_victim_is_named_by_a_string() -> None:
    answer = body({"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": 5}]}}})
    with pytest.raises(ExtenderError, match=r"^Pods: a UID must be a string$"):
        wire.read_preempt(answer)


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({"Host": 5}, "Host: must be a string"),
        ({"Score": 1.5}, "Score: must be a whole number"),
        ({"Score": True}, "Score: must be a whole number"),
        ({"Score": 2**63}, f"Score: {2**63} is not an int64"),
        ({"Score": -(2**63) - 1}, f"Score: {-(2**63) - 1} is not an int64"),
    ],
)
def test_the_error_of_a_priority_has_its_index(entry: Any, text: str) -> None:
    with pytest.raises(ExtenderError) as caught:
        wire.read_priorities(body([{"host": "a", "score": 1}, entry]))
    assert str(caught.value) == f"[1].{text}"


def test_scores_are_whole_numbers_of_64_bits() -> None:
    most, least = 2**63 - 1, -(2**63)
    for host in ("Host", "host"):
        answer = body([{host: "a", "Score": most}, {host: "b", "Score": least}])
        assert wire.read_priorities(answer) == PrioritizeResult(["a", "b"], [most, least])
    nothing = body([{"Host": None, "Score": None}])
    assert wire.read_priorities(nothing) == PrioritizeResult([""], [0])


@pytest.mark.parametrize(
    "answer",
    [
        *({}, [[]], [{"Host": 1}], [{"Score": 1.0}], [{"Score": "1"}], [{"Score": True}], "x"),
        [{"Host": "a", "Score": 2**63}],
        [{"host": "a", "score": -(2**63) - 1}],
    ],
)
def test_priorities_that_are_none(answer: Any) -> None:
    with pytest.raises(ExtenderError):
        wire.read_priorities(body(answer))


def test_victims_are_read_by_uid() -> None:
    answer = {
        "nodeNameToMetaVictims": {
            "a": {"pods": [{"uid": "x"}, {"UID": "y"}], "numPDBViolations": 2},
            "b": {},
            "c": None,
            "d": {"Pods": [{}, {"Uid": None}], "NumPDBViolations": None},
        }
    }
    nobody = Victims((), 0)
    assert wire.read_preempt(body(answer)) == {
        "a": Victims(("x", "y"), 2),
        "b": nobody,
        "c": nobody,
        "d": Victims(("", ""), 0),
    }
    sent = {"a": other_side.Victims(("x",), 1)}
    assert wire.read_preempt(other_side.preempt_result(sent)) == {"a": Victims(("x",), 1)}
    assert wire.read_preempt(b"{}") == {}


DEEP = b'{"Nodes":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.mark.parametrize(
    "answer", [b"", b"{", b"NaN", b'{"NodeNames": "a"}', b'{"FailedNodes": []}', b"\xff", DEEP]
)
def test_what_cannot_be_read_is_an_error_of_the_extender(answer: bytes) -> None:
    with pytest.raises(ExtenderError, match=r"^its answer cannot be read: "):
        wire.read_filter(answer, ASKED)


KEYS = st.sampled_from(
    ["Nodes", "nodes", "NodeNames", "FailedNodes", "Error", "items", "metadata", "name", "Pods",
     "NodeNameToMetaVictims", "UID", "Host", "Score", "NumPDBViolations", "a"]
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(JSON.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=60))
def test_no_answer_whatever_does_more_than_raise(answer: bytes) -> None:
    for read in (
        lambda said: wire.read_filter(said, ASKED),
        lambda said: wire.read_filter(said, None),
        wire.read_priorities,
        wire.read_preempt,
        wire.read_bind,
    ):
        with suppress(ExtenderError):
            read(answer)
