"""The names that plugin authors used before keep working for one release, with a warning."""

from __future__ import annotations

import importlib
import sys

import pytest

import mooring
import mooring.framework
from mooring.deprecated import MODULES, NAMES
from mooring.framework import check_plugin


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
