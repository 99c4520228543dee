"""All rejections of a pod, as the page shows them, by up to five plugins with drawn results.

A plugin has PreFilter, Filter or both; it skips the pod, rejects it, leaves some nodes, raises, or
rejects nodes. None of that ends the others: each rejection is there, in the order of the plugins,
on all nodes or on one, also with nominated pods.
"""

from __future__ import annotations

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
    """

    def __init__(self, name: str) -> None:
        self.name = name
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
        return FilterStatuses.of([self._status(name) for name in nodes.names])

    def rejections(self, names: tuple[str, ...]) -> dict[str, Rejection]:
        """Returns the rejection of each node."""
        of_nodes = {name: self.reasons[name] for name in names if name in self.reasons}
        return {
            name: Rejection(self.name, CODES[is_resolvable], (reason,))
            for name, (reason, is_resolvable) in of_nodes.items()
        }

    def _status(self, name: str) -> Status | None:
        if name not in self.reasons:
            return None
        reason, is_resolvable = self.reasons[name]
        return Reject(reason, resolvable=is_resolvable)


class DrawnBoth(DrawnPreFilter, DrawnFilter):
    """A plugin with both."""


class RejectionsRun:
    """One run.

    Attributes:
        problems: Differences to the loop.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self._rng = rng = seeded_random(seed)
        self._cache = Cache()
        for name in NODES:
            self._cache.put_node(make_node(name))
        self._plugins = [
            rng.choice((DrawnPreFilter, DrawnFilter, DrawnBoth, DrawnBoth))(f"P{number}")
            for number in range(rng.randint(1, PLUGINS_MAX))
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

    def _compare(self, name: str) -> None:
        rng = self._rng
        if rng.random() < 0.4:
            nominated = PodInfo(make_pod(f"nominated-{name}", uid=f"nominated-{name}"))
            self._cache.nominator.nominate(nominated, rng.choice(NODES))
        node = rng.choice((None, None, *NODES))
        pod, snapshot = make_pod(name, uid=name), self._cache.snapshot()
        real = all_rejections(self._framework, pod, snapshot, node=node)
        of_pod, of_nodes, failed = self._expected(NODES if node is None else (node,))
        if (list(real.of_pod), list(real.of_nodes.items())) != (of_pod, list(of_nodes.items())):
            self.problems.append(f"{name} has {real}, not {of_pod} {of_nodes}")
        if real.errors.keys() != failed or any("broken" not in it for it in real.errors.values()):
            self.problems.append(f"{name} has the errors {real.errors}, not of {failed}")

    def _expected(
        self, names: tuple[str, ...]
    ) -> tuple[list[Rejection], dict[str, tuple[Rejection, ...]], set[str]]:
        """Returns the rejections of the pod and of nodes, and the plugins that raise."""
        of_pod, failed, skipped = list[Rejection](), set[str](), set[str]()
        of_nodes: dict[str, list[Rejection]] = {name: [] for name in names}
        for plugin in self._plugins:
            if not isinstance(plugin, DrawnPreFilter):
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
            _add(plugin.rejections(names), of_nodes)
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
