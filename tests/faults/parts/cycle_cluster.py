"""The pods of a run of cycles: a dict for the API server, its watch, and users who change them.

All takes multiples of half a second, so that many things happen at the same moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from mooring.client import ObjectChange
from mooring.clock import Rng
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
#: In some runs so many of them meet the deletion of a node that has pods. It comes back later.
DROPPED_SHARE: Final = 0.1
DROPPED: Final = NODES[0]
ABSENT_STEPS: Final = 12
DELETED: Final = "2026-01-01T00:00:00Z"


class PodCluster(Observer):
    """The pods that are stored, and those that the watch has reported.

    Args:
        rng: Draws what happens.
        on_change: Handles a change of a kind that the watch reports.

    Attributes:
        rng: See above.
        nodes: Those that exist, by name.
    """

    def __init__(self, rng: Rng, on_change: Callable[[str, ObjectChange], None]) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.rng, self._loop, self._on_change = rng, loop, on_change
        self._server, self._live = PodHistory(rng), dict[str, Pod]()
        self._lag_steps = rng.choice((1, 4, 12))
        self.nodes = {name: make_node(name) for name in NODES}

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

    def delete_placed(self) -> None:
        """Deletes a pod that is placed, now and then, which is reported at once."""
        if self.rng.random() >= DELETED_SHARE:
            return
        if (pod := self._server.any(lambda pod: bool(pod.spec.node_name))) is not None:
            self._server.remove(pod)
            self._deliver(pod.metadata.name)

    def drop_node(self, rng: Rng) -> None:
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
            self._store(replace(pod, metadata=replace(pod.metadata, deletion_timestamp=DELETED)))

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
