"""A hypothesis run over everything that can happen to the Cache: after every step the columns are
what the objects alone would give, and the pods are where a plain dict says."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mooring.clock import seeded_random
from mooring.state import PodInfo, audit
from mooring.state.cache import Cache
from mooring.testing.random_cluster import random_node, random_pod

NODES = [f"node-{number}" for number in range(4)]
PODS = [f"pod-{number}" for number in range(5)]


class CacheMachine(RuleBasedStateMachine):
    """Nodes and pods come, change and go, in any order, some of it assumed first."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = Cache()
        self.nodes: set[str] = set()
        #: pod name -> (uid, node, is it assumed)
        self.placed: dict[str, tuple[str, str, bool]] = {}
        self.born = 0

    def make(self, name: str, seed: int, *, uid: str, node: str = "") -> PodInfo:
        made = random_pod(seeded_random(seed), name, node=node)
        document = made.metadata
        from msgspec.structs import replace

        return PodInfo(replace(made, metadata=replace(document, uid=uid)))

    @rule(name=st.sampled_from(NODES), seed=st.integers(0, 50))
    def put_node(self, name: str, seed: int) -> None:
        self.cache.put_node(random_node(seeded_random(seed), name))
        self.nodes.add(name)

    @rule(name=st.sampled_from(NODES))
    def remove_node(self, name: str) -> None:
        self.cache.remove_node(name)
        self.nodes.discard(name)

    @rule(key=st.sampled_from(["disk", "rack", "gpu", "topology.kubernetes.io/zone"]))
    def ask_for_a_label(self, key: str) -> None:
        self.cache.nodes.label(key)

    @rule(pod=st.sampled_from(PODS), node=st.sampled_from(NODES), seed=st.integers(0, 50))
    def assume(self, pod: str, node: str, seed: int) -> None:
        if pod in self.placed:
            return
        self.born += 1
        uid = f"{pod}-{self.born}"
        with self.cache.assume(self.make(pod, seed, uid=uid).on_node(node), node) as held:
            held.keep()
        self.placed[pod] = (uid, node, True)

    @rule(pod=st.sampled_from(PODS), node=st.sampled_from(NODES), seed=st.integers(0, 50))
    def assume_and_fail(self, pod: str, node: str, seed: int) -> None:
        if pod in self.placed:
            return
        with self.cache.assume(self.make(pod, seed, uid=f"{pod}-x").on_node(node), node):
            pass

    @precondition(lambda self: any(assumed for _, _, assumed in self.placed.values()))
    @rule(data=st.data(), ending=st.sampled_from(["confirm", "forget"]))
    def settle(self, data: st.DataObject, ending: str) -> None:
        waiting = [pod for pod, (_, _, assumed) in self.placed.items() if assumed]
        pod = data.draw(st.sampled_from(sorted(waiting)))
        uid, node, _ = self.placed[pod]
        if ending == "confirm":
            self.cache.confirm(uid)
            self.placed[pod] = (uid, node, False)
        else:
            self.cache.forget(uid)
            del self.placed[pod]

    @rule(
        pod=st.sampled_from(PODS),
        node=st.sampled_from(NODES),
        seed=st.integers(0, 50),
        is_new=st.booleans(),
    )
    def the_server_tells_of_a_pod(self, pod: str, node: str, seed: int, is_new: bool) -> None:
        known = self.placed.get(pod)
        if known is None or is_new:
            self.born += 1
            uid = f"{pod}-{self.born}"
        else:
            uid = known[0]
            node = node if known[2] else known[1]  # a confirmed pod never moves
        self.cache.put_pod(self.make(pod, seed, uid=uid, node=node).pod)
        self.placed[pod] = (uid, node, False)

    @rule(pod=st.sampled_from(PODS))
    def remove_pod(self, pod: str) -> None:
        uid = self.placed.pop(pod, ("nobody", "", False))[0]
        self.cache.remove_pod(uid)

    @rule(pod=st.sampled_from(PODS), node=st.sampled_from(NODES), seed=st.integers(0, 50))
    def nominate(self, pod: str, node: str, seed: int) -> None:
        if pod not in self.placed:
            self.cache.nominator.nominate(self.make(pod, seed, uid=f"{pod}-n"), node)

    @invariant()
    def columns_are_what_the_objects_give(self) -> None:
        assert audit(self.cache) == []

    @invariant()
    def pods_are_where_the_model_says(self) -> None:
        names = self.cache.nodes.names
        found = {
            placed.info.metadata.name: (
                placed.info.uid,
                names[placed.row],
                self.cache.is_assumed(placed.info.uid),
            )
            for placed in self.cache.pods
        }
        assert found == self.placed

    @invariant()
    def nodes_are_those_of_the_model(self) -> None:
        nodes = self.cache.nodes
        assert {nodes.names[row] for row in nodes.order.rows()} == self.nodes
        assert len(nodes) == len(self.nodes)


CacheMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestCache = CacheMachine.TestCase
