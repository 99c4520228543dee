"""Results of a wrong type or shape from Filter and Score, each of which fails the pod."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from mooring.clock import Rng
from mooring.errors import PluginError
from mooring.framework import Attempt, Framework
from mooring.framework.runtime.scheduling_algorithm import schedule_pod
from mooring.framework.status import FilterStatuses
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import make_node, make_pod
from tests.faults.parts.points_plugins import VALUES, DrawnPlugins
from tests.faults.parts.timed_points import OF_NODES

SCORES: Final = (
    "nonsense",
    [1, 2],
    None,
    np.zeros(99, dtype=np.int64),
    np.zeros((1, 2), dtype=np.int64),
)
#: Method -> what it must not return.
WRONG: Final[Mapping[str, Sequence[Any]]] = {
    "filter": ("nonsense", None, [None], FilterStatuses.of([None] * 99)),
    "filter_node": ("nonsense", 7, False),
    "score": SCORES,
    "score_node": ("7", 1.5, None),
    "normalize": SCORES,
}
OTHER_TYPES: Final = (np.float64, np.int32)


def wrong_result_problems(
    rng: Rng, framework: Framework, plugins: DrawnPlugins, cache: Cache, kinds: Sequence[str]
) -> Iterator[str]:
    """Lets each method of each plugin return something wrong; yields what is not noticed."""
    calls = plugins.calls
    methods = [(it, name) for it in plugins.all for name in WRONG if hasattr(it, name)]
    for number, (plugin, name) in enumerate(methods):
        kind = rng.choice(kinds)
        plugins.begin(kind, -number)
        if name in OF_NODES:  # they are called for the few nodes that have changed since
            _failed_plugin(framework, cache, kind, f"before-{number}")
        nodes = list(plugins.values)
        for node in nodes[:1] if name in OF_NODES else nodes:
            value = plugins.values[node] = rng.choice(VALUES)
            cache.put_node(make_node(node, labels={"value": value}))
        calls.wrong = plugin.name, name, rng.choice(WRONG[name])
        if name in ("score", "normalize") and rng.random() < 0.3:
            dtype = rng.choice(OTHER_TYPES)
            calls.wrong = plugin.name, name, np.zeros(len(plugins.values), dtype=dtype)
        failed = _failed_plugin(framework, cache, kind, f"wrong-{number}")
        if calls.n_wrong and failed != plugin.name:
            yield f"{calls.wrong} is returned, but the failed plugin is {failed!r}"
        calls.wrong, calls.n_wrong = None, 0


def _failed_plugin(framework: Framework, cache: Cache, kind: str, name: str) -> str:
    """Tries a pod; returns the plugin that fails, "" if none does."""
    pod = PodInfo(make_pod(name, uid=name, labels={"kind": kind}))
    snapshot = cache.snapshot()
    try:
        schedule_pod(framework, framework.new_cycle(pod, snapshot), Attempt(snapshot))
    except PluginError as error:
        return error.plugin
    return ""
