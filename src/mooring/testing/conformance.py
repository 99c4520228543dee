"""Does a plugin keep the contract?

One line in the test of whoever wrote it::

    def test_my_plugin_keeps_the_contract():
        check_conformance(MyPlugin(), twin=MyPluginPerNode())

It runs the plugin over seeded random clusters and raises AssertionError, naming plugin, seed, pod
and node, at the first thing that the framework could not rely on.
"""

from __future__ import annotations

import pickle  # noqa: TID251 - only to show that a state can be pickled; nothing foreign is read
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mooring.clock import Rng, seeded_random
from mooring.framework import Cycle, NodeView, check_plugin
from mooring.framework.runtime.filter import pre_filter
from mooring.framework.runtime.nominated import filter_hypothetical, filter_one
from mooring.framework.status import FilterStatuses, Status
from mooring.objects.codec.decode import encode
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.state import PodInfo
from mooring.state.audit import audit
from mooring.testing.cases import Case, first_difference
from mooring.testing.check_caching import check_sharing
from mooring.testing.harness import Harness
from mooring.testing.random_cluster import random_objects, random_pod

#: Clusters tried if the caller does not say.
SEEDS = range(25)

#: How deep arrays are looked for in a state: an object, its fields, their items.
STATE_DEPTH = 3


def check_conformance(
    plugin: Any,
    *,
    twin: Any | None = None,
    seeds: Iterable[int] = SEEDS,
    objects: Sequence[Node | Pod] | None = None,
    pods: Sequence[Pod] | None = None,
) -> None:
    """Checks signatures, purity, shapes, sharing, worlds and states of ``plugin``.

    Args:
        plugin: The plugin, as it would be given to the framework.
        twin: The same plugin written with ``@per_node``: its answers must be equal.
        seeds: One random cluster and pod each.
        objects: A cluster to use beside the random ones.
        pods: The pods to try on it.

    Raises:
        AssertionError: telling what is wrong, where.
        ConfigError: if the object is no plugin at all.
        TypeError: if there are ``objects``, and no ``pods`` to try on them.
    """
    check_plugin(plugin)
    if twin is not None:
        check_plugin(twin)
    if objects is not None and not pods:
        raise TypeError("objects are given, but no pods to try on them")
    for seed in seeds:
        rng = seeded_random(seed)
        made = random_objects(rng, nodes=rng.choice((0, 1, 5, 9)))
        _check_case(Case(plugin, made, random_pod(rng, "incoming"), f"seed {seed}"), twin, rng)
    for pod in pods or ():
        _check_case(Case(plugin, list(objects or ()), pod, "given"), twin, seeded_random(0))


def _check_case(case: Case, twin: Any | None, rng: Rng) -> None:
    plugin = case.plugin
    seen = [case.pod, *case.objects]
    before = [encode(found) for found in seen]
    harness = Harness(case.objects, [plugin], cache_results=False)
    with case.blaming():
        opened = harness.begin(case.pod)
    cycle, view = opened.cycle, opened.view
    _check_state(case, cycle)
    asks_filter = hasattr(plugin, "filter") and opened.takes_part(plugin)
    if asks_filter:
        _check_filter(case, harness, cycle, view)
        _check_worlds(case, harness, cycle, view, rng)
    if hasattr(plugin, "score") and len(view):
        _check_score(case, harness)
        _check_zeros(case, harness, cycle, view)
    _check_one_node(case, harness, cycle, view, asks_filter=asks_filter)
    if hasattr(plugin, "sign"):
        check_sharing(case, rng)
    if twin is not None:
        _check_twin(case, twin)
    for found, text in zip(seen, before, strict=True):
        kind, name = type(found).__name__.lower(), found.metadata.name
        case.expect(encode(found) == text, f"the plugin changed the {kind} {name}")
    case.expect(not audit(harness.cache), "the plugin changed the cluster")


def _check_state(case: Case, cycle: Cycle) -> None:
    """A plugin's state can be pickled, and owns its arrays.

    A process that explains decisions gets it; a view of a column would change after the decision.
    """
    state = cycle.state_of(case.plugin.name)
    if state is None:
        return
    try:
        pickle.loads(pickle.dumps(state))  # noqa: S301 - bytes made in this line
    except Exception as error:  # objects refuse it in every way
        raise AssertionError(f"{case.where}: the state cannot be pickled: {error}") from error
    for place, array in _arrays(state, "state", STATE_DEPTH):
        case.expect(array.base is None, f"{place} is a view of another array; copy it")


def _arrays(value: Any, place: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Returns the arrays in a state, and where they are."""
    if isinstance(value, np.ndarray):
        yield place, value
        return
    if depth:
        for name, part in _parts(value):
            yield from _arrays(part, place + name, depth - 1)


def _parts(value: Any) -> Iterable[tuple[str, Any]]:
    """Returns the items of a collection, or the fields of an object."""
    if isinstance(value, Mapping):
        return [(f"[{key!r}]", part) for key, part in value.items()]
    fields = [name for kind in type(value).__mro__ for name in _slots(kind)]
    fields += getattr(value, "_fields", ()) or getattr(value, "__dict__", ())
    if not fields and isinstance(value, (tuple, list)):
        return [(f"[{index}]", part) for index, part in enumerate(value)]
    return [(f".{name}", getattr(value, name, None)) for name in fields]


def _slots(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _ask_filter(case: Case, harness: Harness, cycle: Cycle, view: NodeView) -> list[Any]:
    with case.blaming():
        verdicts = filter_one(harness.framework, cycle, case.plugin, view)
    return _statuses(verdicts)


def _statuses(verdicts: FilterStatuses) -> list[Status | None]:
    return [verdicts.table[code - 1] if code else None for code in verdicts.codes.tolist()]


def _check_filter(case: Case, harness: Harness, cycle: Cycle, view: NodeView) -> None:
    """Equal questions get equal answers, of all nodes, of some, of one, of none."""
    first = _ask_filter(case, harness, cycle, view)
    again = _ask_filter(case, harness, cycle, view)
    differs = first_difference(view.names, first, again)
    case.expect(differs is None, f"filter answers differently when asked again: {differs}")
    _ask_filter(case, harness, cycle, view.where(np.zeros(0, dtype=np.intp)))
    orders = [[position] for position in range(len(view))]
    for positions in (*orders, list(reversed(range(len(view))))):
        part = view.where(np.array(positions, dtype=np.intp))
        answers = _ask_filter(case, harness, cycle, part)
        expected = [first[position] for position in positions]
        differs = first_difference(part.names, answers, expected)
        among = "alone" if len(positions) == 1 else "in another order"
        case.expect(differs is None, f"filter says otherwise {among} than among all: {differs}")


def _check_one_node(
    case: Case, harness: Harness, cycle: Cycle, view: NodeView, *, asks_filter: bool
) -> None:
    """What a plugin says of one node in plain ints is what it says of it in columns."""
    plugin, call = case.plugin, harness.framework.call
    scores = None
    if hasattr(plugin, "score") and len(view):
        with case.blaming():
            scores = harness.raw_scores_in(cycle, view, plugin)
        _check_state(case, cycle)
    statuses = _ask_filter(case, harness, cycle, view) if asks_filter else []
    for position, node in enumerate(view):
        if hasattr(plugin, "filter_node") and asks_filter:
            with case.blaming():
                status = call(plugin, "Filter", plugin.filter_node, cycle, node)
            column = statuses[position]
            case.expect(
                status == column, f"filter_node says {status} of {node.name}, filter {column}"
            )
        if hasattr(plugin, "score_node") and scores is not None:
            with case.blaming():
                score = call(plugin, "Score", plugin.score_node, cycle, node)
            column = scores[node.name]
            case.expect(
                type(score) is int and score == column,
                f"score_node says {score!r} of {node.name}, score {column}",
            )


def _check_worlds(case: Case, harness: Harness, cycle: Cycle, view: NodeView, rng: Rng) -> None:
    """A world with a pod more or less is the cluster with that pod more or less."""
    extra = PodInfo(random_pod(rng, "extra"))
    more = view.plus([(extra,)] * len(view))
    restored = _in_worlds(case, harness, cycle, more.without(more.added))
    differs = first_difference(view.names, _in_worlds(case, harness, cycle, view), restored)
    case.expect(
        differs is None, f"adding a pod and removing it changes what filter says: {differs}"
    )
    for position, name in enumerate(view.names):
        world = more.where(np.array([position], dtype=np.intp))
        imagined = _in_worlds(case, harness, cycle, world)
        harness.cache.put_pod(extra.on_node(name).pod)
        truth = _in_truth(case, harness, cycle.pod, name)
        harness.cache.remove_pod(extra.uid)
        _expect_true(case, imagined, truth, f"with one pod more on {name}")
    for position, name in enumerate(view.names):
        placed = harness.cache.pods.on_row(int(view.rows[position]))
        if not placed:
            continue
        victim = placed[0].info
        world = view.where(np.array([position], dtype=np.intp)).without([(victim,)])
        imagined = _in_worlds(case, harness, cycle, world)
        harness.cache.remove_pod(victim.uid)
        truth = _in_truth(case, harness, cycle.pod, name)
        harness.cache.put_pod(victim.pod)
        _expect_true(case, imagined, truth, f"with one pod less on {name}")


def _expect_true(case: Case, imagined: list[Any], truth: list[Any] | None, world: str) -> None:
    case.expect(
        truth is None or imagined == truth,
        f"{world} filter says {imagined}, but {truth} if that is really so",
    )


def _in_truth(case: Case, harness: Harness, pod: PodInfo, node_name: str) -> list[Any] | None:
    """What filter says of the node in an attempt of its own.

    None if pre_filter refuses the whole pod there, which no world can show.
    """
    snapshot = harness.cache.snapshot()
    cycle = harness.framework.new_cycle(pod, snapshot)
    with case.blaming():
        before = pre_filter(harness.framework, cycle)
    if before.status is not None:
        return None
    rows = np.array([snapshot.nodes.row(node_name)], dtype=np.intp)
    return _in_worlds(case, harness, cycle, NodeView(snapshot, rows))


def _in_worlds(case: Case, harness: Harness, cycle: Cycle, view: NodeView) -> list[Any]:
    if case.plugin.name in cycle.skipped:
        return [None] * len(view)
    with case.blaming():
        results = filter_hypothetical(harness.framework, cycle, view)
    return [status for _, verdicts in results for status in _statuses(verdicts)]


def _check_score(case: Case, harness: Harness) -> None:
    with case.blaming():
        first, again = (harness.scores(case.pod, case.plugin) for _ in range(2))
    case.expect(
        first == again, f"score answers differently when asked again: {first}, then {again}"
    )


def _check_zeros(case: Case, harness: Harness, cycle: Cycle, view: NodeView) -> None:
    """What the plugin says of nothing but zeros is what normalize makes of them."""
    told = getattr(case.plugin, "normalized_zero", None)
    if told is None:
        return
    zeros = np.zeros(len(view), dtype=np.int64)
    with case.blaming():
        call = harness.framework.call
        scores = call(case.plugin, "NormalizeScore", case.plugin.normalize, cycle, zeros, view)
    case.expect(
        scores.tolist() == [told] * len(view),
        f"normalized_zero is {told!r}, but normalize makes {scores.tolist()} of zeros",
    )


def _check_twin(case: Case, twin: Any) -> None:
    """The plugin and its ``@per_node`` form agree on every node."""
    ours = Harness(case.objects, [case.plugin], cache_results=False)
    theirs = Harness(case.objects, [twin], cache_results=False)
    if hasattr(case.plugin, "filter"):
        with case.blaming():
            left, right = ours.statuses(case.pod), theirs.statuses(case.pod)
        unsigned = [[status and status[:2] for status in each.values()] for each in (left, right)]
        differs = first_difference(list(left), *unsigned)
        case.expect(differs is None, f"filter and its twin differ: {differs}")
    if hasattr(case.plugin, "score") and len(ours.cache.nodes):
        with case.blaming():
            scores = ours.raw_scores(case.pod), theirs.raw_scores(case.pod)
        _check_twin_scores(case, *scores)


def _check_twin_scores(
    case: Case, left: dict[str, int] | None, right: dict[str, int] | None
) -> None:
    """A plugin that skips scoring may have a twin that gives every node the same."""
    if left is None or right is None:
        values = {*(left or {}).values(), *(right or {}).values()}
        case.expect(
            len(values) <= 1, f"one of score and its twin skips the pod: {left}, and {right}"
        )
        return
    differs = first_difference(list(left), list(left.values()), list(right.values()))
    case.expect(differs is None, f"score and its twin differ: {differs}")
