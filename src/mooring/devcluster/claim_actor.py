"""The controllers of the claims of pods in an in-memory cluster.

They make the claims of pods from templates, also those of ephemeral volumes, take pods that are
gone from the users of resource claims, and deallocate claims without users. ``claim_controller``
and ``ephemeral_volumes`` have the logic; this module watches and writes. Claims of deleted pods are
deleted by the API server, which collects dependents itself.

Source: pkg/controller/resourceclaim/controller.go, pkg/controller/volume/ephemeral/controller.go.
Differs: a claim is not reserved for a pod that a client bound without the scheduler.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from mooring.client import Client, ObjectChange
from mooring.client.retry import Sleep
from mooring.clock import Clock, Rng
from mooring.devcluster.events.claims import on_missing_template
from mooring.devcluster.events.recorder import EventRecorder
from mooring.devcluster.work_queue import WorkQueue
from mooring.errors import AlreadyExists, NotFound, SchedulerError
from mooring.objects.codec.decode import to_builtins
from mooring.objects.meta import controller_of, key
from mooring.objects.pod import Pod, PodResourceClaim
from mooring.objects.resource import (
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimTemplate,
)
from mooring.simulation.claim_controller import (
    POD_CLAIM,
    Release,
    entries_to_generate,
    generated_claim,
    is_done,
    release_of,
    with_statuses,
    without_protection,
)
from mooring.simulation.ephemeral_volumes import ephemeral_claims, has_ephemeral_volumes

_POD: Final = "Pod"
_CLAIM: Final = "ResourceClaim"
_TEMPLATE: Final = "ResourceClaimTemplate"

_log = logging.getLogger(__name__)


class ClaimActor:
    """Makes, deallocates and deletes claims.

    Attributes:
        last_versions: Kind -> resourceVersion of the last object written.

    Args:
        client: A client that may update pods and claims.
        clock: For the watches.
        rng: For the watches.
        sleep: Sleeps so many seconds.
        events: Records which templates do not exist; None = it is not recorded.
    """

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: Rng,
        sleep: Sleep = asyncio.sleep,
        events: EventRecorder | None = None,
    ) -> None:
        self._events = events
        self.last_versions = {_POD: 0, _CLAIM: 0}
        self._client = client
        handlers = {_POD: self._on_pod, _CLAIM: self._on_claim, _TEMPLATE: self._on_template}
        self._work: WorkQueue[tuple[str, str]] = WorkQueue(
            client, handlers, self._sync, _log_failure, clock=clock, rng=rng, sleep=sleep
        )
        #: UIDs of the pods whose ephemeral volumes have claims.
        self._with_volume_claims: set[str] = set()
        #: Claims that were made and that the watch has not reported yet, by key.
        self._unreported: dict[str, ResourceClaim] = {}
        #: (UID of a pod, entry of its spec) -> the claim that was made for it.
        self._generated: dict[tuple[str, str], ResourceClaim] = {}

    async def run(self) -> None:
        """Writes claims until cancelled."""
        await self._work.run()

    def has_seen(self, version: int) -> bool:
        """Returns whether all pods up to a resourceVersion have their claims."""
        return self._work.is_idle and self._work.version(_POD) >= version

    # -- events -----------------------------------------------------------------------------------

    def _on_pod(self, change: ObjectChange) -> None:
        pod: Pod | None = change.new
        if pod is None or is_done(pod):
            for claim_key in self._claim_keys_of(change.old if pod is None else pod):
                self._work.add((_CLAIM, claim_key))
        elif pod.spec.resource_claims or has_ephemeral_volumes(pod):
            self._work.add((_POD, key(pod)))
        if pod is None:
            self._with_volume_claims.discard(change.old.metadata.uid)

    def _claim_keys_of(self, pod: Pod) -> Iterable[str]:
        """Returns the keys of the claims that the pod uses, or may use."""
        status = pod.status
        names = [entry.resource_claim_name for entry in pod.spec.resource_claims]
        names += [entry.resource_claim_name for entry in status.resource_claim_statuses]
        if status.extended_resource_claim_status is not None:
            names.append(status.extended_resource_claim_status.resource_claim_name)
        return [f"{pod.metadata.namespace}/{name}" for name in dict.fromkeys(names) if name]

    def _on_claim(self, change: ObjectChange) -> None:
        claim: ResourceClaim = change.new or change.old
        self._unreported.pop(key(claim), None)
        entry = _entry_of(claim)
        if change.new is not None:
            if entry is not None:
                self._generated[entry] = claim
            self._work.add((_CLAIM, key(claim)))
            return
        if entry is not None:
            self._generated.pop(entry, None)
        owner = controller_of(claim.metadata)
        if owner is not None:  # a claim that was deleted by mistake is made again
            self._work.add((_POD, f"{claim.metadata.namespace}/{owner.name}"))

    def _on_template(self, change: ObjectChange) -> None:
        template: ResourceClaimTemplate | None = change.new
        if template is None or change.old is not None:
            return
        for pod_key, pod in self._objects(_POD).items():
            if pod.metadata.namespace == template.metadata.namespace and any(
                entry.resource_claim_template_name == template.metadata.name
                for entry in pod.spec.resource_claims
            ):
                self._work.add((_POD, pod_key))

    def _objects(self, kind: str) -> Mapping[str, Any]:
        return self._work.objects(kind)

    async def _sync(self, item: tuple[str, str]) -> None:
        kind, object_key = item
        if kind == _POD:
            await self._sync_pod(object_key)
        else:
            await self._sync_claim(object_key)

    # -- claims of pods ---------------------------------------------------------------------------

    async def _sync_pod(self, pod_key: str) -> None:
        pod: Pod | None = self._objects(_POD).get(pod_key)
        if pod is None or is_done(pod) or pod.metadata.deletion_timestamp is not None:
            return
        if has_ephemeral_volumes(pod) and pod.metadata.uid not in self._with_volume_claims:
            await self._create_volume_claims(pod)
        namespace = pod.metadata.namespace
        names = {}
        for entry in entries_to_generate(pod, lambda name: self._claim(f"{namespace}/{name}")):
            claim = await self._generated_claim(pod, entry)
            if claim is not None:
                names[entry.name] = claim.metadata.name
        if names:
            statuses = [to_builtins(status) for status in with_statuses(pod, names)]
            written = await self._client.patch_pod_status(pod, {"resourceClaimStatuses": statuses})
            self._note(_POD, written)

    async def _create_volume_claims(self, pod: Pod) -> None:
        """Creates the claims of ephemeral volumes, once for a pod."""
        for claim in ephemeral_claims(pod):
            with suppress(AlreadyExists):
                await self._client.create(claim)
        self._with_volume_claims.add(pod.metadata.uid)

    def _claim(self, claim_key: str) -> ResourceClaim | None:
        claim: ResourceClaim | None = self._objects(_CLAIM).get(claim_key)
        return claim or self._unreported.get(claim_key)

    async def _generated_claim(self, pod: Pod, entry: PodResourceClaim) -> ResourceClaim | None:
        """Returns the claim of an entry, which is made unless it exists; None: no template."""
        existing = self._generated.get((pod.metadata.uid, entry.name))
        if existing is not None:
            return existing
        template_key = f"{pod.metadata.namespace}/{entry.resource_claim_template_name}"
        template = self._objects(_TEMPLATE).get(template_key)
        if template is None:
            if self._events is not None:
                on_missing_template(self._events, pod, entry)
            return None
        claim: ResourceClaim = await self._client.create(generated_claim(pod, entry, template))
        self._unreported[key(claim)] = claim
        self._generated[pod.metadata.uid, entry.name] = claim
        self._note(_CLAIM, claim)
        return claim

    # -- users of claims --------------------------------------------------------------------------

    async def _sync_claim(self, claim_key: str) -> None:
        claim: ResourceClaim | None = self._objects(_CLAIM).get(claim_key)
        if claim is None:
            return
        absent = [
            user.uid for user in claim.status.reserved_for if await self._is_gone(claim, user)
        ]
        release = release_of(claim, lambda user: user.uid in absent)
        if release is not None:
            claim = await self._release(claim, release)
        if not claim.status.reserved_for and self._is_unused(claim):
            metadata = claim.metadata
            await self._client.delete(_CLAIM, metadata.name, metadata.namespace, uid=metadata.uid)

    async def _is_gone(self, claim: ResourceClaim, user: ResourceClaimConsumerReference) -> bool:
        """Returns whether a pod does not exist any more, or will not run."""
        if user.api_group or user.resource != "pods":
            return False
        namespace = claim.metadata.namespace
        pod: Pod | None = self._objects(_POD).get(f"{namespace}/{user.name}")
        if pod is None:  # the watch may be late
            try:
                pod = await self._client.get(_POD, user.name, namespace)
            except NotFound:
                return True
        return pod is None or pod.metadata.uid != user.uid or is_done(pod)

    async def _release(self, claim: ResourceClaim, release: Release) -> ResourceClaim:
        """Writes a release, unless the claim has changed; returns the claim as stored."""
        metadata = claim.metadata
        users = [to_builtins(user) for user in release.reserved_for]
        status: dict[str, Any] = {"reservedFor": users or None}
        if release.clears_allocation:
            status |= {"allocation": None, "devices": None}
        if users or claim.status.reserved_for or claim.status.allocation is not None:
            claim = await self._write(claim, {"status": status}, subresource="status")
        if release.clears_allocation:
            finalizers = list(without_protection(metadata.finalizers)) or None
            claim = await self._write(claim, {"metadata": {"finalizers": finalizers}})
        return claim

    async def _write(
        self, claim: ResourceClaim, patch: Mapping[str, Any], *, subresource: str = ""
    ) -> ResourceClaim:
        """Patches exactly this version of a claim; returns the claim as stored."""
        metadata = claim.metadata
        version = {"resourceVersion": metadata.resource_version, "uid": metadata.uid}
        body = {**patch, "metadata": {**patch.get("metadata", {}), **version}}
        written: ResourceClaim = await self._client.patch(
            _CLAIM, metadata.name, body, namespace=metadata.namespace, subresource=subresource
        )
        self._note(_CLAIM, written)
        return written

    def _is_unused(self, claim: ResourceClaim) -> bool:
        """Returns whether the claim was made for a pod that was replaced or will not run."""
        owner = controller_of(claim.metadata)
        if owner is None or owner.kind != _POD or claim.metadata.deletion_timestamp is not None:
            return False
        pod: Pod | None = self._objects(_POD).get(f"{claim.metadata.namespace}/{owner.name}")
        return pod is not None and (pod.metadata.uid != owner.uid or is_done(pod))

    def _note(self, kind: str, written: Pod | ResourceClaim) -> None:
        self.last_versions[kind] = int(written.metadata.resource_version)


def _entry_of(claim: ResourceClaim) -> tuple[str, str] | None:
    """Returns the pod's UID and the entry that a claim was made for; None if it was not."""
    owner = controller_of(claim.metadata)
    entry = claim.metadata.annotations.get(POD_CLAIM)
    return None if owner is None or entry is None else (owner.uid, entry)


def _log_failure(item: tuple[str, str], error: SchedulerError) -> None:
    """Logs an error; the object was changed or deleted, and that event queues it again."""
    _log.info("writing a claim failed", extra={"object": item[1], "error": str(error)})
