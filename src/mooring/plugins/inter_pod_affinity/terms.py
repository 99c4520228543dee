"""Which pods a pod's own terms mean, as keys of counters: they are counted, never walked.

Source: pkg/scheduler/framework/plugins/interpodaffinity/plugin.go, filtering.go
(mergeAffinityTermNamespacesIfNotEmpty, podMatchesAllAffinityTerms).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mooring.objects.selectors import NOTHING, selector_of
from mooring.state import PodInfo, Snapshot
from mooring.state.kinds.namespaces import Namespaces
from mooring.state.tables.affinity_terms import SharedTerm, TermIndex
from mooring.state.tables.counters import CounterKey
from mooring.state.tables.pod_terms import Term

#: No key of a counter at all: a pod without terms means nobody.
MATCH_NOTHING = CounterKey(frozenset(), NOTHING, with_terminating=True)


def matching_terms(term: Term, namespaces: Namespaces) -> CounterKey:
    """Returns the pods that an own term means; those that are being deleted count too.

    As upstream, a namespace selector that a namespace without labels would match selects all of
    them, whatever their labels are: it is asked once more, of no labels, after the names of the
    namespaces that it selects were added to those of the term.
    """
    selector = term.namespace_selector
    names: frozenset[str] | None = term.namespaces
    if selector.matches({}):
        names = None
    elif not selector.selects_nothing:
        selected = namespaces.selected_by(selector)
        names = term.namespaces | selected if term.namespaces else selected
    return CounterKey(names, term.selector, with_terminating=True)


def meant_by_all(terms: Sequence[Term], namespaces: Namespaces) -> CounterKey:
    """Returns the pods that every one of the terms means; nobody if there is no term."""
    if not terms:
        return MATCH_NOTHING
    keys = [matching_terms(term, namespaces) for term in terms]
    if len(keys) == 1:
        return keys[0]
    listed = [key.namespaces for key in keys if key.namespaces is not None]
    names = frozenset.intersection(*listed) if listed else None
    if any(key.selector.selects_nothing for key in keys):
        return CounterKey(names, NOTHING, with_terminating=True)
    conditions = (condition for key in keys for condition in key.selector.requirements)
    return CounterKey(names, selector_of(conditions), with_terminating=True)


def matches(key: CounterKey, namespace: str, labels: Mapping[str, str]) -> bool:
    """Returns whether a pod of this namespace with these labels is among those of the key."""
    if key.namespaces is not None and namespace not in key.namespaces:
        return False
    return key.selector.matches(labels)


def counter_key(index: TermIndex, snapshot: Snapshot, pod: PodInfo) -> list[SharedTerm]:
    """Returns the terms of pods on nodes, out of ``index``, that mean the pod."""
    if not len(index):
        return []  # nobody has such terms: most clusters
    metadata = pod.metadata
    namespace_labels = snapshot.namespaces.labels(metadata.namespace)
    return index.matching(metadata.namespace, namespace_labels, metadata.labels)


def topology_keys(terms: Iterable[Term]) -> list[str]:
    """Returns the topology keys of the terms, each once."""
    return list(dict.fromkeys(term.topology_key for term in terms))
