"""Follows assumed volumes and claims, and each wait until the claims of a pod are bound."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from mooring.errors import PluginError
from mooring.objects.meta import key
from mooring.objects.volume_claims import SELECTED_NODE
from mooring.scheduler.service import Service
from tests.faults.parts.volumes_places import meets
from tests.faults.twins.content_versions import ContentVersions, of_storage

VOLUME, CLAIM = "PersistentVolume", "PersistentVolumeClaim"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
#: A wait ends at most so many seconds after its result is known: it is checked once per second.
LATE_MAX: Final = 3

PENDING, BOUND = "pending", "bound"


class AssumedModel:
    """Compares the assumed versions of a kind with a dict."""

    def __init__(
        self,
        storage: Any,
        kind: str,
        versions: ContentVersions,
        report: Callable[[str], None],
    ) -> None:
        self._storage, self._kind, self._report = storage, kind, report
        self._versions = versions
        self.stored: dict[str, Any] = {}
        self.assumed: dict[str, Any] = {}
        name = "volume" if kind == VOLUME else "claim"
        for verb, follow in (("assume", self._assume), ("restore", self._restore)):
            method = f"{verb}_{name}"
            setattr(storage, method, self._followed(getattr(storage, method), follow))
        put, remove = storage.put, storage.remove

        def followed_remove(kind: str, object_key: str) -> None:
            remove(kind, object_key)
            if kind == self._kind:
                self.stored.pop(object_key, None)
                self.assumed.pop(object_key, None)
                self._compare(f"removal of {object_key}")

        storage.put = self._followed(put, self._put)
        storage.remove = followed_remove

    def _followed(self, real: Callable[[Any], None], follow: Callable[[Any], None]) -> Any:
        def call(obj: Any) -> None:
            real(obj)
            if type(obj).__name__ == self._kind:
                follow(obj)
                self._compare(f"change of {obj.metadata.name}")

        return call

    def _put(self, obj: Any) -> None:
        name = self._key(obj)
        self.stored[name] = obj
        before, after = self.assumed.get(name), obj.metadata.resource_version
        if before is not None and (not after or before.metadata.resource_version != after):
            del self.assumed[name]

    def _assume(self, obj: Any) -> None:
        self.assumed[self._key(obj)] = obj

    def _restore(self, obj: Any) -> None:
        if self.assumed.get(self._key(obj)) is obj:
            del self.assumed[self._key(obj)]

    def _key(self, obj: Any) -> str:
        return obj.metadata.name if self._kind == VOLUME else key(obj)

    def _compare(self, what: str) -> None:
        real = self._storage.assumed()[0 if self._kind == VOLUME else 1]
        if {name: id(obj) for name, obj in real.items()} != {
            name: id(obj) for name, obj in self.assumed.items()
        }:
            self._report(f"after a {what} {sorted(real)} are assumed, not {sorted(self.assumed)}")
        self._versions.compare()


class Writes:
    """The handle of a plugin; it records which writes of a wait have succeeded."""

    def __init__(self, real: Any, waits: AttachedVolumes) -> None:
        self._real, self._waits = real, waits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    async def patch(self, kind: str, object_key: str, patch: Any) -> Any:
        """Writes, and notes the version that is stored."""
        stored = await self._real.patch(kind, object_key, patch)
        self._waits.note_written(kind, object_key, stored)
        return stored


@dataclass
class Wait:
    """The binding of one pod's volumes.

    Attributes:
        volumes: Name -> claim of the volumes to be bound.
        claims: The claims to be provisioned.
        assumed: The assumed versions, by kind and key.
        others: The identities of those that another pod has assumed.
        written: (kind, key) -> the version that was written.
        late: Number of checks since its result is known.
    """

    task: asyncio.Task[Any] | None
    uid: str
    node: str
    ends_s: float
    volumes: dict[str, str]
    claims: list[str]
    assumed: dict[tuple[str, str], Any]
    others: set[int]
    written: dict[tuple[str, str], int] = field(default_factory=dict)
    late: int = 0

    def is_written(self) -> bool:
        """Returns whether all writes have succeeded."""
        n_bindings = len(self.volumes) + len(self.claims)
        return len(self.written) == n_bindings


class AttachedVolumes:
    """Compares assumed versions, and the end of each wait, with plain rules.

    Args:
        service: Has not begun yet.
        report: Called with each difference.
    """

    def __init__(self, service: Service, report: Callable[[str], None]) -> None:
        self._service, self._report = service, report
        storage: Any = service.cache.storage
        versions = ContentVersions(of_storage(service.cache), report)
        self._models = [AssumedModel(storage, kind, versions, report) for kind in (VOLUME, CLAIM)]
        self._storage = storage
        self._waits: list[Wait] = []
        self._now_s: Callable[[], float] = lambda: 0.0
        self._timeout_s = self._ticked_at_s = 0.0
        #: UID -> the versions that an attempt has assumed, and has not written.
        self._reserved: dict[str, dict[tuple[str, str], Any]] = {}
        for framework in service.profiles.values():
            for plugin in framework.plugins("pre_bind"):
                if plugin.name == "VolumeBinding":
                    self._attach(plugin._binder)

    def _attach(self, binder: Any) -> None:
        self._now_s, self._timeout_s = binder._handle.monotonic_s, binder._timeout_s
        binder._handle = Writes(binder._handle, self)
        real = binder.bind

        async def bind(pod: Any, node_name: str, volumes: Any) -> None:
            assumed = {(VOLUME, b.volume.metadata.name): b.volume for b in volumes.bindings}
            assumed |= {(CLAIM, key(p.claim)): p.claim for p in volumes.provisions}
            wait = Wait(
                asyncio.current_task(),
                pod.uid,
                node_name,
                self._now_s() + binder._timeout_s,
                {b.volume.metadata.name: key(b.claim) for b in volumes.bindings},
                [key(provision.claim) for provision in volumes.provisions],
                assumed,
                # A pod with the same claim may have assumed it, and may still write.
                {id(b.volume) for b in volumes.bindings if not b.is_assumed},
            )
            self._waits.append(wait)
            try:
                await real(pod, node_name, volumes)
            except PluginError:
                # The time to wait begins when all is written.
                if wait.is_written() and self._now_s() < wait.ends_s:
                    self._check_failure(pod.key, wait)
                raise
            else:
                if (state := self._state(wait)) != BOUND:
                    self._report(f"{pod.key} goes on, but its volumes are {state}")
            finally:
                self._waits.remove(wait)
                self._check_reverted(pod.key, wait)

        binder.bind = bind

    def note_written(self, kind: str, object_key: str, stored: Any) -> None:
        """Follows a write that has succeeded."""
        for wait in self._waits:
            if wait.task is asyncio.current_task() and (kind, object_key) in wait.assumed:
                wait.written[kind, object_key] = int(stored.metadata.resource_version)
                wait.ends_s = self._now_s() + self._timeout_s
                self._reserved.get(wait.uid, {}).pop((kind, object_key), None)

    def reserved(self, uid: str, assumed: dict[tuple[str, str], Any]) -> None:
        """Remembers what an attempt has assumed."""
        self._reserved[uid] = assumed

    def released(self, uid: str) -> None:
        """Checks, after Unreserve, that nothing stays assumed that is not written."""
        for (kind, name), obj in self._reserved.pop(uid, {}).items():
            models = [model for model in self._models if model._kind == kind]
            if any(model.assumed.get(name) is obj for model in models):
                self._report(f"{uid} has failed, but {kind} {name} stays assumed")

    def on_tick(self) -> None:
        """Checks once per second that no pod waits although its result is known."""
        now_s = self._now_s()
        if now_s == self._ticked_at_s:
            return  # nothing had the time to end
        self._ticked_at_s = now_s
        for wait in self._waits:
            state = self._state(wait) if wait.is_written() else PENDING
            is_over = wait.is_written() and self._now_s() > wait.ends_s
            state = "over" if state == PENDING and is_over else state
            wait.late = wait.late + 1 if state != PENDING else 0
            if wait.late > LATE_MAX:
                self._report(f"the volumes of {wait.uid} are waited for, but: {state}")

    def _check_reverted(self, pod_key: str, wait: Wait) -> None:
        for model in self._models:
            for (kind, name), obj in wait.assumed.items():
                is_left = (kind, name) not in wait.written and model.assumed.get(name) is obj
                if kind == model._kind and is_left and id(obj) not in wait.others:
                    self._report(f"{pod_key} has ended, but {kind} {name} stays assumed")

    def _check_failure(self, pod_key: str, wait: Wait) -> None:
        if (state := self._state(wait)) in (PENDING, BOUND):
            self._report(f"the volumes of {pod_key} count as failed, but are {state}")

    def _stored(self, kind: str, object_key: str) -> Any:
        return self._models[0 if kind == VOLUME else 1].stored.get(object_key)

    def _state(self, wait: Wait) -> str:
        """Returns BOUND, PENDING, or why the volumes cannot be bound any more.

        In order: what comes first has to be bound before the next is looked at.
        """
        cache = self._service.cache
        if cache.nodes.live_row(wait.node) < 0 or cache.pods.get(wait.uid) is None:
            return "its node or the pod is gone"
        for name, claim_key in wait.volumes.items():
            volume, claim = self._stored(VOLUME, name), self._stored(CLAIM, claim_key)
            if volume is None or claim is None:
                return f"{name} or {claim_key} is gone"
            if _version(volume) < wait.written[VOLUME, name]:
                return PENDING
            if not self._is_reachable(wait, volume):
                return f"{name} is out of reach"
            if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
                return f"{name} names no claim"
            if not _is_bound(claim):
                return PENDING
        return next(
            (state for state in map(partial(self._of_claim, wait), wait.claims) if state), BOUND
        )

    def _of_claim(self, wait: Wait, claim_key: str) -> str:
        """Returns the state of a claim that is to be provisioned; "" if it is bound."""
        claim = self._stored(CLAIM, claim_key)
        if claim is None:
            return f"{claim_key} is gone"
        if _version(claim) < wait.written[CLAIM, claim_key]:
            return PENDING
        selected = claim.metadata.annotations.get(SELECTED_NODE, "")
        if selected != wait.node:
            return f"{claim_key} has node {selected!r}"
        name = claim.spec.volume_name
        volume = self._stored(VOLUME, name)
        if volume is not None and not self._is_reachable(wait, volume):
            return f"{name} is out of reach"
        has_volume = not name or volume is not None
        return "" if has_volume and _is_bound(claim) else PENDING

    def _is_reachable(self, wait: Wait, volume: Any) -> bool:
        """Returns whether the node still meets the affinity."""
        nodes, affinity = self._service.cache.nodes, volume.spec.node_affinity
        if affinity is None or affinity.required is None:
            return True
        labels = nodes.node(nodes.live_row(wait.node)).metadata.labels
        return any(
            all(
                meets(labels, rule.key, rule.operator, rule.values)
                for rule in term.match_expressions
            )
            for term in affinity.required.node_selector_terms
        )


def _version(obj: Any) -> int:
    return int(obj.metadata.resource_version)


def _is_bound(claim: Any) -> bool:
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations
