"""Decides again with changes, and undoes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

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
        storage, claims = driver.cache.snapshot().storage, driver.cache.devices.claims
        for change in changes:
            for pod in change.removes:
                driver.remove("Pod", pod.metadata.namespace, pod.metadata.name)
                self._release(pod, before)
            for name, update in change.updates.items():
                node = driver.nodes.node(driver.nodes.live_row(name))
                before.setdefault(name, node)
                driver.update(update(node))
            for name, edit in change.claims.items():
                resource_claim = claims.get(name)
                if resource_claim is not None:
                    before.setdefault(f"ResourceClaim {name}", resource_claim)
                    driver.update(replace(resource_claim, spec=edit(resource_claim.spec)))
            for obj in change.adds:
                claim = storage.claim(key(obj))
                if isinstance(obj, PersistentVolumeClaim) and claim is not None:
                    before.setdefault(key(obj), claim)
                driver.update(obj)
        return before

    def _release(self, pod: Pod, before: dict[str, Any]) -> None:
        """Takes a removed pod from the users of its resource claims, as their controller does."""
        claims = {key(claim): claim for claim in self._driver.cache.devices.claims.all()}
        writer = self._driver.handle.claim_writer
        writer.release(pod)
        written, deleted = writer.take_changes()
        for name in (*map(key, written), *deleted):
            before.setdefault(f"ResourceClaim {name}", claims[name])

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
