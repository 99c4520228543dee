"""All rejections of a pod, as the page shows them, by up to five plugins with drawn results.

A plugin has PreFilter, Filter or both; it skips the pod, rejects it, leaves some nodes, raises, or
rejects nodes. None of that ends the others: each rejection is there, in the order of the plugins,
on all nodes or on one. With nominated pods a plugin may reject a node for another reason, which
goes before its reason without them; some plugins have nothing to do with some pods, and are not
called; and nodes come and go, also such with pods.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any, Final

from mooring.clock import VirtualClock, seeded_random
from mooring.decision import Rejection
from mooring.framework import Cycle, Framework, NodeView, Profile, Reject
from mooring.framework.runtime.all_rejections import all_rejections
from mooring.framework.status import FilterStatuses, PreFilterResult, Skip, Status
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import make_node, make_pod

TRIALS: Final = 20
PLUGINS_MAX: Final = 5
#: Of the plugins, those that do not apply to some pods.
SELECTIVE_SHARE: Final = 0.3
NODES: Final = tuple(f"node-{number}" for number in range(6))
SKIPS, REJECTS, RAISES, LEAVES, PASSES = "skips", "rejects", "raises", "leaves", "passes"
CODES: Final = {True: "Unschedulable", False: "UnschedulableAndUnresolvable"}


class Drawn:
    """A plugin whose results are drawn.

    Attributes:
        before: What PreFilter does; "" if it has none.
        left: The nodes that it leaves.
        reasons: Node -> why Filter rejects it, and whether a preemption may help.
        raises: Whether Filter raises.
        reasons_if_nominated: The same as ``reasons``, of nodes to which pods are nominated.
        is_idle: Whether it has nothing to do with the pod.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.reasons_if_nominated: dict[str, tuple[str, bool]] = {}
        self.is_idle = False
        self.before = ""
        self.left: frozenset[str] = frozenset()
        self.reasons: dict[str, tuple[str, bool]] = {}
        self.raises = False


class DrawnPreFilter(Drawn):
    """A plugin with PreFilter."""

    def pre_filter(self, cycle: Cycle) -> Status | PreFilterResult | Skip | None:
        """Returns what is drawn."""
        del cycle
        if self.before == RAISES:
            raise ValueError("broken")
        results: dict[str, Any] = {
            SKIPS: Skip.SKIP,
            REJECTS: Reject(f"not for {self.name}", resolvable=False),
            LEAVES: PreFilterResult(self.left),
        }
        return results.get(self.before)


class DrawnFilter(Drawn):
    """A plugin with Filter."""

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Returns the drawn status of each node."""
        del cycle
        if self.raises:
            raise ValueError("broken")
        return FilterStatuses.of(
            [
                self._status(name, has_added=bool(added))
                for name, added in zip(nodes.names, nodes.added, strict=True)
            ]
        )

    def rejections(self, names: Sequence[str], nominated: Set[str]) -> dict[str, Rejection]:
        """Returns the rejection of each node."""
        crowded = {name: it for name, it in self.reasons_if_nominated.items() if name in nominated}
        reasons = self.reasons | crowded
        of_nodes = {name: reasons[name] for name in names if name in reasons}
        return {
            name: Rejection(self.name, CODES[is_resolvable], (reason,))
            for name, (reason, is_resolvable) in of_nodes.items()
        }

    def _status(self, name: str, *, has_added: bool) -> Status | None:
        reasons = self.reasons | (self.reasons_if_nominated if has_added else {})
        if name not in reasons:
            return None
        reason, is_resolvable = reasons[name]
        return Reject(reason, resolvable=is_resolvable)


class DrawnBoth(DrawnPreFilter, DrawnFilter):
    """A plugin with both."""


class Selective(Drawn):
    """A plugin that does not apply to some pods."""

    def applies_to(self, pod: PodInfo) -> bool:
        """Returns what is drawn."""
        del pod
        return not self.is_idle


class SelectivePreFilter(Selective, DrawnPreFilter):
    """Such a plugin with PreFilter."""


class SelectiveFilter(Selective, DrawnFilter):
    """Such a plugin with Filter."""


class SelectiveBoth(Selective, DrawnBoth):
    """Such a plugin with both."""


#: The same plugins, but they do not apply to some pods.
SELECTIVE: Final[dict[type[Drawn], type[Drawn]]] = {
    DrawnPreFilter: SelectivePreFilter,
    DrawnFilter: SelectiveFilter,
    DrawnBoth: SelectiveBoth,
}


class RejectionsRun:
    """One run.

    Attributes:
        problems: Differences to the loop.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self._rng = rng = seeded_random(seed)
        self._more = more = seeded_random(seed + 1_000_000)
        self._cache = Cache()
        #: In the order in which they came.
        self._nodes: list[str] = []
        for name in NODES:
            self._add_node(name)
        #: The nodes to which pods are nominated.
        self._nominated: set[str] = set()
        kinds: list[type[Drawn]] = [
            rng.choice((DrawnPreFilter, DrawnFilter, DrawnBoth, DrawnBoth))
            for _ in range(rng.randint(1, PLUGINS_MAX))
        ]
        self._plugins = [
            (SELECTIVE[kind] if more.random() < SELECTIVE_SHARE else kind)(f"P{number}")
            for number, kind in enumerate(kinds)
        ]
        points = {
            point: [plugin for plugin in self._plugins if hasattr(plugin, point)]
            for point in ("pre_filter", "filter")
        }
        # The order of Filter may be another one than that of PreFilter.
        rng.shuffle(points["filter"])
        self._filters: list[Any] = points["filter"]
        self._framework = Framework(Profile("rejections", points, {}), clock=VirtualClock())

    def run(self) -> None:
        """Compares the rejections of some pods."""
        for number in range(TRIALS):
            for plugin in self._plugins:
                self._draw(plugin)
            if self._more.random() < 0.3:
                self._change_node(number)
            self._compare(f"pod-{number}")
            if self.problems:
                return

    def _draw(self, plugin: Drawn) -> None:
        rng = self._rng
        plugin.before = rng.choice((PASSES, PASSES, SKIPS, REJECTS, RAISES, LEAVES))
        plugin.left = frozenset(rng.sample(NODES, rng.randrange(len(NODES))))
        names = rng.sample(NODES, rng.choice((0, 1, len(NODES))))
        plugin.reasons = {
            name: (f"no {plugin.name} {rng.randrange(2)}", rng.random() < 0.5) for name in names
        }
        plugin.raises = rng.random() < 0.1
        more = self._more
        plugin.reasons_if_nominated = {
            name: (f"{plugin.name} is full", more.random() < 0.5)
            for name in NODES
            if more.random() < 0.3
        }
        plugin.is_idle = isinstance(plugin, Selective) and more.random() < 0.4

    def _change_node(self, number: int) -> None:
        """Adds a node, or removes it, mostly with a pod, which stays."""
        name = self._more.choice(NODES)
        if name not in self._nodes:
            self._add_node(name)
        elif len(self._nodes) > 1:
            if self._more.random() < 0.6:
                uid = f"placed-{number}"
                self._cache.put_pod(make_pod(uid, uid=uid, node=name))
            self._nodes.remove(name)
            self._cache.remove_node(name)

    def _add_node(self, name: str) -> None:
        self._nodes.append(name)
        self._cache.put_node(make_node(name))

    def _compare(self, name: str) -> None:
        rng = self._rng
        if rng.random() < 0.4:
            nominated = PodInfo(make_pod(f"nominated-{name}", uid=f"nominated-{name}"))
            node_name = rng.choice(NODES)
            self._cache.nominator.nominate(nominated, node_name)
            self._nominated.add(node_name)
        node = rng.choice((None, None, *NODES))
        if node not in self._nodes:
            node = None
        # Pods that differ in their names alone are signed once.
        pod, snapshot = make_pod(name, uid=name, labels={"name": name}), self._cache.snapshot()
        real = all_rejections(self._framework, pod, snapshot, node=node)
        of_pod, of_nodes, failed = self._expected(self._nodes if node is None else [node])
        if (list(real.of_pod), list(real.of_nodes.items())) != (of_pod, list(of_nodes.items())):
            self.problems.append(f"{name} has {real}, not {of_pod} {of_nodes}")
        if real.errors.keys() != failed or any("broken" not in it for it in real.errors.values()):
            self.problems.append(f"{name} has the errors {real.errors}, not of {failed}")

    def _expected(
        self, names: Sequence[str]
    ) -> tuple[list[Rejection], dict[str, tuple[Rejection, ...]], set[str]]:
        """Returns the rejections of the pod and of nodes, and the plugins that raise."""
        of_pod, failed, skipped = list[Rejection](), set[str](), set[str]()
        of_nodes: dict[str, list[Rejection]] = {name: [] for name in names}
        for plugin in self._plugins:
            if plugin.is_idle:
                skipped.add(plugin.name)
            if plugin.is_idle or not isinstance(plugin, DrawnPreFilter):
                continue
            if plugin.before in (SKIPS, REJECTS, RAISES):
                skipped.add(plugin.name)
            if plugin.before == RAISES:
                failed.add(plugin.name)
            elif plugin.before == REJECTS:
                of_pod.append(Rejection(plugin.name, CODES[False], (f"not for {plugin.name}",)))
            elif plugin.before == LEAVES:
                text = f"node(s) didn't satisfy plugin(s) [{plugin.name}]"
                left_out = Rejection(plugin.name, CODES[False], (text,))
                _add({name: left_out for name in names if name not in plugin.left}, of_nodes)
        for plugin in self._filters:
            if plugin.name in skipped:
                continue
            if plugin.raises:
                failed.add(plugin.name)
                continue
            _add(plugin.rejections(names, self._nominated), of_nodes)
        return of_pod, {name: tuple(it) for name, it in of_nodes.items() if it}, failed


def _add(rejections: dict[str, Rejection], of_nodes: dict[str, list[Rejection]]) -> None:
    """Adds the rejections of one plugin, but for nodes that it has rejected before."""
    for name, rejection in rejections.items():
        if all(earlier.plugin != rejection.plugin for earlier in of_nodes[name]):
            of_nodes[name].append(rejection)


def run_rejections(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a rejection is missing, or there is one too many.
    """
    run = RejectionsRun(seed)
    run.run()
    assert not run.problems, run.problems[0]
