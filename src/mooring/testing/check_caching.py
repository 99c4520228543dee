"""May the framework share this plugin's answers? What ``sign``, ``reads`` and the like promise.

Shared answers are wrong in silence: a pod gets the verdict of another one, or a verdict from before
a node changed. So each promise is tried by itself, to say which one is broken, and at the end all
of them together, the way the framework uses them.
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

#: The parts of a pod's spec that plugins read; each is exchanged for another pod's by itself.
SPEC_PARTS = (
    "containers",
    "init_containers",
    "overhead",
    "node_selector",
    "affinity",
    "tolerations",
    "priority",
)

#: A change of the cluster, told in words.
Step = tuple[str, Callable[[], None]]


def check_sharing(case: Case, rng: Rng) -> None:
    """Checks ``sign`` and, if the plugin has it, everything that follows from ``reads``.

    Raises:
        AssertionError: naming the promise that is broken.
    """
    fragment = _sign(case, case.pod)
    case.expect(fragment == _sign(case, case.pod), "sign differs for the same pod")
    renamed = _renamed(case.pod)
    case.expect(
        fragment == _sign(case, renamed),
        "sign differs for a pod with another name and UID, so no answer is ever shared",
    )
    if fragment is None or not hasattr(case.plugin, "reads"):
        return
    _check_each_node_alone(case)
    _check_sign_is_fine_enough(case, fragment, rng)
    _check_reads(case, rng)
    _check_together(case, renamed, rng)


def _sign(case: Case, pod: Pod) -> Hashable | None:
    fragment = case.plugin.sign(PodInfo(pod))
    try:
        hash(fragment)
    except TypeError:
        case.expect(False, f"sign returned {fragment!r}, which is not hashable")
    return fragment  # type: ignore[no-any-return]  # hashed just now


def _renamed(pod: Pod) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, name="renamed", uid="pod-default-renamed"))


def _answers(case: Case, harness: Harness, pod: Pod) -> dict[str, tuple[Any, Any]]:
    """Node -> (status, raw score), asked anew."""
    plugin = case.plugin
    names = harness.begin(pod).view.names
    statuses = harness.statuses(pod, plugin) if hasattr(plugin, "filter") else {}
    scores = harness.raw_scores(pod, plugin) if names and hasattr(plugin, "score") else None
    return {name: (statuses.get(name), (scores or {}).get(name)) for name in names}


def _check_each_node_alone(case: Case) -> None:
    """A raw score follows from the node alone, whichever others can take the pod."""
    plugin = case.plugin
    if not hasattr(plugin, "score"):
        return
    harness = Harness(case.objects, [plugin], cache_results=False)
    opened = harness.begin(case.pod)
    if not len(opened.view):
        return
    with case.blaming():
        among_all = harness.raw_scores_in(opened.cycle, opened.view, plugin)
        for position, name in enumerate(opened.view.names):
            one = NodeView(opened.view.snapshot, opened.view.rows[position : position + 1])
            alone = harness.raw_scores_in(opened.cycle, one, plugin)
            expected = among_all and {name: among_all[name]}
            case.expect(
                alone == expected,
                f"score says {alone} of {name} alone, {expected} among all nodes: with reads, "
                "it may depend on that node only",
            )


def _check_sign_is_fine_enough(case: Case, fragment: Hashable, rng: Rng) -> None:
    """Pods with equal fragments get equal answers."""
    harness = Harness(case.objects, [case.plugin], cache_results=False)
    expected = _answers(case, harness, case.pod)
    for what, pod in _variants(case.pod, rng):
        if _sign(case, pod) != fragment:
            continue
        with case.blaming():
            found = _answers(case, harness, pod)
        differs = first_difference(list(expected), list(expected.values()), list(found.values()))
        case.expect(
            differs is None,
            f"sign is the same for a pod with another {what}, but (status, score) differ: "
            f"{differs}",
        )


def _variants(pod: Pod, rng: Rng) -> Iterator[tuple[str, Pod]]:
    """Returns the pod with one part exchanged, and what part that is."""
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
    """An answer changes only with a change that ``reads`` or ``reads_other_nodes`` names."""
    plugin = case.plugin
    harness = Harness(case.objects, [plugin], cache_results=False)
    everywhere = getattr(plugin, "reads_other_nodes", Change(0))
    nodes, log = harness.cache.nodes, harness.cache.nodes.log
    before = _answers(case, harness, case.pod)
    for what, change in _changes(harness, rng):
        generation = log.generation
        change()
        rows, kinds = log.since(generation) or ((), ())
        changed = {nodes.names[row] for row in rows}
        kind = Change(reduce(or_, map(int, kinds), 0))
        with case.blaming():
            after = _answers(case, harness, case.pod)
        for name in sorted(before.keys() & after.keys()):
            if before[name] == after[name] or kind & everywhere:
                continue
            is_own = name in changed
            known = is_own and bool(kind & (plugin.reads | Change.EXISTENCE))
            case.expect(
                known,
                f"(status, score) of {name} {before[name]} becomes {after[name]} when {what}, but "
                f"{'reads' if is_own else 'reads_other_nodes'} has no {kind!r}",
            )
        before = after


def _changes(harness: Harness, rng: Rng) -> Iterator[Step]:
    """Changes of one node each, of one kind of column where that is possible."""
    cache = harness.cache
    live = [cache.nodes.node(row) for row in cache.nodes.order.rows()]
    for node in rng.sample(live, k=min(1, len(live))):
        name = node.metadata.name
        for what, version in _versions(node, rng):
            yield f"{what} of {name} change", partial(cache.put_node, version)
            yield f"{what} of {name} are as before", partial(cache.put_node, node)
        pod = random_pod(rng, f"guest-{name}", node=name)
        yield f"a pod comes to {name}", partial(cache.put_pod, pod)
        yield f"a pod leaves {name}", partial(cache.remove_pod, pod.metadata.uid)
    yield "a node comes", partial(cache.put_node, random_node(rng, "fresh"))
    yield "a node goes", partial(cache.remove_node, "fresh")


def _nothing() -> None:
    """No change at all."""


def _versions(node: Node, rng: Rng) -> Iterator[tuple[str, Node]]:
    """Returns the node with one of its parts like another one's."""
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


def _check_together(case: Case, renamed: Pod, rng: Rng) -> None:
    """With shared answers the framework decides, change after change, as it does without."""
    shared = Harness(case.objects, [case.plugin])
    anew = Harness((), [case.plugin], cache_results=False)
    anew.cache = shared.cache
    for what, change in [("nothing changes", _nothing), *_changes(shared, rng)]:
        change()
        for pod in (case.pod, renamed):
            with case.blaming():
                ours, truth = shared.decide(pod), anew.decide(pod)
            if ours == truth:
                continue
            case.expect(
                False,
                f"when {what}, the pod {pod.metadata.name} gets {ours.decision} with shared "
                f"answers, {truth.decision} asked anew: pre_filter and pre_score may depend on "
                "sign(pod) only",
            )
