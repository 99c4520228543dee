"""The names that plugin authors used before keep working for one release, with a warning."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest

import mooring
import mooring.client
import mooring.framework
import mooring.testing
from mooring.deprecated import MODULES, NAMES
from mooring.framework import FilterStatuses, NodeView, PostFilterResult, Reject, check_plugin
from mooring.framework.waiting_pods import WaitingPod
from mooring.plugins.node_name import NodeName
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import check_conformance, make_node, make_pod


@pytest.mark.parametrize("old", sorted(MODULES))
def test_an_old_module_is_the_new_one(old: str) -> None:
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=MODULES[old]):
        module = importlib.import_module(old)
    assert module is importlib.import_module(MODULES[old])
    assert module.__name__ == MODULES[old]


@pytest.mark.parametrize("module", [mooring, mooring.framework])
@pytest.mark.parametrize(("old", "new"), NAMES.items())
def test_an_old_name_is_the_new_one(module: object, old: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=new):
        assert getattr(module, old) is getattr(module, new)


def test_an_old_name_of_the_client_is_the_new_one() -> None:
    with pytest.warns(DeprecationWarning, match=r"^mooring\.client\.Change is now ObjectChange;"):
        assert mooring.client.Change is mooring.client.ObjectChange
    with pytest.raises(AttributeError, match="'Exchange'"):
        _ = mooring.client.Exchange


@pytest.mark.parametrize("module", [mooring, mooring.framework])
def test_a_name_that_never_was_is_an_attribute_error(module: object) -> None:
    with pytest.raises(AttributeError, match="no attribute 'Verdict_'"):
        module.Verdict_  # type: ignore[attr-defined]  # noqa: B018


def test_a_plugin_with_old_attributes_is_read_under_the_new_ones() -> None:
    class Old:
        name = "Old"
        zeros_become = 7

        def pre_filter(self, cycle: object) -> None: ...
        def shift(self, cycle: object, state: object, nodes: object) -> str:
            return "shifted"

        def score(self, cycle: object, nodes: object) -> list[int]:
            return []

        def normalize(self, cycle: object, scores: object, nodes: object) -> object:
            return scores

    with pytest.warns(DeprecationWarning, match="Old") as warned:
        plugin = check_plugin(Old())
    assert [str(warning.message).split(";")[0] for warning in warned] == [
        "Old.shift is now apply_deltas",
        "Old.zeros_become is now normalized_zero",
    ]
    assert plugin.normalized_zero == 7
    assert plugin.apply_deltas(None, None, None) == "shifted"


def test_an_old_attribute_of_a_class_is_the_new_one() -> None:
    cache = Cache()
    cache.put_node(make_node("a"))
    waiting = WaitingPod(PodInfo(make_pod()), "a", {"A": 1.0}, 0.0)
    with pytest.warns(DeprecationWarning, match=r"^WaitingPod\.verdict is now status;"):
        assert waiting.verdict is None
    with pytest.warns(DeprecationWarning, match=r"^PostFilterResult\.rooms is now candidates;"):
        assert PostFilterResult(None, candidates=list).rooms is list
    with pytest.warns(DeprecationWarning, match=r"^FilterStatuses\.refuse is now reject;"):
        assert FilterStatuses.refuse(np.array([True]), Reject("no")).to_list() == [Reject("no")]
    with pytest.warns(DeprecationWarning, match=r"^NodeView\.everything is now all_nodes;"):
        view = NodeView.everything(cache.snapshot())
    with pytest.warns(DeprecationWarning, match=r"^NodeView\.where is now subset;"):
        assert view.where(np.array([True])).names == view.names == ["a"]


def test_the_old_names_of_reference_plugins_work() -> None:
    with pytest.warns(DeprecationWarning, match="scalar_twin is now one_node_form"):
        assert mooring.testing.scalar_twin is mooring.testing.one_node_form
    with pytest.raises(AttributeError, match="no attribute 'twin'"):
        mooring.testing.twin  # noqa: B018
    with pytest.warns(DeprecationWarning, match=r"check_conformance\(twin=...\) is now reference"):
        check_conformance(NodeName(), twin=NodeName(), seeds=range(2))
