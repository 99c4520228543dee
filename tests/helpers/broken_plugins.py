"""What the tests of the conformance kit share: plugins without a fault, to break one thing in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.framework import Cycle, FilterStatuses, NodeView, Reject
from mooring.testing import check_conformance

FULL = Reject("Too many pods")


def fault_of(plugin: Any, **more: Any) -> str:
    """What the kit says against a plugin; it always names the plugin and where it looked."""
    with pytest.raises(AssertionError) as caught:
        check_conformance(plugin, **more)
    told = str(caught.value)
    assert told.startswith(f"plugin {plugin.name}, ")
    assert ", pod " in told
    return told


class Base:
    """A filter by the number of pods, in columns and without a fault."""

    name = "Base"

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        return FilterStatuses.reject(nodes.pod_count >= nodes.allowed_pods, FULL)


class Scores:
    """A score by the number of pods, in columns and without a fault."""

    name = "Scores"

    def score(self, cycle: Cycle, nodes: NodeView) -> Any:
        return np.minimum(nodes.pod_count, 100)
