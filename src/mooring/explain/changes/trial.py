"""Decides again with changes, and undoes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mooring.decision import SCHEDULED
from mooring.errors import SchedulerError
from mooring.explain.changes.change import SuggestedChange
from mooring.objects.meta import key
from mooring.objects.pod import Pod
from mooring.objects.storage import PersistentVolumeClaim
from mooring.simulation.driver import Driver


class Trials:
    """Decisions about one pod on changed clusters.

    Args:
        driver: The cluster and the plugins. After each decision the cluster is as before.
        pod: The pod.
    """

    def __init__(self, driver: Driver, pod: Pod) -> None:
        self._driver = driver
        self._pod = pod

    def node_with(self, changes: Sequence[SuggestedChange]) -> str | None:
        """Returns the node of the pod with these changes; None = there is none."""
        pod = self._pod
        for change in changes:
            pod = change.edit(pod) if change.edit is not None else pod
        start_index = self._driver.next_start_index
        before = self._apply(changes)
        try:
            outcome = self._driver.attempt(pod, start_index=0)
            return outcome.node if outcome.result == SCHEDULED else None
        except SchedulerError:
            return None
        finally:
            self._undo(changes, before)
            self._driver.next_start_index = start_index

    def _apply(self, changes: Sequence[SuggestedChange]) -> dict[str, Any]:
        """Makes the changes of the cluster; returns the nodes and claims as they were."""
        driver, before = self._driver, dict[str, Any]()
        storage = driver.cache.snapshot().storage
        for change in changes:
            for pod in change.removes:
                driver.remove("Pod", pod.metadata.namespace, pod.metadata.name)
            for name, update in change.updates.items():
                node = driver.nodes.node(driver.nodes.live_row(name))
                before.setdefault(name, node)
                driver.update(update(node))
            for obj in change.adds:
                claim = storage.claim(key(obj))
                if isinstance(obj, PersistentVolumeClaim) and claim is not None:
                    before.setdefault(key(obj), claim)
                driver.update(obj)
        return before

    def _undo(self, changes: Sequence[SuggestedChange], before: dict[str, Any]) -> None:
        driver = self._driver
        for change in reversed(changes):
            for obj in reversed(change.adds):
                driver.remove(type(obj).__name__, obj.metadata.namespace, obj.metadata.name)
        for obj in before.values():
            driver.update(obj)
        for change in changes:
            for pod in change.removes:
                driver.place(pod, pod.spec.node_name)
