"""The pods of a run of cycles: a dict for the API server, its watch, and users who change them.

All takes multiples of half a second, so that many things happen at the same moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final

from msgspec.structs import replace

from mooring.client import ObjectChange
from mooring.clock import Rng, seeded_random
from mooring.objects.pod import Pod
from mooring.scheduler.observer import Observer
from mooring.state import PodInfo
from mooring.testing import make_node, make_pod
from mooring.virtual_loop import VirtualLoop
from tests.faults.parts.cycle_script import STEP_S
from tests.faults.parts.handlers_run import PodHistory

PODS: Final = 8
NODES: Final = ("a", "b")
#: Of the calls of extenders so many meet the deletion of a placed pod.
DELETED_SHARE: Final = 0.2
#: In such seeds so many of them meet the deletion of a node that has pods. It comes back later.
DROPS_EVERY: Final = 3
DROPPED_SHARE: Final = 0.1
DROPPED: Final = NODES[0]
ABSENT_STEPS: Final = 12
DELETED: Final = "2026-01-01T00:00:00Z"
#: In so many runs so many calls of extenders meet a change of the very pod that is tried.
CHANGING_SHARE: Final = 0.4
CHANGED_SHARE: Final = 0.15
CHANGES: Final = ("terminate", "terminate", "delete", "replace", "bind", "relabel")


class PodCluster(Observer):
    """The pods that are stored, and those that the watch has reported.

    Args:
        rng: Draws what happens.
        on_change: Handles a change of a kind that the watch reports.
        seed: Of the run; draws what happens to the very pod that is tried.

    Attributes:
        rng: See above.
        nodes: Those that exist, by name.
        is_quiet: Whether users do nothing any more.
    """

    def __init__(self, rng: Rng, on_change: Callable[[str, ObjectChange], None], seed: int) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.rng, self._loop, self._on_change = rng, loop, on_change
        self._server, self._live = PodHistory(rng), dict[str, Pod]()
        self._lag_steps = rng.choice((1, 4, 12))
        self.nodes = {name: make_node(name) for name in NODES}
        self.is_quiet = False
        #: Draws when a node goes; None = none does.
        self._drops = seeded_random(seed + 2) if seed % DROPS_EVERY == 0 else None
        self._changing = Random(f"{seed} changes of attempted pods")
        self._changed_share = CHANGED_SHARE * (self._changing.random() < CHANGING_SHARE)

    def _store(self, pod: Pod, **status: Any) -> None:
        self._server.store(pod, **status)
        self._watch(pod.metadata.name)

    def _watch(self, name: str) -> None:
        delay_s = STEP_S * self.rng.randrange(self._lag_steps)
        self._loop.call_later(delay_s, self._deliver, name)

    def _deliver(self, name: str) -> None:
        """Reports the newest version of a pod."""
        key = f"default/{name}"
        old, new = self._live.get(key), self._server.stored.get(name)
        if old is new:
            return
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            del self._live[key]
            self._on_change("Pod", ObjectChange(old, None))
            old = None
        if new is not None:
            self._live[key] = new
            self._on_change("Pod", ObjectChange(old, new))

    def _create(self) -> None:
        name = f"pod{self.rng.randrange(PODS)}"
        if name not in self._server.stored:
            self._server.count += 1
            priority = self.rng.choice((0, 5, 10))
            self._store(make_pod(name, uid=f"{name}-{self._server.count}", priority=priority))

    def _delete(self) -> None:
        if (pod := self._server.any()) is not None:
            self._server.remove(pod)
            self._watch(pod.metadata.name)

    def _delete_placed(self) -> None:
        """Deletes a pod that is placed, now and then, which is reported at once."""
        if self.rng.random() >= DELETED_SHARE:
            return
        if (pod := self._server.any(lambda pod: bool(pod.spec.node_name))) is not None:
            self._server.remove(pod)
            self._deliver(pod.metadata.name)

    def during_call(self, uid: str) -> None:
        """Lets events be buffered, while an extender is called for a pod."""
        if not self.is_quiet:
            self._delete_placed()
            if self._drops is not None:
                self._drop_node(self._drops)
            self._change_attempted(uid)

    def _change_attempted(self, uid: str) -> None:
        """Changes the pod that is tried, now and then, which is reported at once."""
        if self._changing.random() >= self._changed_share:
            return
        pod = next((it for it in self._server.stored.values() if it.metadata.uid == uid), None)
        if pod is None or pod.spec.node_name:
            return
        what, name = self._changing.choice(CHANGES), pod.metadata.name
        if what == "terminate":
            self._server.store(_terminating(pod))
        elif what == "bind":
            self._bind(PodInfo(pod), self._changing.choice(NODES))
        elif what == "relabel":
            labels = {"touched": str(self._changing.randrange(9))}
            self._server.store(replace(pod, metadata=replace(pod.metadata, labels=labels)))
        else:
            self._server.remove(pod)
            if what == "replace":
                self._server.count += 1
                self._server.store(make_pod(name, uid=f"{name}-{self._server.count}"))
        self._deliver(name)

    def unplaceable(self, info: PodInfo) -> Iterator[str]:
        """Yields why a pod must not be placed, by what the watch has reported of it."""
        live = self._live.get(info.key)
        if live is None or live.metadata.uid != info.uid:
            yield f"{info.key} is placed, but is gone"
        elif live.spec.node_name:
            yield f"{info.key} is placed, but is on {live.spec.node_name}"
        elif live.metadata.deletion_timestamp is not None:
            yield f"{info.key} is placed, but is being deleted"

    def unskippable(self, info: PodInfo) -> Iterator[str]:
        """Yields why a pod must not be left out as one that is being deleted."""
        live = self._live.get(info.key)
        if info.pod is not live or info.metadata.deletion_timestamp is None:
            yield f"{info.pod} has no attempt, but the newest one is {live}"

    def _drop_node(self, rng: Rng) -> None:
        """Deletes a node, now and then, which is reported at once; it comes back."""
        if DROPPED not in self.nodes or rng.random() >= DROPPED_SHARE:
            return
        node = self.nodes.pop(DROPPED)
        self._on_change("Node", ObjectChange(node, None))
        self._loop.call_later(STEP_S * rng.randrange(1, ABSENT_STEPS), self._return_node)

    def _return_node(self) -> None:
        node = self.nodes[DROPPED] = make_node(DROPPED)
        self._on_change("Node", ObjectChange(None, node))

    def _replace(self) -> None:
        self._delete()
        self._create()

    def _terminate(self) -> None:
        if (pod := self._server.any()) is not None:
            self._store(_terminating(pod))

    def _relabel(self) -> None:
        if (pod := self._server.any()) is not None:
            labels = {"touched": str(self.rng.randrange(9))}
            self._store(replace(pod, metadata=replace(pod.metadata, labels=labels)))

    def _nominate(self) -> None:
        if (pod := self._server.any(lambda pod: not pod.spec.node_name)) is not None:
            self._store(pod, nominated_node_name=self.rng.choice(("", *NODES)))

    def _bind_elsewhere(self) -> None:
        if (pod := self._server.any(lambda pod: not pod.spec.node_name)) is not None:
            self._bind(PodInfo(pod), self.rng.choice(NODES))

    def _bind(self, info: PodInfo, node_name: str) -> bool:
        pod = self._server.stored.get(info.metadata.name)
        if pod is None or pod.metadata.uid != info.uid or pod.spec.node_name:
            return False
        spec = replace(pod.spec, node_name=node_name)
        self._store(replace(pod, spec=spec), nominated_node_name="")
        return True


def _terminating(pod: Pod) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, deletion_timestamp=DELETED))
