"""Correct plugins, which tests of the conformance checks break in one way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.framework import Cycle, FilterStatuses, NodeView, Reject
from mooring.testing import check_conformance

FULL = Reject("Too many pods")


def fault_of(plugin: Any, **more: Any) -> str:
    """Returns the violation that check_conformance reports; it must name plugin and pod."""
    with pytest.raises(AssertionError) as caught:
        check_conformance(plugin, **more)
    message = str(caught.value)
    assert message.startswith(f"plugin {plugin.name}, ")
    assert ", pod " in message
    return message


class Base:
    """A correct filter by the number of pods, on columns."""

    name = "Base"

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        return FilterStatuses.reject(nodes.pod_count >= nodes.allowed_pods, FULL)


class Scores:
    """A correct score by the number of pods, on columns."""

    name = "Scores"

    def score(self, cycle: Cycle, nodes: NodeView) -> Any:
        return np.minimum(nodes.pod_count, 100)
