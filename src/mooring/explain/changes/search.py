"""Searches for the smallest change that helps: single changes first, then pairs, then more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Final, NamedTuple

from mooring.decision import Rejection
from mooring.explain.changes.change import EDIT_NODE, NEW_NODE, Remedy, SuggestedChange
from mooring.explain.changes.devices import corrected_claims
from mooring.explain.changes.of_node import alternatives
from mooring.explain.changes.of_pod import (
    GROUPS_TRIED,
    TRIAL,
    corrected_affinity,
    for_claims,
    more_nodes,
    without_gates,
)
from mooring.explain.changes.trial import Trials
from mooring.explain.reasons.case import Case
from mooring.objects.pod import Pod
from mooring.simulation.driver import Driver
from mooring.simulation.utilization import Utilization

#: Limits: remedies shown, and decisions for single changes and for pairs.
REMEDIES_MAX: Final = 5
TRIALS_MAX: Final = 40

#: Changes that are combined.
CHANGES_MAX: Final = 6

#: Combinations of more than two changes that are made of the rejections of one node.
COMBINATIONS_MAX: Final = 8

#: Changes of one kind that are tried until one helps.
OF_KIND_MAX: Final = 4


class Found(NamedTuple):
    """The result of a search.

    Attributes:
        remedies: The changes that help, cheapest first.
        nearest: The node with the fewest rejections, if nothing helps; "" = there is none.
    """

    remedies: tuple[Remedy, ...]
    nearest: str = ""


def find_remedies(
    driver: Driver,
    pod: Pod,
    rejections: Mapping[str, Sequence[Rejection]],
    utilization: Utilization,
    *,
    case: Case,
) -> Found:
    """Returns changes by which the pod gets a node.

    Args:
        driver: The cluster and the plugins; it is as before afterwards.
        pod: The pod.
        rejections: All rejections of each node.
        utilization: The cluster, for shortages and groups of nodes.
        case: The pod and the cluster.
    """
    trials = Trials(driver, pod)
    of_pod = [*without_gates(case), *corrected_affinity(case), *for_claims(case)]
    of_pod += corrected_claims(case)
    of_nodes = list(_of_nodes(case, rejections, utilization))
    single = [(change,) for change in of_pod]
    single += [changes for changes in of_nodes if len(changes) == 1]
    single += [(change,) for change in more_nodes(case, utilization)]
    # Two edits of the pod are as small as one of a node.
    edited = [changes for changes in of_nodes if len(changes) == 2 and _edits_pod(changes)]
    remedies = _tried(trials, [*single, *edited])
    if remedies:
        return Found(remedies)
    pairs = [changes for changes in of_nodes if len(changes) == 2]
    edits = [changes for changes in of_nodes if len(changes) == 1 and changes[0].edit is not None]
    pairs += [
        (change, *changes) for change in of_pod for changes in single if changes[0] is not change
    ]
    pairs += [(*changes, node) for changes in edits for node in more_nodes(case, utilization)]
    remedies = _tried(trials, pairs)
    if remedies:
        return Found(remedies)
    several = [changes for changes in of_nodes if 2 < len(changes) <= CHANGES_MAX]
    several += [
        (change, *changes)
        for change in of_pod
        for changes in of_nodes
        if 1 < len(changes) < CHANGES_MAX
    ]
    repairs = tuple({change.kind: change for change in of_pod[::-1]}.values())[::-1]
    if len(repairs) > 1:
        several += [
            (*repairs, *changes)
            for changes in ((), *of_nodes)
            if 2 < len(repairs) + len(changes) <= CHANGES_MAX
        ]
    remedies = tuple(_smallest(trials, remedy) for remedy in _tried(trials, several))
    return Found(remedies, "" if remedies else _nearest(rejections))


def _smallest(trials: Trials, remedy: Remedy) -> Remedy:
    """Returns a remedy without the changes that it does not need."""
    for change in remedy.changes:
        fewer = tuple(other for other in remedy.changes if other is not change)
        node = trials.node_with(fewer)
        if node is not None:
            remedy = Remedy(fewer, node)
    return remedy


def _edits_pod(changes: tuple[SuggestedChange, ...]) -> bool:
    """Returns whether all changes are corrections of the pod."""
    return all(change.edit is not None and change.cost < EDIT_NODE for change in changes)


def _nearest(rejections: Mapping[str, Sequence[Rejection]]) -> str:
    """Returns the node with the fewest rejections, "" if no node was filtered."""
    return min(rejections, key=lambda name: len(rejections[name]), default="")


def _of_nodes(
    case: Case, rejections: Mapping[str, Sequence[Rejection]], utilization: Utilization
) -> Iterator[tuple[SuggestedChange, ...]]:
    """Yields the changes that end all rejections of a node; one of them may end several."""
    for name, of_node in rejections.items():
        node = case.node(name)
        if node is None or len(of_node) > CHANGES_MAX:
            continue
        by_rejection = [alternatives(case, node, item, utilization) for item in of_node]
        limit = None if len(of_node) <= 2 else COMBINATIONS_MAX
        for parts in islice(product(*by_rejection), limit):
            changes = {change.text: change for part in parts for change in part}
            if changes:
                yield tuple(changes.values())


def _tried(trials: Trials, candidates: Iterable[tuple[SuggestedChange, ...]]) -> tuple[Remedy, ...]:
    """Returns the candidates that help, cheapest first, one of each kind."""
    unique = {frozenset(change.text for change in changes): changes for changes in candidates}
    ordered = sorted(unique.values(), key=_cost)
    remedies: list[Remedy] = []
    tried: dict[frozenset[str], int] = {}
    helpful: set[frozenset[str]] = set()
    trials_left = TRIALS_MAX
    for changes in ordered:
        kinds = frozenset(change.kind for change in changes)
        if kinds in helpful or tried.get(kinds, 0) >= _tries(changes) or _edits_twice(kinds):
            continue
        if len(remedies) >= REMEDIES_MAX or not trials_left:
            break
        trials_left -= 1
        tried[kinds] = tried.get(kinds, 0) + 1
        node = trials.node_with(changes)
        if node is not None:
            remedies.append(Remedy(changes, node))
            helpful.add(kinds)
    return tuple(remedies)


def _edits_twice(kinds: frozenset[str]) -> bool:
    """Returns whether two changes edit the same: "affinity 0" and a label of "affinity 0"."""
    return any(kind.startswith(f"{other} ") for kind in kinds for other in kinds)


def _tries(changes: tuple[SuggestedChange, ...]) -> int:
    """Returns how many changes of these kinds are tried until one helps."""
    has_new_node = any(change.cost == NEW_NODE for change in changes)
    return GROUPS_TRIED if has_new_node else OF_KIND_MAX


def _cost(changes: tuple[SuggestedChange, ...]) -> float:
    return sum(change.cost for change in changes)


def remedy_lines(result: Found, nearest_causes: Sequence[str]) -> Iterator[str]:
    """Yields the changes that help, as lines.

    Args:
        result: The changes.
        nearest_causes: Why the nearest node is rejected, in words.
    """
    yield ""
    if not result.remedies:
        yield "No change was found that helps: no single one, no pair, no set for one node."
        if nearest_causes:
            yield f"The fewest rejections are those of node {result.nearest}. All of them must end:"
            yield from (f"  - {cause}" for cause in nearest_causes)
        return
    count = min(len(remedy.changes) for remedy in result.remedies)
    if count == 1:
        yield "The smallest changes that help (each was decided again):"
    elif count == 2:
        yield "No single change helps. Pairs that do (each was decided again):"
    else:
        yield "No single change and no pair helps. Together these do (each set was decided again):"
    for remedy in result.remedies:
        yield f"  - {remedy.text}: the pod goes to {place_text(remedy.node)}"


def place_text(node: str) -> str:
    """Returns the name of a node; a node that was added has no name yet."""
    return "the new node" if node == TRIAL else node
