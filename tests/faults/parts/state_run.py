"""Changes of nodes, pods and nominations in a cache, and its columns beside plain dicts of objects.

The columns are compared with the objects (``audit``), as in a whole run; besides, where each pod
counts, what each node's pods request, how many pods each selector counts, which terms mean a new
pod, and the order of nominations, each computed from a dict of pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from msgspec.structs import replace

from mooring.clock import seeded_random
from mooring.objects.pod import Pod
from mooring.objects.selectors import Selector, requirement, selector_of
from mooring.state import PodInfo, audit
from mooring.state.cache import Cache
from mooring.state.nominator import Nominator
from mooring.state.tables.counters import CounterKey
from mooring.testing.random_cluster import random_node, random_pod
from tests.faults.parts.csi_nodes_model import CSINodesModel
from tests.faults.parts.state_details import Details, NodeOrder, StateChecks, small_tables
from tests.faults.twins.leftovers import CacheLeftovers
from tests.plugins import affinity_clusters as clusters
from tests.plugins.affinity_twin import AffinityTwin, Term

STEPS: Final = 120
NODES: Final = [f"node-{number}" for number in range(5)]
LABELS: Final = ("disk", "rack", "gpu", "topology.kubernetes.io/zone")
FINISHED: Final = ("Succeeded", "Failed")

#: What counters count: namespaces, a selector, and whether terminating pods count.
ASKED: Final = [
    CounterKey(namespaces, selector, with_terminating)
    for namespaces in (frozenset({"default"}), frozenset({"red", "blue"}), None)
    for selector in (
        Selector(),
        selector_of([requirement("app", "In", ("web",))]),
        selector_of([requirement("app", "NotIn", ("web",))]),
        selector_of([requirement("touched", "Exists")]),
    )
    for with_terminating in (True, False)
]
#: The name of an index of terms -> those of the model; of others, the preferred ones.
SORTS: Final = {"affinity": ("near",), "anti-affinity": ("far",)}
WEIGHTS: Final = {
    "put_node": 3,
    "remove_node": 1,
    "read_label": 1,
    "assume": 4,
    "succeed": 2,
    "settle": 4,
    "place": 4,
    "change": 6,
    "finish": 2,
    "remove": 2,
    "remove_by_key": 1,
    "count": 3,
    "ask_terms": 2,
    "nominate": 4,
    "change_nomination": 3,
    "put_namespace": 1,
}


#: Of the assumed pods so many are nominated when they are confirmed or forgotten.
NOMINATED_SHARE: Final = 0.3


class NominatorModel:
    """Nominations as one list of (pod, node), in order."""

    def __init__(self) -> None:
        self.entries: list[tuple[PodInfo, str]] = []

    def remove(self, selects: Callable[[PodInfo], bool]) -> None:
        """Removes the nominations of some pods."""
        self.entries = [entry for entry in self.entries if not selects(entry[0])]

    def nominate(self, info: PodInfo, node_name: str) -> None:
        """Nominates a pod, at the end of the list."""
        self.remove(lambda other: other.uid == info.uid)
        self.entries.append((info, node_name))

    def update(self, old: PodInfo, new: PodInfo) -> None:
        """Follows a newer version of a pod."""
        nodes = [name for info, name in self.entries if info.uid == old.uid]
        named = new.status.nominated_node_name
        if not named and not old.status.nominated_node_name and nodes:
            named = nodes[0]
        self.remove(lambda other: other.uid == old.uid)
        if named:
            self.entries.append((new, named))

    def problem(self, real: Nominator) -> str:
        """Returns a difference to the real nominations; "" if there is none."""
        if len(real) != len(self.entries):
            return f"{len(real)} nominations, not {len(self.entries)}"
        for name in sorted({name for _, name in self.entries} | set(real.node_names())):
            expected = [info for info, at in self.entries if at == name]
            actual = real.pods_on(name)
            if [id(info) for info in actual] != [id(info) for info in expected]:
                return f"nominated to {name}: {_keys(actual)}, not {_keys(expected)}"
        wrong = [info.key for info, name in self.entries if real.node_of(info.uid) != name]
        pairs = {(info.uid, name) for info, name in self.entries}
        if wrong or {(info.uid, name) for info, name in real.pods()} != pairs:
            return f"wrong nodes of the nominated {wrong}"
        return ""


class StateTables:
    """A cache, its nodes and nominations, and what plugins read of it.

    Attributes:
        problems: What differs.
        cache: What is changed and compared.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self._rng = rng = seeded_random(seed)
        self.cache = Cache()
        self._nodes: set[str] = set()
        self._nominated = NominatorModel()
        self._more = seeded_random(seed + 5)
        self._details = Details(seeded_random(seed + 9))
        self._checks = StateChecks(self.cache, seeded_random(seed + 11))
        self._order = NodeOrder()
        self._csi_nodes = CSINodesModel(self.cache, NODES, seeded_random(seed + 4))
        #: UID -> pod, the node where it counts, and whether it is assumed.
        self._pods: dict[str, tuple[Pod, str, bool]] = {}
        self._namespaces: dict[str, dict[str, str]] = {}
        self._count_of_pods = 0
        self._weights = {name: weight * rng.choice((0.3, 1, 3)) for name, weight in WEIGHTS.items()}

    def run(self) -> None:
        """Makes all changes, until something differs."""
        names, weights = list(self._weights), list(self._weights.values())
        for _ in range(STEPS):
            action: Callable[[], None] = getattr(self, f"_{self._rng.choices(names, weights)[0]}")
            action()
            self._csi_nodes.change()
            self._compare()
            self.problems += self._checks.problems(self._pods, self._order)
            if self.problems:
                return

    def _compare(self) -> None:
        cache = self.cache
        self.problems += audit(cache)
        self.problems += self._csi_nodes.problems()
        if problem := self._nominated.problem(cache.nominator):
            self.problems.append(problem)
        names = cache.nodes.names
        actual = {
            placed.info.uid: (names[placed.row], cache.is_assumed(placed.info.uid))
            for placed in cache.pods
        }
        expected = {uid: (node, assumed) for uid, (_, node, assumed) in self._pods.items()}
        if actual != expected:
            self.problems.append(f"pods are at {actual}, not {expected}")
        if {names[row] for row in cache.nodes.order.rows()} != self._nodes:
            self.problems.append("other nodes than those that were put")
        n_assumed = sum(is_assumed for _, _, is_assumed in self._pods.values())
        if cache.assumed_count() != n_assumed:
            self.problems.append(f"{cache.assumed_count()} pods are assumed, not {n_assumed}")

    # -- nodes and namespaces ---------------------------------------------------------------------

    def _put_node(self) -> None:
        name = self._rng.choice(NODES)
        self.cache.put_node(self._details.node(random_node(self._rng, name)))
        self._nodes.add(name)

    def _remove_node(self) -> None:
        name = self._rng.choice(NODES)
        self.cache.remove_node(name)
        self._nodes.discard(name)

    def _read_label(self) -> None:
        self.cache.nodes.label(self._rng.choice(LABELS))

    def _put_namespace(self) -> None:
        name = self._rng.choice(clusters.NAMESPACES)
        self._namespaces[name] = clusters.namespace_labels(self._rng)
        self.cache.put_object("Namespace", clusters.namespace(name, self._namespaces[name]))

    # -- nominations ------------------------------------------------------------------------------

    def _nominate(self) -> None:
        node, info = self._rng.choice(NODES), PodInfo(self._new_pod())
        if self._nominated.entries and self._rng.random() < 0.3:
            info = self._rng.choice(self._nominated.entries)[0]
        _nominate_in(info, node, self.cache.nominator, self._nominated)

    def _change_nomination(self) -> None:
        """Reports a newer version of a pending pod: with its nomination, another, or none."""
        rng = self._rng
        old = PodInfo(self._new_pod())
        if self._nominated.entries and rng.random() < 0.8:
            old = rng.choice(self._nominated.entries)[0]
        before = rng.choice(("", old.status.nominated_node_name, rng.choice(NODES)))
        now = rng.choice(("", before, rng.choice(NODES)))
        versions = [
            PodInfo(replace(old.pod, status=replace(old.pod.status, nominated_node_name=name)))
            for name in (before, now)
        ]
        self.cache.nominator.update(*versions)
        self._nominated.update(*versions)

    # -- what plugins read ------------------------------------------------------------------------

    def _count(self) -> None:
        counted, cache = self._rng.choice(ASKED), self.cache
        counts = cache.counters.counter(counted).counts
        names = cache.nodes.names
        actual = {names[row]: int(counts[row]) for row in counts.nonzero()[0]}
        expected: Counter[str] = Counter()
        for pod, node, _ in self._pods.values():
            metadata = pod.metadata
            is_in = counted.namespaces is None or metadata.namespace in counted.namespaces
            lives = counted.with_terminating or metadata.deletion_timestamp is None
            is_counted = is_in and lives and counted.selector.matches(metadata.labels)
            expected[node] += is_counted
            if counted.counts(PodInfo(pod)) != is_counted:
                self.problems.append(f"{counted} counts {metadata.name}: {not is_counted}")
        if actual != +expected:
            self.problems.append(f"{counted} counts {actual}, not {dict(expected)}")

    def _ask_terms(self) -> None:
        """Compares the terms that mean a new pod with those of all pods."""
        new = PodInfo(self._new_pod())
        of_namespace = self._namespaces.get(new.metadata.namespace, {})
        names = self.cache.nodes.names
        for sort, index in self.cache.terms.indexes():
            actual: Counter[Any] = Counter()
            for shared in index.matching(new.metadata.namespace, of_namespace, new.metadata.labels):
                key = shared.term.topology_key, shared.weight
                actual.update({(names[row], *key): n for row, n in shared.rows.items()})
            expected = Counter(
                (node, term.key, term.weight)
                for node, term in _terms(self._pods, sort)
                if term.matches(new, of_namespace)
            )
            if actual != expected:
                self.problems.append(f"{sort} of {new.key}: {actual}, not {expected}")

    def _new_pod(self, node: str = "", like: Pod | None = None) -> Pod:
        """Returns a random pod: a new one, or a new version of another."""
        rng = self._rng
        pod = clusters.pod(rng, f"pod-{rng.randrange(8)}", node=node)
        pod = replace(pod, spec=replace(pod.spec, containers=random_pod(rng, "x").spec.containers))
        self._count_of_pods += 1
        uid, metadata = f"uid-{self._count_of_pods}", pod.metadata
        if like is not None:
            uid, old = like.metadata.uid, like.metadata
            metadata = replace(metadata, name=old.name, namespace=old.namespace)
        version = str(self._count_of_pods)
        pod = replace(pod, metadata=replace(metadata, uid=uid, resource_version=version))
        return self._details.pod(pod)


class StateRun(StateTables):
    """One run: the pods, which are assumed, confirmed, changed and removed."""

    def _assume(self) -> None:
        """Assumes a pod, which fails at once, or is kept."""
        node, pod = self._rng.choice(NODES), self._new_pod()
        if _of_key(self._pods, pod):
            return
        info = PodInfo(pod).on_node(node)
        with self.cache.assume(info, node) as reservation:
            if self._rng.random() < 0.7:
                reservation.keep()
                self._pods[info.uid] = info.pod, node, True
                self._order.enter(info.uid, node)

    def _succeed(self) -> None:
        """Assumes a pod of the same name before the deletion of the older one is known."""
        if (chosen := self._any()) is None:
            return
        old_uid, (old, _, _) = chosen
        node, pod = self._rng.choice(NODES), _named_like(self._new_pod(), old)
        info = PodInfo(pod).on_node(node)
        with self.cache.assume(info, node) as reservation:
            reservation.keep()
        self.cache.remove_pod(old_uid)
        self._nominated.remove(lambda other: other.uid == old_uid)
        self._order.enter(info.uid, node)
        self._drop(old_uid)
        self._pods[info.uid] = info.pod, node, True

    def _settle(self) -> None:
        """Confirms an assumed pod, on its node or another, or forgets it."""
        assumed = [(uid, pod, node) for uid, (pod, node, is_so) in self._pods.items() if is_so]
        if not assumed:
            return
        uid, pod, node = self._rng.choice(assumed)
        way = self._rng.choice(("confirm", "same", "elsewhere", "newer", "forget"))
        if self._more.random() < NOMINATED_SHARE:
            _nominate_in(PodInfo(pod), node, self.cache.nominator, self._nominated)
        if way == "forget":
            self.cache.forget(uid)
            self._drop(uid)
            return
        self._nominated.remove(lambda other: other.uid == uid)
        if way == "confirm":
            self.cache.confirm(uid)
        else:
            if way == "elsewhere":
                node = self._rng.choice(NODES)
                pod = replace(pod, spec=replace(pod.spec, node_name=node))
            elif way == "newer":
                pod = self._new_pod(node, like=pod)
            self.cache.put_pod(pod)
        if way in ("elsewhere", "newer"):
            self._order.move(uid, node)
        self._pods[uid] = pod, node, False

    def _place(self) -> None:
        """Puts a pod that is on a node already; it replaces one of its name."""
        node = self._rng.choice(NODES)
        pod = self._new_pod(node)
        for uid in _of_key(self._pods, pod):
            self._drop(uid)
        self._nominated.remove(lambda other: other.uid == pod.metadata.uid)
        self.cache.put_pod(pod)
        self._order.enter(pod.metadata.uid, node)
        self._pods[pod.metadata.uid] = pod, node, False

    def _change(self) -> None:
        """Changes some of labels, affinity, requests and the deletion of a pod on a node."""
        if (chosen := self._any()) is None:
            return
        uid, (old, node, _) = chosen
        new, rng = self._new_pod(node, like=old), self._rng
        labels = {**old.metadata.labels, "touched": str(rng.randrange(2))}
        metadata = replace(new.metadata, labels=rng.choice((labels, old.metadata.labels, {})))
        if rng.random() < 0.5:
            metadata = replace(metadata, deletion_timestamp=old.metadata.deletion_timestamp)
        affinity = rng.choice((old.spec.affinity, new.spec.affinity))
        containers = rng.choice((old.spec.containers, old.spec.containers, new.spec.containers))
        spec = replace(old.spec, node_name=node, affinity=affinity, containers=containers)
        status = new.status if self._more.random() < 0.3 else old.status
        pod = replace(old, metadata=metadata, spec=spec, status=status)
        self._nominated.remove(lambda other: other.uid == uid)
        self.cache.put_pod(pod)
        self._order.move(uid, node)
        self._pods[uid] = pod, node, False

    def _finish(self) -> None:
        if (chosen := self._any()) is not None:
            uid, (old, node, _) = chosen
            status = replace(old.status, phase=self._rng.choice(FINISHED))
            pod = replace(old, status=status, spec=replace(old.spec, node_name=node))
            self._nominated.remove(lambda other: other.uid == uid)
            self.cache.put_pod(pod)
            self._drop(uid)

    def _remove(self) -> None:
        uid = self._rng.choice([*self._pods, "unknown"])
        self.cache.remove_pod(uid)
        self._drop(uid)
        self._nominated.remove(lambda other: other.uid == uid)

    def _remove_by_key(self) -> None:
        """Removes a pod of which only the name is known."""
        infos = [PodInfo(pod) for pod, _, _ in self._pods.values()]
        infos += [info for info, _ in self._nominated.entries]
        if not infos:
            return
        key = self._rng.choice(infos).key
        uids = [uid for uid, (pod, _, _) in self._pods.items() if PodInfo(pod).key == key]
        self.cache.remove_pod_by_key(key)
        if uids:
            self._drop(uids[0])
            self._nominated.remove(lambda other: other.uid == uids[0])
        else:
            self._nominated.remove(lambda other: other.key == key)

    def _drop(self, uid: str) -> None:
        self._pods.pop(uid, None)
        self._order.leave(uid)

    def _any(self) -> tuple[str, tuple[Pod, str, bool]] | None:
        return self._rng.choice(list(self._pods.items())) if self._pods else None


def _of_key(pods: Mapping[str, tuple[Pod, str, bool]], pod: Pod) -> list[str]:
    key = PodInfo(pod).key
    return [uid for uid, (other, _, _) in pods.items() if PodInfo(other).key == key]


def _named_like(pod: Pod, other: Pod) -> Pod:
    name, namespace = other.metadata.name, other.metadata.namespace
    return replace(pod, metadata=replace(pod.metadata, name=name, namespace=namespace))


def _terms(pods: Mapping[str, tuple[Pod, str, bool]], sort: str) -> Iterator[tuple[str, Term]]:
    """Yields the terms of all pods, with their nodes."""
    twin = AffinityTwin()
    for pod, node, _ in pods.values():
        for of_twin in SORTS.get(sort, ("preferred", "unpreferred")):
            for term in twin.terms(PodInfo(pod), of_twin):
                yield node, term


def _keys(infos: list[PodInfo]) -> list[str]:
    return [info.key for info in infos]


def _nominate_in(info: PodInfo, node: str, *nominators: Nominator | NominatorModel) -> None:
    for nominator in nominators:
        nominator.nominate(info, node)


def run_state(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: the cache differs from the objects.
    """
    with small_tables(seeded_random(seed + 10)):
        run = StateRun(seed)
        leftovers = CacheLeftovers(run.cache)
        run.run()
        problems = run.problems or leftovers.problems()
    assert not problems, problems[0]
