"""The pods that affinity terms select, as keys of counters.

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

#: The key that matches no pod.
MATCH_NOTHING = CounterKey(frozenset(), NOTHING, with_terminating=True)


def counter_key(term: Term, namespaces: Namespaces) -> CounterKey:
    """Returns the pods that a term of the incoming pod selects, including terminating ones.

    As upstream, a namespace selector that matches a namespace without labels selects all
    namespaces, whatever their labels are: upstream evaluates it again, with no labels, after it has
    merged the selected namespaces into those of the term.
    """
    selector = term.namespace_selector
    names: frozenset[str] | None = term.namespaces
    if selector.matches({}):
        names = None
    elif not selector.selects_nothing:
        selected = namespaces.selected_by(selector)
        names = term.namespaces | selected if term.namespaces else selected
    return CounterKey(names, term.selector, with_terminating=True)


def counter_key_of_all(terms: Sequence[Term], namespaces: Namespaces) -> CounterKey:
    """Returns the pods that match every one of the terms; no pods if there is no term."""
    if not terms:
        return MATCH_NOTHING
    keys = [counter_key(term, namespaces) for term in terms]
    if len(keys) == 1:
        return keys[0]
    namespace_sets = [key.namespaces for key in keys if key.namespaces is not None]
    names = frozenset.intersection(*namespace_sets) if namespace_sets else None
    if any(key.selector.selects_nothing for key in keys):
        return CounterKey(names, NOTHING, with_terminating=True)
    requirements = (requirement for key in keys for requirement in key.selector.requirements)
    return CounterKey(names, selector_of(requirements), with_terminating=True)


def matches(key: CounterKey, namespace: str, labels: Mapping[str, str]) -> bool:
    """Returns True if the key counts a pod of this namespace with these labels."""
    if key.namespaces is not None and namespace not in key.namespaces:
        return False
    return key.selector.matches(labels)


def matching_terms(index: TermIndex, snapshot: Snapshot, pod: PodInfo) -> list[SharedTerm]:
    """Returns the terms of existing pods in ``index`` that match the pod."""
    if not len(index):
        return []  # most clusters
    metadata = pod.metadata
    namespace_labels = snapshot.namespaces.labels(metadata.namespace)
    return index.matching(metadata.namespace, namespace_labels, metadata.labels)


def topology_keys(terms: Iterable[Term]) -> list[str]:
    """Returns the distinct topology keys of the terms."""
    return list(dict.fromkeys(term.topology_key for term in terms))
