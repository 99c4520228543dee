"""A hypothesis run over the counters: pods and nodes come, change and go, counters are asked for
and dropped; after every step each count is what a walk over a plain dict of pods finds."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mooring.objects.selectors import Selector, requirement, selector_of
from mooring.state import audit
from mooring.state.cache import Cache
from mooring.state.tables import counters as module
from mooring.state.tables.counters import CounterKey
from mooring.testing import make_node, make_pod
from tests.unit.state.columns.test_grouped import Remainders

BY_TWO = Remainders(2)
NODES = [f"node-{number}" for number in range(3)]
PODS = [f"pod-{number}" for number in range(6)]
NAMESPACES = ["default", "other"]
APPS = ["web", "db", None]

SELECTORS = [
    Selector(),
    selector_of([requirement("app", "In", ("web",))]),
    selector_of([requirement("app", "In", ("web", "db"))]),
    selector_of([requirement("app", "NotIn", ("web",))]),
    selector_of([requirement("app", "Exists"), requirement("own", "In", ("pod-1",))]),
]
KEYS = [
    CounterKey(namespaces, selector, with_terminating)
    for namespaces in (frozenset({"default"}), frozenset(NAMESPACES), None)
    for selector in SELECTORS
    for with_terminating in (True, False)
]


class CountersMachine(RuleBasedStateMachine):
    """Every way in which a count can change."""

    @initialize(limit=st.sampled_from([3, 100]))
    def begin(self, limit: int) -> None:
        self.cache = Cache()
        self.limit = limit
        #: Pod name -> (node, namespace, app, is it being deleted); names are unique over both.
        self.pods: dict[str, tuple[str, str, str | None, bool]] = {}
        self.nodes = 0

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

    @rule(
        name=st.sampled_from(PODS),
        node=st.sampled_from(NODES),
        namespace=st.sampled_from(NAMESPACES),
        app=st.sampled_from(APPS),
        dying=st.booleans(),
    )
    def put_pod(self, name: str, node: str, namespace: str, app: str | None, dying: bool) -> None:
        if name in self.pods:
            node, namespace = self.pods[name][:2]  # neither ever changes
        labels = {"own": name} | ({"app": app} if app else {})
        metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if dying else {}
        pod = make_pod(
            name, uid=name, namespace=namespace, node=node, labels=labels, metadata=metadata
        )
        self.cache.put_pod(pod)
        self.pods[name] = (node, namespace, app, dying)

    @rule(name=st.sampled_from(PODS))
    def remove_pod(self, name: str) -> None:
        self.cache.remove_pod(name)
        self.pods.pop(name, None)

    @rule(asked=st.sampled_from(KEYS))
    def ask(self, asked: CounterKey) -> None:
        before = module.COUNTERS_MIN, module.MEMORY_LIMIT_BYTES
        module.COUNTERS_MIN, module.MEMORY_LIMIT_BYTES = self.limit, 0  # type: ignore[misc]
        try:
            counter = self.cache.counters.counter(asked)
            assert len(self.cache.counters) <= self.limit
        finally:
            module.COUNTERS_MIN, module.MEMORY_LIMIT_BYTES = before  # type: ignore[misc]
        names = self.cache.nodes.names
        found = {names[row]: int(counter.counts[row]) for row in counter.counts.nonzero()[0]}
        assert found == self.expected(asked)
        counter.sums_over(BY_TWO)  # the audit sees that they follow

    def expected(self, asked: CounterKey) -> dict[str, int]:
        found: dict[str, int] = {}
        for name, (node, namespace, app, dying) in self.pods.items():
            labels = {"own": name} | ({"app": app} if app else {})
            is_in = asked.namespaces is None or namespace in asked.namespaces
            if is_in and (asked.with_terminating or not dying) and asked.selector.matches(labels):
                found[node] = found.get(node, 0) + 1
        return found

    @invariant()
    def the_audit_holds(self) -> None:
        if hasattr(self, "cache"):
            assert audit(self.cache) == []


CountersMachine.TestCase.settings = settings(
    max_examples=100, stateful_step_count=40, deadline=None
)
TestCounters = CountersMachine.TestCase
