"""A hypothesis run over the terms of pods on nodes: pods, nodes and namespaces come, change and go;
after every step the terms that mean a new pod are what a walk over a plain dict of pods finds."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mooring.clock import seeded_random
from mooring.objects.pod import Pod
from mooring.state import PodInfo, audit
from mooring.state.cache import Cache
from mooring.state.tables import affinity_terms as module
from mooring.testing import make_node
from tests.plugins import affinity_clusters as clusters
from tests.plugins.affinity_twin import AffinityTwin, Term

NODES = [f"node-{number}" for number in range(4)]
PODS = [f"pod-{number}" for number in range(8)]
NAMESPACES = sorted(set(clusters.NAMESPACES))


class TermsMachine(RuleBasedStateMachine):
    """Every way in which a held term can change."""

    @initialize(entries=st.sampled_from([1, module.ENTRIES_MIN]))
    def begin(self, entries: int) -> None:
        self.before = module.ENTRIES_MIN, module.CELLS_PER_ENTRY
        module.ENTRIES_MIN, module.CELLS_PER_ENTRY = entries, 64  # type: ignore[misc]
        self.cache = Cache()
        self.pods: dict[str, Pod] = {}
        self.labels: dict[str, dict[str, str]] = {}
        self.nodes = 0

    def teardown(self) -> None:
        if hasattr(self, "before"):
            module.ENTRIES_MIN, module.CELLS_PER_ENTRY = self.before  # type: ignore[misc]

    @rule(name=st.sampled_from(NODES))
    def put_node(self, name: str) -> None:
        self.cache.put_node(make_node(name))

    @rule(name=st.sampled_from(NODES))
    def remove_node(self, name: str) -> None:
        self.cache.remove_node(name)

    @rule(count=st.integers(20, 70))
    def many_nodes_come(self, count: int) -> None:
        for _ in range(count):
            self.nodes += 1
            self.cache.put_node(make_node(f"many-{self.nodes}"))

    @rule(name=st.sampled_from(PODS), node=st.sampled_from(NODES), seed=st.integers(0, 40))
    def put_pod(self, name: str, node: str, seed: int) -> None:
        if name in self.pods:
            node = self.pods[name].spec.node_name
        pod = clusters.pod(seeded_random(seed), name, node=node)
        if name in self.pods and pod.metadata.namespace != self.pods[name].metadata.namespace:
            self.remove_pod(name)
        self.cache.put_pod(pod)
        self.pods[name] = pod

    @rule(name=st.sampled_from(PODS))
    def remove_pod(self, name: str) -> None:
        pod = self.pods.pop(name, None)
        if pod is not None:
            self.cache.remove_pod(pod.metadata.uid)

    @rule(name=st.sampled_from(NAMESPACES), seed=st.integers(0, 10))
    def put_namespace(self, name: str, seed: int) -> None:
        self.labels[name] = clusters.namespace_labels(seeded_random(seed))
        self.cache.put_object("Namespace", clusters.namespace(name, self.labels[name]))

    @rule(name=st.sampled_from(NAMESPACES))
    def remove_namespace(self, name: str) -> None:
        self.labels.pop(name, None)
        self.cache.remove_object("Namespace", name)

    @rule(seed=st.integers(0, 40))
    def ask(self, seed: int) -> None:
        new = PodInfo(clusters.pod(seeded_random(seed), "new"))
        namespace = new.metadata.namespace
        of_namespace = self.labels.get(namespace, {})
        names = self.cache.nodes.names
        sorts = {
            "affinity": ("near",),
            "anti-affinity": ("far",),
            "preferred": ("preferred", "unpreferred"),
        }
        for sort, index in self.cache.terms.indexes():
            found: Counter[Any] = Counter()
            for held in index.matching(namespace, of_namespace, new.metadata.labels):
                for row, count in held.rows.items():
                    found[names[row], held.term.topology_key, held.weight] += count
            expected = self.expected(
                new, of_namespace, sorts.get(sort, ("preferred", "unpreferred"))
            )
            assert found == expected

    def expected(
        self, new: PodInfo, of_namespace: dict[str, str], sorts: tuple[str, ...]
    ) -> Counter[Any]:
        twin = AffinityTwin()
        found: Counter[Any] = Counter()
        for pod in self.pods.values():
            terms: list[Term] = [t for sort in sorts for t in twin.terms(PodInfo(pod), sort)]
            for term in terms:
                if term.matches(new, of_namespace):
                    found[pod.spec.node_name, term.key, term.weight] += 1
        return found

    @invariant()
    def the_audit_holds(self) -> None:
        if hasattr(self, "cache"):
            assert audit(self.cache) == []


TermsMachine.TestCase.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
TestTerms = TermsMachine.TestCase
