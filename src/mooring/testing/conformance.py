"""Does a plugin keep the contract?

One line in the test of whoever wrote it::

    def test_my_plugin_keeps_the_contract():
        check_conformance(MyPlugin(), twin=MyPluginPerNode())

It runs the plugin over seeded random clusters and raises AssertionError, naming seed, pod and node,
at the first thing that the framework could not rely on.
"""

from __future__ import annotations

import pickle  # noqa: TID251 - only to show that a state can be pickled; nothing foreign is read
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from mooring.clock import Rng, seeded_random
from mooring.errors import PluginError
from mooring.framework import Cycle, NodeView, check_plugin
from mooring.framework.verdict import Verdicts
from mooring.framework.worlds import filter_worlds
from mooring.objects.decode import encode
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.state import PodInfo
from mooring.testing.harness import Harness
from mooring.testing.random_cluster import random_objects, random_pod

#: Clusters tried if the caller does not say.
SEEDS = range(25)


def check_conformance(
    plugin: Any,
    *,
    twin: Any | None = None,
    seeds: Iterable[int] = SEEDS,
    objects: Sequence[Node | Pod] | None = None,
    pods: Sequence[Pod] | None = None,
) -> None:
    """Check signatures, purity, shapes, sharing, worlds and states of ``plugin``.

    Args:
        plugin: The plugin, as it would be given to the framework.
        twin: The same plugin written with ``@per_node``: its answers must be equal.
        seeds: One random cluster and pod each.
        objects: A cluster to use beside the random ones.
        pods: The pods to try on it.

    Raises:
        AssertionError: telling what is wrong, where.
        ConfigError: if the object is no plugin at all.
    """
    check_plugin(plugin)
    if twin is not None:
        check_plugin(twin)
    for seed in seeds:
        rng = seeded_random(seed)
        made = random_objects(rng, nodes=rng.choice((0, 1, 5, 9)))
        _check_case(plugin, twin, made, random_pod(rng, "incoming"), f"seed {seed}", rng)
    for pod in pods or ():
        _check_case(plugin, twin, objects or (), pod, f"pod {pod.metadata.name}", seeded_random(0))


def _check_case(
    plugin: Any, twin: Any | None, objects: Iterable[Node | Pod], pod: Pod, where: str, rng: Rng
) -> None:
    harness = Harness(objects, [plugin], share_answers=False)
    before = encode(pod)
    cycle, view = _open(harness, pod, where)
    if hasattr(plugin, "filter") and plugin.name not in cycle.skipped:
        _check_filter(harness, cycle, view, plugin, where)
        _check_worlds(harness, cycle, view, plugin, where, rng)
    if hasattr(plugin, "score") and len(view):
        _check_score(harness, pod, plugin, where)
    if len(view):
        _check_one_node(harness, cycle, view, plugin, where)
    if hasattr(plugin, "sign"):
        _check_sign(plugin, pod, where)
    if twin is not None:
        _check_twin(plugin, twin, objects, pod, where)
    assert encode(pod) == before, f"{where}: the plugin changed the pod"


def _open(harness: Harness, pod: Pod, where: str) -> tuple[Cycle, NodeView]:
    try:
        cycle, view = harness.open(pod)
    except PluginError as error:
        raise AssertionError(f"{where}: {error}") from error
    _check_state(cycle, harness.plugins[0], where)
    return cycle, view


def _check_state(cycle: Cycle, plugin: Any, where: str) -> None:
    """A plugin's state can be pickled, and owns its arrays.

    A process that explains decisions gets it; a view of a column would change after the decision.
    """
    state = cycle.state_of(plugin.name)
    if state is None:
        return
    try:
        pickle.loads(pickle.dumps(state))  # noqa: S301 - bytes made in this line
    except Exception as error:
        raise AssertionError(f"{where}: the state cannot be pickled: {error}") from error
    for name, value in _attributes(state):
        is_view = isinstance(value, np.ndarray) and value.base is not None
        assert not is_view, f"{where}: state.{name} is a view of another array; copy it"


def _attributes(state: Any) -> Iterable[tuple[str, Any]]:
    names = getattr(type(state), "__slots__", None) or getattr(state, "__dict__", {})
    return [(name, getattr(state, name, None)) for name in names]


def _ask_filter(
    harness: Harness, cycle: Cycle, view: NodeView, plugin: Any, where: str
) -> Verdicts:
    try:
        verdicts = harness.framework.call(plugin, "Filter", plugin.filter, cycle, view)
        assert isinstance(verdicts, Verdicts), f"{where}: filter returned {verdicts!r}"
        return verdicts.checked(plugin.name, len(view))
    except PluginError as error:
        raise AssertionError(f"{where}: {error}") from error


def _statuses(verdicts: Verdicts) -> list[Any]:
    return [verdicts.table[code - 1] if code else None for code in verdicts.codes.tolist()]


def _check_filter(harness: Harness, cycle: Cycle, view: NodeView, plugin: Any, where: str) -> None:
    """Equal questions get equal answers, of all nodes, of some, of one, of none."""
    first = _statuses(_ask_filter(harness, cycle, view, plugin, where))
    again = _statuses(_ask_filter(harness, cycle, view, plugin, where))
    assert first == again, f"{where}: filter answers differently when asked again"
    for rows in ([], *([position] for position in range(len(view)))):
        part = view.where(np.array(rows, dtype=np.intp))
        answers = _statuses(_ask_filter(harness, cycle, part, plugin, where))
        expected = [first[position] for position in rows]
        assert answers == expected, (
            f"{where}: filter says {answers} of {part.names} alone, {expected} among all nodes"
        )


def _check_one_node(
    harness: Harness, cycle: Cycle, view: NodeView, plugin: Any, where: str
) -> None:
    """What a plugin says of one node in plain ints is what it says of it in columns."""
    scores = harness.raw_scores_in(cycle, view, plugin) if hasattr(plugin, "score") else None
    _check_state(cycle, plugin, where)
    for position, node in enumerate(view):
        one = view.where(np.array([position], dtype=np.intp))
        if hasattr(plugin, "filter_node") and plugin.name not in cycle.skipped:
            status = plugin.filter_node(cycle, node)
            (column,) = _statuses(_ask_filter(harness, cycle, one, plugin, where))
            assert status == column, (
                f"{where}: filter_node says {status} of {node.name}, filter {column}"
            )
        if hasattr(plugin, "score_node") and scores is not None:
            score = plugin.score_node(cycle, node)
            assert score == scores[node.name], (
                f"{where}: score_node says {score} of {node.name}, score {scores[node.name]}"
            )


def _check_worlds(
    harness: Harness, cycle: Cycle, view: NodeView, plugin: Any, where: str, rng: Rng
) -> None:
    """A world with a pod more equals a cluster with that pod; taken away again, nothing is left."""
    if not len(view):
        return
    extra = PodInfo(random_pod(rng, "extra"))
    with_extra = view.plus([(extra,)] * len(view))
    and_back = with_extra.without([(extra,)] * len(view))
    plain = _in_worlds(harness, cycle, view, where)
    restored = _in_worlds(harness, cycle, and_back, where)
    assert plain == restored, f"{where}: adding a pod and removing it changes what filter says"
    pods_before = len(harness.cache.pods)
    for position, name in enumerate(view.names):
        moved = extra.on_node(name)
        harness.cache.put_pod(moved.pod)
        snapshot = harness.cache.snapshot()
        fresh = harness.framework.open(cycle.pod, snapshot)
        fresh.open_for(plugin.name)
        if hasattr(plugin, "pre_filter"):
            plugin.pre_filter(fresh)
        rows = view.rows[position : position + 1]
        truth = _in_worlds(harness, fresh, NodeView(snapshot, rows), where)
        harness.cache.remove_pod(extra.uid)
        world = with_extra.where(np.array([position], dtype=np.intp))
        imagined = _in_worlds(harness, cycle, world, where)
        assert imagined == truth, (
            f"{where}: with one pod more on {name} filter says {imagined}, "
            f"but {truth} if that pod is really there"
        )
    assert len(harness.cache.pods) == pods_before


def _in_worlds(harness: Harness, cycle: Cycle, view: NodeView, where: str) -> list[Any]:
    try:
        results = filter_worlds(harness.framework, cycle, view)
    except PluginError as error:
        raise AssertionError(f"{where}: {error}") from error
    return [status for _, verdicts in results for status in _statuses(verdicts)]


def _check_score(harness: Harness, pod: Pod, plugin: Any, where: str) -> None:
    try:
        first, again = harness.scores(pod, plugin), harness.scores(pod, plugin)
    except PluginError as error:
        raise AssertionError(f"{where}: {error}") from error
    assert first == again, f"{where}: score answers differently when asked again"


def _check_sign(plugin: Any, pod: Pod, where: str) -> None:
    """``sign`` is hashable and the same for a pod that differs in name and UID alone."""
    fragment = plugin.sign(PodInfo(pod))
    assert isinstance(fragment, Hashable), f"{where}: sign returned {fragment!r}, not hashable"
    hash(fragment)
    assert plugin.sign(PodInfo(pod)) == fragment, f"{where}: sign differs for the same pod"


def _check_twin(
    plugin: Any, twin: Any, objects: Iterable[Node | Pod], pod: Pod, where: str
) -> None:
    """The plugin and its ``@per_node`` form agree on every node."""
    objects = list(objects)
    ours = Harness(objects, [plugin], share_answers=False)
    theirs = Harness(objects, [twin], share_answers=False)
    if hasattr(plugin, "filter"):
        assert ours.statuses(pod) == theirs.statuses(pod), f"{where}: filter and its twin differ"
    if hasattr(plugin, "score") and len(ours.cache.nodes):
        left, right = ours.raw_scores(pod), theirs.raw_scores(pod)
        if left is not None and right is not None:
            assert left == right, f"{where}: score and its twin differ: {left}, {right}"
