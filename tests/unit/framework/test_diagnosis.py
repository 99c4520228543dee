"""The sentence that tells why no node takes a pod: kube-scheduler's FitError, letter by letter."""

from __future__ import annotations

from collections import Counter

import pytest

from mooring.framework import Code, Diagnosis, NodeError, Pending, Reject, Status
from mooring.testing import cluster, make_node


def test_without_nodes_there_is_one_sentence_whatever_else_is_known() -> None:
    diagnosis = Diagnosis(0, post_filter_message="nothing to preempt")

    assert diagnosis.message == "no nodes available to schedule pods"
    assert diagnosis.reason == "Unschedulable"


def test_counts_are_sorted_as_strings_so_ten_comes_before_two() -> None:
    reasons = Counter({"Insufficient cpu": 2, "Insufficient memory": 10, "Too many pods": 1})

    assert Diagnosis(13, reasons=reasons).message == (
        "0/13 nodes are available: 1 Too many pods, 10 Insufficient memory, 2 Insufficient cpu."
    )


def test_capital_letters_come_before_small_ones_as_bytes_do() -> None:
    reasons = Counter({"node(s) were unschedulable": 1, "Insufficient cpu": 1, "éclair": 1})

    assert Diagnosis(3, reasons=reasons).message == (
        "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable, 1 éclair."
    )


def test_a_prefilter_refusal_stands_for_all_nodes_without_a_count() -> None:
    diagnosis = Diagnosis(5, pre_filter=Reject("no claim", "no volume").named("Volumes"))

    assert diagnosis.message == "0/5 nodes are available: no claim, no volume."
    assert diagnosis.status_of("any") == Reject("no claim", "no volume").named("Volumes")


def test_a_prefilter_refusal_without_words_is_counted_as_for_each_node() -> None:
    # Go prints the message only if it is not "", and else the reasons of the absent nodes.
    assert Diagnosis(3, pre_filter=Reject()).message == "0/3 nodes are available:"
    assert Diagnosis(3, pre_filter=Reject("")).message == "0/3 nodes are available: 3 ."


def test_absent_nodes_are_counted_with_the_reason_they_share() -> None:
    diagnosis = Diagnosis(
        4,
        reasons=Counter({"Insufficient cpu": 1}),
        absent=Reject("node(s) didn't satisfy plugin(s) [A]", resolvable=False),
        absent_count=3,
    )

    assert diagnosis.message == (
        "0/4 nodes are available: 1 Insufficient cpu, 3 node(s) didn't satisfy plugin(s) [A]."
    )


def test_an_absent_reason_adds_to_an_equal_one() -> None:
    diagnosis = Diagnosis(4, reasons=Counter({"x": 1}), absent=Reject("x"), absent_count=3)

    assert diagnosis.message == "0/4 nodes are available: 4 x."
    assert diagnosis.reasons == Counter({"x": 1})  # telling does not count again


def test_nobody_absent_is_not_mentioned() -> None:
    diagnosis = Diagnosis(1, reasons=Counter({"x": 1}), absent=Reject("left out"), absent_count=0)

    assert diagnosis.message == "0/1 nodes are available: 1 x."


def test_without_any_reason_only_the_colon_stands() -> None:
    assert Diagnosis(2).message == "0/2 nodes are available:"


@pytest.mark.parametrize("pre_filter", [None, Reject("gone")])
def test_post_filter_adds_its_words_after_either_form(pre_filter: Reject | None) -> None:
    diagnosis = Diagnosis(1, reasons=Counter({"x": 1}), pre_filter=pre_filter)
    diagnosis.post_filter_message = "preemption: 0/1 nodes are available"

    start = "gone." if pre_filter else "1 x."
    assert diagnosis.filter_message == f"0/1 nodes are available: {start}"
    assert diagnosis.message == (
        f"0/1 nodes are available: {start} preemption: 0/1 nodes are available"
    )


def test_who_refused_is_remembered_by_kind() -> None:
    diagnosis = Diagnosis(1)

    diagnosis.note_plugin(Reject("x").named("A"))
    diagnosis.note_plugin(Reject("x", resolvable=False).named("B"))
    diagnosis.note_plugin(Pending("x").named("C"))
    diagnosis.note_plugin(NodeError("x").named("D"))
    diagnosis.note_plugin(Reject("x"))

    assert diagnosis.unschedulable_plugins == {"A", "B", "C"}
    assert diagnosis.pending_plugins == {"C"}


def test_a_nodes_own_status_goes_before_the_one_of_all_absent_nodes() -> None:
    own, absent = Reject("own").named("A"), Reject("absent")
    diagnosis = Diagnosis(2, statuses={"a": own}, absent=absent)

    assert diagnosis.status_of("a") == own
    assert diagnosis.status_of("b") == absent
    assert Diagnosis(2).status_of("a") is None


def test_rows_are_those_of_the_statuses_in_their_order() -> None:
    cache = cluster(*(make_node(name) for name in "abcd"))
    statuses: dict[str, Status] = {
        "c": Reject("no"),
        "gone": Reject("no"),
        "a": Reject("no"),
        "b": Reject("never", resolvable=False),
    }
    rows = {name: cache.nodes.row(name) for name in "abcd"}
    diagnosis = Diagnosis(4, statuses=statuses)

    assert diagnosis.rows_of(Code.UNSCHEDULABLE, cache.nodes).tolist() == [rows["c"], rows["a"]]
    unresolvable = diagnosis.rows_of(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, cache.nodes)
    assert unresolvable.tolist() == [rows["b"]]
    assert diagnosis.rows_of(Code.ERROR, cache.nodes).tolist() == []


def test_every_node_has_the_code_with_which_pre_filter_rejected_the_pod() -> None:
    cache = cluster(*(make_node(name) for name in "abcd"))
    diagnosis = Diagnosis(4, pre_filter=Reject("no"), statuses={"a": Reject("x", resolvable=False)})

    every = diagnosis.rows_of(Code.UNSCHEDULABLE, cache.nodes).tolist()
    assert every == cache.nodes.order.rows()
    none = diagnosis.rows_of(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, cache.nodes)
    assert none.tolist() == []
