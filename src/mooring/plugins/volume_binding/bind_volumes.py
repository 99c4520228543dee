"""Writes assumed PV and PVC bindings, and waits until the PV controller has bound them.

::

    assume ──> write the volume's claimRef, the claim's node ──> wait for the PV controller
      │                     │ failed                                 │ failed, or timeout
      └── revert <──────────┴────────────────────────────────────────┘ (what is written stays)

The PV controller does the rest: it binds a claim to the volume that names it, and has a volume
provisioned for a claim with a selected node.

Source: pkg/scheduler/framework/plugins/volumebinding/binder.go (AssumePodVolumes, BindPodVolumes,
checkBindings); component-helpers v0.36.3, storage/volume/pv_helpers.go (GetBindVolumeToClaim).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from msgspec import to_builtins
from msgspec.structs import replace

from mooring.errors import PluginError, SchedulerError
from mooring.framework.interface import Handle
from mooring.objects.csi_migration import TranslationError, in_tree, translated_affinity
from mooring.objects.meta import ObjectMeta, key
from mooring.objects.storage import PersistentVolume, PersistentVolumeClaim
from mooring.objects.volume_claims import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    is_bound_to,
    is_fully_bound,
    reference_to,
)
from mooring.plugins.volume_binding.matches import BindingPlan
from mooring.state import PodInfo, Snapshot
from mooring.state.volumes.storage import Storage
from mooring.state.volumes.topology import topology_of_affinity

#: The progress is checked at least this often, as upstream does.
POLL_INTERVAL_S: Final = 1.0

VOLUME: Final = "PersistentVolume"
CLAIM: Final = "PersistentVolumeClaim"


@dataclass(slots=True, eq=False)
class _Binding:
    """A volume to be bound to a claim."""

    #: The volume with the binding; after the write, the object that was returned.
    volume: PersistentVolume
    claim: PersistentVolumeClaim
    #: True if the volume is assumed in Storage and not written.
    is_assumed: bool


@dataclass(slots=True, eq=False)
class _Provision:
    """A claim whose volume is to be provisioned."""

    claim: PersistentVolumeClaim
    is_assumed: bool = True


@dataclass(slots=True, eq=False)
class PodVolumes:
    """The volumes and claims assumed for one pod."""

    bindings: list[_Binding]
    provisions: list[_Provision]

    def revert(self, storage: Storage) -> None:
        """Removes the assumptions that were not written; idempotent."""
        for binding in self.bindings:
            if binding.is_assumed:
                storage.restore_volume(binding.volume)
                binding.is_assumed = False
        for provision in self.provisions:
            if provision.is_assumed:
                storage.restore_claim(provision.claim)
                provision.is_assumed = False


def assume(plan: BindingPlan, storage: Storage, node_name: str) -> PodVolumes:
    """Marks the volumes as bound and the claims as having a selected node, in Storage only."""
    bindings = []
    for volume, claim in plan.bindings:
        bound = bound_volume(volume, claim)
        if bound is not volume:
            storage.assume_volume(bound)
        bindings.append(_Binding(bound, claim, is_assumed=bound is not volume))
    provisions = []
    for claim in plan.provisions:
        placed = replace(claim, metadata=_annotated(claim.metadata, SELECTED_NODE, node_name))
        storage.assume_claim(placed)
        provisions.append(_Provision(placed))
    return PodVolumes(bindings, provisions)


def bound_volume(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """Returns the volume bound to the claim; the same object if it is bound already."""
    before, own = volume.spec.claim_ref, claim.metadata
    bound = volume
    if before is None or (before.namespace, before.name, before.uid) != (
        own.namespace,
        own.name,
        own.uid,
    ):
        bound = replace(volume, spec=replace(volume.spec, claim_ref=reference_to(claim)))
    is_marked = BOUND_BY_CONTROLLER in volume.metadata.annotations
    if not is_bound_to(before, claim) and not is_marked:
        # The binding was not requested by the user: when the claim is deleted, it is removed.
        bound = replace(bound, metadata=_annotated(volume.metadata, BOUND_BY_CONTROLLER, "yes"))
    return bound


def _annotated(metadata: ObjectMeta, name: str, value: str) -> ObjectMeta:
    return replace(metadata, annotations={**metadata.annotations, name: value})


class PendingObject(NamedTuple):
    """The object whose change the binding waits for."""

    kind: str
    object_key: str


class VolumeBinder:
    """Writes assumed bindings, and waits for the PV controller.

    Args:
        plugin: The plugin's name, for errors.
        handle: The plugin's handle, for writes.
        timeout_s: The timeout of the wait.
    """

    def __init__(self, plugin: str, handle: Handle | None, timeout_s: float) -> None:
        self._plugin = plugin
        self._handle = handle
        self._timeout_s = timeout_s

    async def bind(self, pod: PodInfo, node_name: str, volumes: PodVolumes) -> None:
        """Binds the volumes; returns when all claims are bound and match the node.

        Raises:
            PluginError: if binding failed or timed out.
            ApiError: if a write failed; the remaining assumptions are reverted.
        """
        handle = self._handle
        if handle is None:
            raise PluginError(self._plugin, "PreBind", "no API server to write to")
        try:
            await self._write(handle, volumes)
        except BaseException:
            volumes.revert(handle.snapshot.storage)
            raise
        progress = BindProgress(handle, pod, node_name, volumes)
        deadline_s = handle.monotonic_s() + self._timeout_s
        try:
            await self._wait(handle, progress, deadline_s)
        except BindingFailed as error:
            raise PluginError(self._plugin, "PreBind", f"binding volumes: {error}") from error

    async def _write(self, handle: Handle, volumes: PodVolumes) -> None:
        for binding in volumes.bindings:
            volume = binding.volume
            binding.volume = await handle.patch(VOLUME, key(volume), volume_patch(volume))
            binding.is_assumed = False
        for provision in volumes.provisions:
            claim = provision.claim
            provision.claim = await handle.patch(CLAIM, key(claim), claim_patch(claim))
            provision.is_assumed = False

    async def _wait(self, handle: Handle, progress: BindProgress, deadline_s: float) -> None:
        while (pending := progress.first_pending()) is not None:
            started_s = handle.monotonic_s()
            remaining_s = deadline_s - started_s
            if remaining_s <= 0:
                raise BindingFailed("context deadline exceeded")
            wait_s = min(POLL_INTERVAL_S, remaining_s)
            try:
                await handle.until(*pending, progress.is_condition_met(pending), wait_s)
            except PluginError as error:
                # A timeout of ``until``: check again. Any other error comes without a wait.
                if error.plugin or handle.monotonic_s() - started_s < wait_s / 2:
                    raise


def volume_patch(volume: PersistentVolume) -> dict[str, Any]:
    """Returns the merge patch that binds a volume to a claim."""
    return {
        "metadata": _patched(volume.metadata, BOUND_BY_CONTROLLER),
        "spec": {"claimRef": to_builtins(volume.spec.claim_ref)},
    }


def claim_patch(claim: PersistentVolumeClaim) -> dict[str, Any]:
    """Returns the merge patch that sets a claim's selected node."""
    return {"metadata": _patched(claim.metadata, SELECTED_NODE)}


def _patched(metadata: ObjectMeta, annotation: str) -> dict[str, Any]:
    """Returns the metadata of a patch, with the resourceVersion to detect concurrent changes."""
    patch: dict[str, Any] = {}
    if metadata.resource_version:
        patch["resourceVersion"] = metadata.resource_version
    if annotation in metadata.annotations:
        patch["annotations"] = {annotation: metadata.annotations[annotation]}
    return patch


class BindingFailed(SchedulerError):
    """Binding failed on this node; the text is kube-scheduler's.

    A SchedulerError, so that the pod has the usual backoff: a provisioner without capacity or a
    slow controller says nothing about the pod, and must not quarantine it.
    """


class BindProgress:
    """The progress of binding one pod's volumes."""

    def __init__(self, handle: Handle, pod: PodInfo, node_name: str, volumes: PodVolumes) -> None:
        self._handle = handle
        self._pod = pod
        self._node_name = node_name
        self._volumes = volumes

    def is_condition_met(self, pending: PendingObject) -> Callable[[Any], bool]:
        """Returns a predicate that is True when this object is not pending any more."""
        return lambda _: self.first_pending() != pending

    def first_pending(self) -> PendingObject | None:
        """Returns the first object that has to change; None = all claims are bound.

        Raises:
            BindingFailed: if binding cannot succeed any more.
        """
        snapshot = self._handle.snapshot
        if snapshot.nodes.live_row(self._node_name) < 0:
            name = self._node_name
            raise BindingFailed(f'failed to get node "{name}": node "{name}" not found')
        if snapshot.pods.get(self._pod.uid) is None:
            name = self._pod.metadata.name
            raise BindingFailed(f'pod does not exist any more: pod "{name}" not found')
        for binding in self._volumes.bindings:
            pending = self._check_binding(snapshot, binding)
            if pending is not None:
                return pending
        for provision in self._volumes.provisions:
            pending = self._check_provision(snapshot, provision)
            if pending is not None:
                return pending
        return None

    def _check_binding(self, snapshot: Snapshot, binding: _Binding) -> PendingObject | None:
        storage = snapshot.storage
        name, claim_key = binding.volume.metadata.name, key(binding.claim)
        volume, claim = storage.volume(name), storage.claim(claim_key)
        if volume is None:
            problem = f'persistentvolumes "{name}" not found'
            raise BindingFailed(f"failed to check binding: {problem}")
        if claim is None:
            problem = f'persistentvolumeclaims "{claim_key}" not found'
            raise BindingFailed(f"failed to check binding: {problem}")
        if _is_older(volume.metadata, binding.volume.metadata):
            return PendingObject(VOLUME, name)
        self._check_affinity(snapshot, volume, "failed to translate pv to csi: ")
        if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
            raise BindingFailed(f'ClaimRef got reset for pv "{name}"')
        return None if is_fully_bound(claim) else PendingObject(CLAIM, claim_key)

    def _check_provision(self, snapshot: Snapshot, provision: _Provision) -> PendingObject | None:
        storage = snapshot.storage
        claim_key = key(provision.claim)
        claim = storage.claim(claim_key)
        if claim is None:
            problem = f'persistentvolumeclaims "{claim_key}" not found'
            raise BindingFailed(f"failed to check provisioning pvc: {problem}")
        if _is_older(claim.metadata, provision.claim.metadata):
            return PendingObject(CLAIM, claim_key)
        name, annotations = claim.metadata.name, claim.metadata.annotations
        if not annotations:
            raise BindingFailed(f'selectedNode annotation reset for PVC "{name}"')
        if annotations.get(SELECTED_NODE, "") != self._node_name:
            raise BindingFailed(f'provisioning failed for PVC "{name}"')
        if claim.spec.volume_name:
            volume = storage.volume(claim.spec.volume_name)
            if volume is None:
                return PendingObject(VOLUME, claim.spec.volume_name)
            self._check_affinity(snapshot, volume, "")
        return None if is_fully_bound(claim) else PendingObject(CLAIM, claim_key)

    def _check_affinity(self, snapshot: Snapshot, volume: PersistentVolume, prefix: str) -> None:
        """Validates that the volume's affinity matches the node, whose labels may have changed."""
        affinity = volume.spec.node_affinity
        required = affinity.required if affinity is not None else None
        kind = in_tree(volume.spec)
        if (
            kind is not None
            and kind.is_migrated
            and snapshot.storage.csi_nodes.has_migrated(kind.plugin, self._node_name)
        ):
            try:
                required = translated_affinity(volume, kind)
            except TranslationError as error:
                raise BindingFailed(f"{prefix}could not translate pv: {error}") from error
        nodes = snapshot.nodes
        labels = nodes.node(nodes.live_row(self._node_name)).metadata.labels
        if not topology_of_affinity(required).matches(labels):
            raise BindingFailed(
                f'pv "{volume.metadata.name}" node affinity doesn\'t match node '
                f'"{self._node_name}": no matching NodeSelectorTerms'
            )


def _is_older(cached: ObjectMeta, written: ObjectMeta) -> bool:
    """Returns True if the cached object is older than the one that was written."""
    before, after = cached.resource_version, written.resource_version
    if before.isdecimal() and after.isdecimal():
        return int(before) < int(after)
    return False
