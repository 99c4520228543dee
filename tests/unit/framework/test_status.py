"""Statuses, statuses, and what the runner refuses as an answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.errors import PluginError
from mooring.framework import SKIP, Code, FilterStatuses, Pending, Reject, Status
from mooring.framework.status import NodeError


def test_reject_is_a_status_with_the_code_that_resolvable_says() -> None:
    assert Reject("a", "b") == Status(Code.UNSCHEDULABLE, ("a", "b"))
    assert Reject("a", resolvable=False).code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert Reject("a", "b").message == "a, b"
    assert Reject("a").named("P").plugin == "P"


@pytest.mark.parametrize(
    ("status", "is_rejection"),
    [(Reject("x"), True), (Pending("x"), True), (NodeError("x"), False)],
)
def test_an_error_is_no_rejection(status: Status, is_rejection: bool) -> None:
    assert status.is_rejection is is_rejection


def test_code_names_are_kube_schedulers() -> None:
    assert [code.value for code in Code] == [
        "Success",
        "Error",
        "Unschedulable",
        "UnschedulableAndUnresolvable",
        "Wait",
        "Skip",
        "Pending",
    ]


def test_skip_is_one_object_that_prints_its_name() -> None:
    assert repr(SKIP) == "SKIP"


def test_filter_statuses_share_equal_statuses() -> None:
    statuses = FilterStatuses.of([None, Reject("a"), Reject("b"), Reject("a")])

    assert statuses.codes.tolist() == [0, 1, 2, 1]
    assert statuses.table == [Reject("a"), Reject("b")]


def test_refuse_marks_where_the_mask_is_true() -> None:
    statuses = FilterStatuses.reject(np.array([True, False, True]), Reject("a"))

    assert statuses.codes.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("codes", "problem"),
    [
        (np.zeros(2, dtype=np.uint16), "shape"),
        (np.zeros(3, dtype=np.int64), "uint16"),
        (np.full(3, 2, dtype=np.uint16), "past the end"),
    ],
)
def test_statuses_of_a_wrong_shape_are_the_plugins_error(codes: np.ndarray, problem: str) -> None:
    with pytest.raises(PluginError, match=problem) as caught:
        FilterStatuses(codes, [Reject("a")]).checked("Mine", 3)
    assert caught.value.plugin == "Mine"


@pytest.mark.parametrize("status", [Reject, Pending, NodeError])
@pytest.mark.parametrize("reason", [5, None, b"full", ["full"]])
def test_reasons_are_texts(status: Any, reason: Any) -> None:
    with pytest.raises(TypeError) as caught:
        status("full", reason)
    assert str(caught.value) == f"{status.__name__} takes reasons that are texts, not {reason!r}"


@pytest.mark.parametrize("status", [Reject, Pending, NodeError])
def test_reasons_can_be_sent(status: type[Status]) -> None:
    made = status("fits é", "half \udfff of a pair")  # type: ignore[arg-type]
    assert made.reasons == ("fits é", "half \\udfff of a pair")
    assert made.message.encode()
