"""The five-line door: methods about one node, run on columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.errors import PluginError
from mooring.framework import Reject, check_plugin, per_node
from mooring.framework.per_node import ONE_NODE_FORM
from mooring.testing import Harness, make_node, make_pod, one_node_form

NODES = [make_node("a", unschedulable=True), make_node("bb"), make_node("ccc")]


class NotA:
    name = "NotA"

    @per_node
    def filter(self, pod: Any, node: Any) -> Any:
        """Rejects node a, and every node for unlucky pods."""
        if pod.metadata.name == "unlucky":
            return Reject("bad luck", resolvable=False)
        return Reject("is a", f"not for {pod.metadata.name}") if node.name == "a" else None

    @per_node
    def score(self, pod: Any, node: Any) -> Any:
        return 10 * len(node.name) + node.unschedulable


def test_a_filter_is_asked_node_by_node_and_answers_in_columns() -> None:
    found = Harness(NODES, [NotA()]).statuses(make_pod("p"))

    assert found == {"a": Reject("is a", "not for p"), "bb": None, "ccc": None}


def test_equal_refusals_share_one_entry_of_the_table() -> None:
    plugin = NotA()
    cycle, view = Harness(NODES, [plugin]).open(make_pod("unlucky"))

    statuses = plugin.filter(cycle, view)

    assert statuses.codes.tolist() == [1, 1, 1]
    assert statuses.codes.dtype == np.uint16
    assert statuses.table == [Reject("bad luck", resolvable=False)]


def test_scores_become_int64_of_the_views_length() -> None:
    plugin = NotA()
    cycle, view = Harness(NODES, [plugin]).open(make_pod("p"))

    scores = plugin.score(cycle, view)

    assert scores.tolist() == [11, 20, 30]
    assert scores.dtype == np.int64
    assert plugin.score(cycle, view.subset(np.array([], dtype=np.intp))).shape == (0,)


def test_a_lifted_method_passes_the_check_and_keeps_its_docstring() -> None:
    assert check_plugin(NotA()).name == "NotA"
    assert NotA.filter.__doc__ == "Rejects node a, and every node for unlucky pods."


def test_the_one_node_form_can_be_reached() -> None:
    form = one_node_form(NotA.score)

    assert form is getattr(NotA.score, ONE_NODE_FORM)
    _, view = Harness(NODES, [NotA()]).open(make_pod())
    assert form(NotA(), make_pod(), view.info(1)) == 20


@pytest.mark.parametrize("answer", [False, "no", 0, ("is a",)])
def test_a_filter_that_answers_something_else_is_named_with_the_node(answer: Any) -> None:
    class Odd:
        name = "Odd"

        @per_node
        def filter(self, pod: Any, node: Any) -> Any:
            return answer if node.name == "bb" else None

    with pytest.raises(PluginError) as caught:
        Harness(NODES, [Odd()]).decide(make_pod())

    assert str(caught.value) == (
        f'running "Odd" filter plugin: returned {answer!r} for bb, not None or Reject'
    )


@pytest.mark.parametrize("answer", [True, 1.0, None, "7"])
def test_a_score_that_is_no_int_is_named_with_the_node(answer: Any) -> None:
    class Odd:
        name = "Odd"

        @per_node
        def score(self, pod: Any, node: Any) -> Any:
            return answer if node.name == "bb" else 1

    with pytest.raises(PluginError) as caught:
        Harness(NODES, [Odd()]).decide(make_pod())

    assert str(caught.value) == (
        f'running Score plugin "Odd": returned {answer!r} for bb, not an int'
    )


def test_numpy_ints_are_ints() -> None:
    class Fine:
        name = "Fine"

        @per_node
        def score(self, pod: Any, node: Any) -> Any:
            return np.int32(len(node.name))

    assert Harness(NODES, [Fine()]).raw_scores(make_pod()) == {"a": 1, "bb": 2, "ccc": 3}


def test_an_exception_is_an_error_with_the_plugins_name() -> None:
    class Broken:
        name = "Broken"

        @per_node
        def filter(self, pod: Any, node: Any) -> Any:
            return node.labels["no such label"]

    with pytest.raises(PluginError, match=r'"Broken" filter plugin: KeyError'):
        Harness(NODES, [Broken()]).decide(make_pod())


def test_other_methods_cannot_be_lifted() -> None:
    with pytest.raises(TypeError, match=r"@per_node is for filter and score, not reserve"):

        @per_node
        def reserve(self: Any, pod: Any, node: Any) -> None: ...
