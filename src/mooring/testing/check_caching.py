"""Checks that the framework may cache a plugin's results, as ``sign`` and ``reads`` promise.

A wrong cached result is not noticed: a pod gets the result of another pod, or one from before a
node changed. So each promise is checked separately, to name the broken one, and at the end all of
them together, as the framework uses them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import partial, reduce
from operator import or_
from typing import Any

from msgspec.structs import replace

from mooring.clock import Rng
from mooring.framework import NodeView
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.state import PodInfo
from mooring.state.columns.change_log import Change
from mooring.testing.cases import Case, first_difference
from mooring.testing.harness import Harness
from mooring.testing.random_cluster import random_node, random_pod

#: The parts of a pod's spec that plugins read; each is replaced by another pod's, one at a time.
SPEC_PARTS = (
    "containers",
    "init_containers",
    "overhead",
    "node_selector",
    "affinity",
    "tolerations",
    "priority",
)

#: A change of the cluster, with its description.
Step = tuple[str, Callable[[], None]]


def check_caching(case: Case, rng: Rng) -> None:
    """Checks ``sign`` and, if the plugin has it, ``reads``.

    Raises:
        AssertionError: with the broken promise.
    """
    signature = _sign(case, case.pod)
    case.expect(signature == _sign(case, case.pod), "sign differs for the same pod")
    renamed = _renamed(case.pod)
    case.expect(
        signature == _sign(case, renamed),
        "sign differs for a pod with another name and UID, so no result is ever reused",
    )
    if signature is None or not hasattr(case.plugin, "reads"):
        return
    _check_each_node_alone(case)
    _check_sign(case, signature, rng)
    _check_reads(case, rng)
    _check_amounts_only(case)
    _check_combined(case, renamed, rng)


def _sign(case: Case, pod: Pod) -> Hashable | None:
    signature = case.plugin.sign(PodInfo(pod))
    try:
        hash(signature)
    except TypeError:
        case.expect(False, f"sign returned {signature!r}, which is not hashable")
    return signature  # type: ignore[no-any-return]  # hashed just now


def _renamed(pod: Pod) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, name="renamed", uid="pod-default-renamed"))


def _results(case: Case, harness: Harness, pod: Pod) -> dict[str, tuple[Any, Any]]:
    """Returns node -> (status, raw score), without caching."""
    plugin = case.plugin
    names = harness.begin(pod).view.names
    statuses = harness.statuses(pod, plugin) if hasattr(plugin, "filter") else {}
    scores = harness.raw_scores(pod, plugin) if names and hasattr(plugin, "score") else None
    return {name: (statuses.get(name), (scores or {}).get(name)) for name in names}


def _check_each_node_alone(case: Case) -> None:
    """Checks that a raw score depends on its node alone, not on the other feasible nodes."""
    plugin = case.plugin
    if not hasattr(plugin, "score"):
        return
    harness = Harness(case.objects, [plugin], cache_results=False)
    attempt = harness.begin(case.pod)
    if not len(attempt.view):
        return
    with case.plugin_errors_as_failures():
        among_all = harness.raw_scores_in(attempt.cycle, attempt.view, plugin)
        for position, name in enumerate(attempt.view.names):
            single_node = NodeView(
                attempt.view.snapshot, attempt.view.rows[position : position + 1]
            )
            alone = harness.raw_scores_in(attempt.cycle, single_node, plugin)
            expected = among_all and {name: among_all[name]}
            case.expect(
                alone == expected,
                f"score returns {alone} for {name} alone, {expected} among all nodes: with reads, "
                "it may depend on that node only",
            )


def _check_sign(case: Case, signature: Hashable, rng: Rng) -> None:
    """Checks that pods with equal signatures get equal results."""
    harness = Harness(case.objects, [case.plugin], cache_results=False)
    expected = _results(case, harness, case.pod)
    for part, pod in _pod_variants(case.pod, rng):
        if _sign(case, pod) != signature:
            continue
        with case.plugin_errors_as_failures():
            results = _results(case, harness, pod)
        differs = first_difference(list(expected), list(expected.values()), list(results.values()))
        case.expect(
            differs is None,
            f"sign is the same for a pod with another {part}, but (status, score) differ: "
            f"{differs}",
        )


def _pod_variants(pod: Pod, rng: Rng) -> Iterator[tuple[str, Pod]]:
    """Yields (name of the part, the pod with that part replaced)."""
    donor = random_pod(rng, "donor")
    for part in SPEC_PARTS:
        spec = replace(pod.spec, **{part: getattr(donor.spec, part)})
        yield f"spec.{part}", replace(pod, spec=spec)
    yield "spec.node_name", replace(pod, spec=replace(pod.spec, node_name="node-0"))
    for part, value in (
        ("labels", {"app": "other", "tier": "other"}),
        ("annotations", {"example.com/note": "other"}),
        ("namespace", "other"),
    ):
        yield part, replace(pod, metadata=replace(pod.metadata, **{part: value}))


def _check_reads(case: Case, rng: Rng) -> None:
    """Checks that only changes in ``reads`` or ``reads_other_nodes`` change a result."""
    plugin = case.plugin
    harness = Harness(case.objects, [plugin], cache_results=False)
    reads_other_nodes = getattr(plugin, "reads_other_nodes", Change(0))
    nodes, log = harness.cache.nodes, harness.cache.nodes.log
    before = _results(case, harness, case.pod)
    for description, change in _changes(harness, rng):
        generation = log.generation
        change()
        rows, kinds = log.since(generation) or ((), ())
        changed = {nodes.names[row] for row in rows}
        kind = Change(reduce(or_, map(int, kinds), 0))
        with case.plugin_errors_as_failures():
            after = _results(case, harness, case.pod)
        for name in sorted(before.keys() & after.keys()):
            if before[name] == after[name] or kind & reads_other_nodes:
                continue
            is_own = name in changed
            is_declared = is_own and bool(kind & (plugin.reads | Change.EXISTENCE))
            case.expect(
                is_declared,
                f"(status, score) of {name} {before[name]} becomes {after[name]} when "
                f"{description}, but {'reads' if is_own else 'reads_other_nodes'} has no {kind!r}",
            )
        before = after


def _check_amounts_only(case: Case) -> None:
    """Checks that nodes with equal amounts, but other names, labels and pods, get equal results."""
    plugin = case.plugin
    if not getattr(plugin, "amounts_only", False):
        return
    harness = Harness(case.objects, [plugin], cache_results=False)
    cache = harness.cache
    twins = {}
    for row in [*cache.nodes.order.rows()]:
        node = cache.nodes.node(row)
        twin = twins[node.metadata.name] = f"{node.metadata.name}-twin"
        metadata = replace(node.metadata, name=twin, labels={}, annotations={})
        cache.put_node(replace(node, metadata=metadata))
        for number, placed in enumerate([*cache.pods.on_row(row)]):
            cache.put_pod(_twin_pod(placed.info.pod, twin, number))
    with case.plugin_errors_as_failures():
        results = _results(case, harness, case.pod)
    for name, twin in twins.items():
        if name in results and twin in results:
            case.expect(
                results[name] == results[twin],
                f"(status, score) of {name} {results[name]}, of {twin} with the same amounts "
                f"{results[twin]}, but amounts_only is True",
            )


def _twin_pod(pod: Pod, node_name: str, number: int) -> Pod:
    """Returns a pod with the same requests, and nothing else in common, on another node."""
    name = f"guest-{number}-of-{node_name}"
    labels = {"app": "twin"}
    metadata = replace(pod.metadata, name=name, namespace="other", uid=name, labels=labels)
    return replace(pod, metadata=metadata, spec=replace(pod.spec, node_name=node_name))


def _changes(harness: Harness, rng: Rng) -> Iterator[Step]:
    """Yields changes of one node each, of one kind of column if possible."""
    cache = harness.cache
    nodes = [cache.nodes.node(row) for row in cache.nodes.order.rows()]
    for node in rng.sample(nodes, k=min(1, len(nodes))):
        name = node.metadata.name
        for part, version in _node_variants(node, rng):
            yield f"{part} of {name} change", partial(cache.put_node, version)
            yield f"{part} of {name} are as before", partial(cache.put_node, node)
        pod = random_pod(rng, f"guest-{name}", node=name)
        yield f"a pod comes to {name}", partial(cache.put_pod, pod)
        yield f"a pod leaves {name}", partial(cache.remove_pod, pod.metadata.uid)
    yield "a node comes", partial(cache.put_node, random_node(rng, "fresh"))
    yield "a node goes", partial(cache.remove_node, "fresh")


def _node_variants(node: Node, rng: Rng) -> Iterator[tuple[str, Node]]:
    """Yields (name of the part, the node with that part of another node)."""
    donor = random_node(rng, node.metadata.name)
    spec, status, metadata = node.spec, node.status, node.metadata
    yield "labels", replace(node, metadata=replace(metadata, labels=donor.metadata.labels))
    yield "labels", replace(node, metadata=replace(metadata, labels={}))
    yield "taints", replace(node, spec=replace(spec, taints=donor.spec.taints))
    cordoned = replace(spec, unschedulable=not spec.unschedulable)
    yield "taints (the cordon)", replace(node, spec=cordoned)
    for part in ("allocatable", "images"):
        yield part, replace(node, status=replace(status, **{part: getattr(donor.status, part)}))
    others = {} if metadata.annotations else {"example.com/note": "other"}
    yield "annotations", replace(node, metadata=replace(metadata, annotations=others))


def _check_combined(case: Case, renamed: Pod, rng: Rng) -> None:
    """Checks that the framework decides the same with and without caching, after each change."""
    cached = Harness(case.objects, [case.plugin])
    uncached = Harness((), [case.plugin], cache_results=False)
    uncached.cache = cached.cache
    steps: list[Step] = [("nothing changes", lambda: None), *_changes(cached, rng)]
    for description, change in steps:
        change()
        for pod in (case.pod, renamed):
            with case.plugin_errors_as_failures():
                cached_result, uncached_result = cached.decide(pod), uncached.decide(pod)
            if cached_result == uncached_result:
                continue
            case.expect(
                False,
                f"when {description}, the pod {pod.metadata.name} gets {cached_result.decision} "
                f"with cached results, {uncached_result.decision} without: pre_filter and "
                "pre_score may depend on sign(pod) only",
            )
