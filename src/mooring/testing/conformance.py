"""Checks that a plugin meets the framework's contract.

Usage in a plugin's test::

    def test_my_plugin_keeps_the_contract():
        check_conformance(MyPlugin(), reference=MyPluginPerNode())

It runs the plugin on seeded random clusters and raises AssertionError with plugin, seed, pod and
node at the first violation.
"""

from __future__ import annotations

import pickle  # noqa: TID251 - only to show that a state can be pickled; nothing foreign is read
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mooring import deprecated
from mooring.clock import Rng, seeded_random
from mooring.framework import SKIP, Cycle, NodeView, check_plugin
from mooring.framework.runtime.filter import pre_filter
from mooring.framework.runtime.nominated import filter_hypothetical, filter_one
from mooring.objects.codec.decode import encode
from mooring.objects.meta import KubernetesObject
from mooring.objects.pod import Pod
from mooring.state import PodInfo
from mooring.state.audit import audit
from mooring.testing.cases import Case, first_difference
from mooring.testing.check_binding import check_binding
from mooring.testing.check_caching import check_caching
from mooring.testing.harness import Harness
from mooring.testing.random_cluster import random_objects, random_pod

#: Default seeds of the random clusters.
SEEDS = range(25)

#: Depth of the search for arrays in a state: an object, its fields, their items.
STATE_DEPTH = 3


def check_conformance(
    plugin: Any,
    *,
    reference: Any | None = None,
    seeds: Iterable[int] = SEEDS,
    objects: Sequence[KubernetesObject] | None = None,
    pods: Sequence[Pod] | None = None,
    twin: Any | None = None,
) -> None:
    """Checks signatures, purity, shapes, caching, hypothetical nodes and states of ``plugin``.

    Reserve, Unreserve and Permit are checked with several pods, one after the other, also with
    their callbacks and waiting pods; the pods of ``objects`` are all of ``pods``. Not checked are
    PostFilter, PreBind, Bind, PostBind, events and background tasks.

    Args:
        plugin: The plugin object; or its class, or a function that returns it: each random cluster
            gets a new plugin then, with a ``handle`` on virtual time if it takes one.
        reference: The same plugin written with ``@per_node``; its results must be equal.
        seeds: Each gives a random cluster and pod.
        objects: A cluster to use in addition to the random ones.
        pods: The pods for ``objects``.
        twin: The old name of ``reference``.

    Raises:
        AssertionError: with the violation.
        ConfigError: if the object is no plugin.
        TypeError: if there are ``objects`` but no ``pods``.
    """
    if twin is not None:
        deprecated.warn("check_conformance(twin=...)", "reference=...", stacklevel=2)
        reference = twin
    check_plugin(_harness_of(plugin, []).plugins[0])
    if reference is not None:
        check_plugin(reference)
    if objects is not None and not pods:
        raise TypeError("objects without pods")
    for seed in seeds:
        rng = seeded_random(seed)
        random = random_objects(rng, nodes=rng.choice((0, 1, 5, 9)))
        harness = _harness_of(plugin, random)
        case = Case(harness.plugins[0], random, random_pod(rng, "incoming"), f"seed {seed}")
        _check_case(case, harness, reference, rng)
        check_binding(case, plugin, [random_pod(rng, f"incoming-{n}") for n in (2, 3)])
    for pod in pods or ():
        harness = _harness_of(plugin, objects or ())
        case = Case(harness.plugins[0], list(objects or ()), pod, "objects")
        _check_case(case, harness, reference, seeded_random(0))
        check_binding(case, plugin, [other for other in pods or () if other is not pod])


def _harness_of(target: Any, objects: Sequence[KubernetesObject]) -> Harness:
    """Returns a cluster with the plugin, or with a new one whose handle reads this cluster."""
    return Harness(objects, [target], cache_results=False)


def _check_case(case: Case, harness: Harness, reference: Any | None, rng: Rng) -> None:
    plugin = case.plugin
    objects = [case.pod, *case.objects]
    before = [encode(obj) for obj in objects]
    with case.plugin_errors_as_failures():
        attempt = harness.begin(case.pod)
    cycle, view = attempt.cycle, attempt.view
    _check_state(case, cycle)
    runs_filter = hasattr(plugin, "filter") and attempt.takes_part(plugin)
    if runs_filter:
        _check_filter(case, harness, cycle, view)
        _check_hypothetical_nodes(case, harness, cycle, view, rng)
    if hasattr(plugin, "score") and len(view):
        _check_score(case, harness)
        _check_zeros(case, harness, cycle, view)
    _check_one_node(case, harness, cycle, view, runs_filter=runs_filter)
    if hasattr(plugin, "applies_to") and not plugin.applies_to(PodInfo(case.pod)):
        _check_idle(case, cycle, view)
    if hasattr(plugin, "sign"):
        check_caching(case, rng)
    if reference is not None:
        _check_reference(case, reference)
    for obj, text in zip(objects, before, strict=True):
        kind, name = type(obj).__name__.lower(), obj.metadata.name
        case.expect(encode(obj) == text, f"the plugin changed the {kind} {name}")
    case.expect(not audit(harness.cache), "the plugin changed the cluster")


def _check_idle(case: Case, cycle: Cycle, view: NodeView) -> None:
    """Checks that a plugin skips a pod to which, as it says, it does not apply."""
    plugin = case.plugin
    arguments = {
        "pre_filter": (cycle,),
        "pre_score": (cycle, view),
        "pre_bind_pre_flight": (cycle, "node"),
    }
    for method, values in arguments.items():
        if hasattr(plugin, method):
            cycle.writer = plugin.name
            result = getattr(plugin, method)(*values)
            cycle.writer = None
            problem = f"applies_to returns False, but {method} returns {result!r}, not SKIP"
            case.expect(result is SKIP, problem)
    state, idle_state = cycle.state_of(plugin.name), getattr(plugin, "idle_state", None)
    case.expect(
        state == idle_state or not hasattr(plugin, "pre_filter"),
        f"applies_to returns False, but pre_filter stores {state!r}, not idle_state {idle_state!r}",
    )
    if hasattr(plugin, "score") and not hasattr(plugin, "pre_score") and len(view):
        scores = plugin.score(cycle, view)
        if hasattr(plugin, "normalize"):
            scores = plugin.normalize(cycle, scores, view)
        case.expect(not scores.any(), "applies_to returns False, but a score is not 0")


def _check_state(case: Case, cycle: Cycle) -> None:
    """Checks that a plugin's state can be pickled and owns its arrays.

    Other processes may explain decisions; a view of a column would change after the decision.
    """
    state = cycle.state_of(case.plugin.name)
    if state is None:
        return
    try:
        pickle.loads(pickle.dumps(state))  # noqa: S301 - bytes made in this line
    except Exception as error:  # objects may raise anything
        raise AssertionError(f"{case.where}: the state cannot be pickled: {error}") from error
    for place, array in _arrays(state, "state", STATE_DEPTH):
        case.expect(array.base is None, f"{place} is a view of another array; copy it")


def _arrays(value: Any, place: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Yields (path, array) for each array in a state."""
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


def _run_filter(case: Case, harness: Harness, cycle: Cycle, view: NodeView) -> list[Any]:
    with case.plugin_errors_as_failures():
        return filter_one(harness.framework, cycle, case.plugin, view).to_list()


def _check_filter(case: Case, harness: Harness, cycle: Cycle, view: NodeView) -> None:
    """Checks that repeated calls give equal results, for all nodes, one, some and none."""
    first = _run_filter(case, harness, cycle, view)
    second = _run_filter(case, harness, cycle, view)
    differs = first_difference(view.names, first, second)
    case.expect(differs is None, f"filter is not deterministic: {differs}")
    _run_filter(case, harness, cycle, view.subset(np.zeros(0, dtype=np.intp)))
    orders = [[position] for position in range(len(view))]
    for positions in (*orders, list(reversed(range(len(view))))):
        part = view.subset(np.array(positions, dtype=np.intp))
        results = _run_filter(case, harness, cycle, part)
        expected = [first[position] for position in positions]
        differs = first_difference(part.names, results, expected)
        among = "alone" if len(positions) == 1 else "in another order"
        case.expect(differs is None, f"filter gives another result {among}: {differs}")


def _check_one_node(
    case: Case, harness: Harness, cycle: Cycle, view: NodeView, *, runs_filter: bool
) -> None:
    """Checks that filter_node and score_node give the same results as filter and score."""
    plugin, call = case.plugin, harness.framework.call
    scores = None
    if hasattr(plugin, "score") and len(view):
        with case.plugin_errors_as_failures():
            scores = harness.raw_scores_in(cycle, view, plugin)
        _check_state(case, cycle)
    statuses = _run_filter(case, harness, cycle, view) if runs_filter else []
    for position, node in enumerate(view):
        if hasattr(plugin, "filter_node") and runs_filter:
            with case.plugin_errors_as_failures():
                status = call(plugin, "Filter", plugin.filter_node, cycle, node)
            column = statuses[position]
            case.expect(
                status == column, f"filter_node gives {status} for {node.name}, filter {column}"
            )
        if hasattr(plugin, "score_node") and scores is not None:
            with case.plugin_errors_as_failures():
                score = call(plugin, "Score", plugin.score_node, cycle, node)
            column = scores[node.name]
            case.expect(
                type(score) is int and score == column,
                f"score_node gives {score!r} for {node.name}, score {column}",
            )


def _check_hypothetical_nodes(
    case: Case, harness: Harness, cycle: Cycle, view: NodeView, rng: Rng
) -> None:
    """Checks that a hypothetical node gets the result of a real one with the same pods."""
    extra = PodInfo(random_pod(rng, "extra"))
    with_extra = view.plus([(extra,)] * len(view))
    restored = _filter_hypothetical(case, harness, cycle, with_extra.without(with_extra.added))
    differs = first_difference(
        view.names, _filter_hypothetical(case, harness, cycle, view), restored
    )
    case.expect(
        differs is None, f"adding and removing a pod changes the result of filter: {differs}"
    )
    for position, name in enumerate(view.names):
        variant = with_extra.subset(np.array([position], dtype=np.intp))
        hypothetical = _filter_hypothetical(case, harness, cycle, variant)
        harness.cache.put_pod(extra.on_node(name).pod)
        real = _filter_real(case, harness, cycle.pod, name)
        harness.cache.remove_pod(extra.uid)
        _expect_equal(case, hypothetical, real, f"with a pod added to {name}")
    for position, name in enumerate(view.names):
        placed = harness.cache.pods.on_row(int(view.rows[position]))
        if not placed:
            continue
        victim = placed[0].info
        variant = view.subset(np.array([position], dtype=np.intp)).without([(victim,)])
        hypothetical = _filter_hypothetical(case, harness, cycle, variant)
        harness.cache.remove_pod(victim.uid)
        real = _filter_real(case, harness, cycle.pod, name)
        harness.cache.put_pod(victim.pod)
        _expect_equal(case, hypothetical, real, f"with a pod removed from {name}")


def _expect_equal(case: Case, hypothetical: list[Any], real: list[Any] | None, change: str) -> None:
    case.expect(
        real is None or hypothetical == real,
        f"{change} filter gives {hypothetical} for the hypothetical node, {real} for the real one",
    )


def _filter_real(case: Case, harness: Harness, pod: PodInfo, node_name: str) -> list[Any] | None:
    """Returns the results of filter in a separate attempt.

    None if pre_filter rejects the pod, which has no equivalent on a hypothetical node.
    """
    snapshot = harness.cache.snapshot()
    cycle = harness.framework.new_cycle(pod, snapshot)
    with case.plugin_errors_as_failures():
        pre_filtered = pre_filter(harness.framework, cycle)
    if pre_filtered.status is not None:
        return None
    rows = np.array([snapshot.nodes.row(node_name)], dtype=np.intp)
    return _filter_hypothetical(case, harness, cycle, NodeView(snapshot, rows))


def _filter_hypothetical(case: Case, harness: Harness, cycle: Cycle, view: NodeView) -> list[Any]:
    if case.plugin.name in cycle.skipped:
        return [None] * len(view)
    with case.plugin_errors_as_failures():
        results = filter_hypothetical(harness.framework, cycle, view)
    return [status for _, statuses in results for status in statuses.to_list()]


def _check_score(case: Case, harness: Harness) -> None:
    with case.plugin_errors_as_failures():
        first, second = (harness.scores(case.pod, case.plugin) for _ in range(2))
    case.expect(first == second, f"score is not deterministic: {first}, then {second}")


def _check_zeros(case: Case, harness: Harness, cycle: Cycle, view: NodeView) -> None:
    """Checks that normalize returns ``normalized_zero`` for scores that are all zero."""
    normalized_zero = getattr(case.plugin, "normalized_zero", None)
    if normalized_zero is None:
        return
    zeros = np.zeros(len(view), dtype=np.int64)
    with case.plugin_errors_as_failures():
        call = harness.framework.call
        scores = call(case.plugin, "NormalizeScore", case.plugin.normalize, cycle, zeros, view)
    case.expect(
        scores.tolist() == [normalized_zero] * len(view),
        f"normalized_zero is {normalized_zero!r}, "
        f"but normalize returns {scores.tolist()} for zeros",
    )


def _check_reference(case: Case, reference: Any) -> None:
    """Checks that the plugin and its reference have equal results for every node."""
    ours = Harness(case.objects, [case.plugin], cache_results=False)
    theirs = Harness(case.objects, [reference], cache_results=False)
    if hasattr(case.plugin, "filter"):
        with case.plugin_errors_as_failures():
            left, right = ours.statuses(case.pod), theirs.statuses(case.pod)
        unsigned = [
            [status and status[:2] for status in statuses.values()] for statuses in (left, right)
        ]
        differs = first_difference(list(left), *unsigned)
        case.expect(differs is None, f"filter and its reference differ: {differs}")
    if hasattr(case.plugin, "score") and len(ours.cache.nodes):
        with case.plugin_errors_as_failures():
            scores = ours.raw_scores(case.pod), theirs.raw_scores(case.pod)
        _check_reference_scores(case, *scores)


def _check_reference_scores(
    case: Case, left: dict[str, int] | None, right: dict[str, int] | None
) -> None:
    """Compares scores; a skipped Score equals the same score for every node."""
    if left is None or right is None:
        values = {*(left or {}).values(), *(right or {}).values()}
        case.expect(
            len(values) <= 1, f"either score or its reference skips the pod: {left}, and {right}"
        )
        return
    differs = first_difference(list(left), list(left.values()), list(right.values()))
    case.expect(differs is None, f"score and its reference differ: {differs}")
