"""From an assumption to bound volumes: what is written, and how one knows that it came about.

::

    assume ──> write the volume's claimRef, the claim's node ──> wait for the volume controller
      │                     │ refused                                │ came to nothing, or too long
      └── give_up <─────────┴────────────────────────────────────────┘ (what is written stays)

The volume controller does the rest: it binds a claim to the volume that names it, and has a new
volume made for a claim that says on which node it is wanted.

Source: pkg/scheduler/framework/plugins/volumebinding/binder.go (AssumePodVolumes, BindPodVolumes,
checkBindings); component-helpers v0.36.3, storage/volume/pv_helpers.go (GetBindVolumeToClaim).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from msgspec import to_builtins
from msgspec.structs import replace

from mooring.errors import PluginError
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
from mooring.plugins.volume_binding.matches import Chosen
from mooring.state import PodInfo, Snapshot
from mooring.state.volumes.storage import Storage
from mooring.state.volumes.topology import topology_of_affinity

#: However little changes, the node and the pod are looked at so often, as upstream does.
POLL_INTERVAL_S: Final = 1.0

VOLUME: Final = "PersistentVolume"
CLAIM: Final = "PersistentVolumeClaim"


class _Binding:
    """A volume that is to become a claim's own."""

    __slots__ = ("claim", "is_assumed", "volume")

    def __init__(
        self, volume: PersistentVolume, claim: PersistentVolumeClaim, *, is_assumed: bool
    ) -> None:
        #: As it is to be; once it is written, as it was written.
        self.volume = volume
        self.claim = claim
        #: Whether Storage takes it to be so on our word alone.
        self.is_assumed = is_assumed


class _Provision:
    """A claim for which a volume is to be made."""

    __slots__ = ("claim", "is_assumed")

    def __init__(self, claim: PersistentVolumeClaim) -> None:
        self.claim = claim
        self.is_assumed = True


class PodVolumes:
    """What was assumed for one pod."""

    def __init__(self, bindings: list[_Binding], provisions: list[_Provision]) -> None:
        self.bindings = bindings
        self.provisions = provisions

    def revert(self, storage: Storage) -> None:
        """Restores what was not written; what was is the API server's word by now."""
        for binding in self.bindings:
            if binding.is_assumed:
                storage.restore_volume(binding.volume)
                binding.is_assumed = False
        for provision in self.provisions:
            if provision.is_assumed:
                storage.restore_claim(provision.claim)
                provision.is_assumed = False


def assume(plan_for: Chosen, storage: Storage, node_name: str) -> PodVolumes:
    """Takes the volumes for given away, and the claims for placed, until that is written."""
    bindings = []
    for volume, claim in plan_for.bindings:
        bound = bound_volume(volume, claim)
        if bound is not volume:
            storage.assume_volume(bound)
        bindings.append(_Binding(bound, claim, is_assumed=bound is not volume))
    provisions = []
    for claim in plan_for.provisions:
        placed = replace(claim, metadata=_annotated(claim.metadata, SELECTED_NODE, node_name))
        storage.assume_claim(placed)
        provisions.append(_Provision(placed))
    return PodVolumes(bindings, provisions)


def bound_volume(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """Returns the volume as it is when it is given to the claim; itself if it says so already."""
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
        # Not by its own wish: if the claim goes, the volume is free again.
        bound = replace(bound, metadata=_annotated(volume.metadata, BOUND_BY_CONTROLLER, "yes"))
    return bound


def _annotated(metadata: ObjectMeta, name: str, value: str) -> ObjectMeta:
    return replace(metadata, annotations={**metadata.annotations, name: value})


class PendingObject(NamedTuple):
    """What the binding waits for: the object that has to change."""

    kind: str
    object_key: str


class VolumeBinder:
    """Writes what was assumed, and waits for what follows from it.

    Args:
        plugin: Whose name errors bear.
        handle: The way to the API server.
        timeout_s: How long the volume controller may take.
    """

    def __init__(self, plugin: str, handle: Handle | None, timeout_s: float) -> None:
        self._plugin = plugin
        self._handle = handle
        self._timeout_s = timeout_s

    async def bind(self, pod: PodInfo, node_name: str, volumes: PodVolumes) -> None:
        """Returns when all claims have their volumes, and the node can reach them.

        Raises:
            PluginError: that did not happen in time, or came to nothing.
            ApiError: a write was refused; what was not written is as it was before.
        """
        handle = self._handle
        if handle is None:
            raise PluginError(self._plugin, "PreBind", "has no way to the API server")
        try:
            await self._write(handle, volumes)
        except BaseException:
            volumes.revert(handle.snapshot.storage)
            raise
        look = BindProgress(handle, pod, node_name, volumes)
        deadline_s = handle.monotonic_s() + self._timeout_s
        try:
            await self._wait(handle, look, deadline_s)
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

    async def _wait(self, handle: Handle, look: BindProgress, deadline_s: float) -> None:
        while (awaited := look.first_unsettled()) is not None:
            started_s = handle.monotonic_s()
            left_s = deadline_s - started_s
            if left_s <= 0:
                raise BindingFailed("context deadline exceeded")
            try:
                await handle.until(
                    *awaited, look.is_condition_met(awaited), min(POLL_INTERVAL_S, left_s)
                )
            except PluginError as error:
                # Time is over and we look again, unless it was no wait at all.
                if (
                    error.plugin
                    or handle.monotonic_s() - started_s < min(POLL_INTERVAL_S, left_s) / 2
                ):
                    raise


def volume_patch(volume: PersistentVolume) -> dict[str, Any]:
    """What is to be changed on a volume that is given to a claim, as a merge patch."""
    return {
        "metadata": _patched(volume.metadata, BOUND_BY_CONTROLLER),
        "spec": {"claimRef": to_builtins(volume.spec.claim_ref)},
    }


def claim_patch(claim: PersistentVolumeClaim) -> dict[str, Any]:
    """What is to be changed on a claim that says where it wants its volume."""
    return {"metadata": _patched(claim.metadata, SELECTED_NODE)}


def _patched(metadata: ObjectMeta, annotation: str) -> dict[str, Any]:
    """With the version, so that nobody's change in between is overwritten."""
    found: dict[str, Any] = {}
    if metadata.resource_version:
        found["resourceVersion"] = metadata.resource_version
    if annotation in metadata.annotations:
        found["annotations"] = {annotation: metadata.annotations[annotation]}
    return found


class BindingFailed(Exception):
    """The volumes will not be bound like this; the text is kube-scheduler's."""


class BindProgress:
    """How far the binding of one pod's volumes has come."""

    def __init__(self, handle: Handle, pod: PodInfo, node_name: str, volumes: PodVolumes) -> None:
        self._handle = handle
        self._pod = pod
        self._node_name = node_name
        self._volumes = volumes

    def is_condition_met(self, awaited: PendingObject) -> Callable[[Any], bool]:
        """Tells whether the wait is over, or for something else."""
        return lambda _: self.first_unsettled() != awaited

    def first_unsettled(self) -> PendingObject | None:
        """What has to change first; None = all claims have their volumes.

        Raises:
            _CameToNothing: it will not happen like this.
        """
        snapshot = self._handle.snapshot
        if snapshot.nodes.live_row(self._node_name) < 0:
            name = self._node_name
            raise BindingFailed(f'failed to get node "{name}": node "{name}" not found')
        if snapshot.pods.get(self._pod.uid) is None:
            name = self._pod.metadata.name
            raise BindingFailed(f'pod does not exist any more: pod "{name}" not found')
        for binding in self._volumes.bindings:
            awaited = self._look_at_binding(snapshot, binding)
            if awaited is not None:
                return awaited
        for provision in self._volumes.provisions:
            awaited = self._look_at_provision(snapshot, provision)
            if awaited is not None:
                return awaited
        return None

    def _look_at_binding(self, snapshot: Snapshot, binding: _Binding) -> PendingObject | None:
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
        self._check_reach(snapshot, volume, "failed to translate pv to csi: ")
        if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
            raise BindingFailed(f'ClaimRef got reset for pv "{name}"')
        return None if is_fully_bound(claim) else PendingObject(CLAIM, claim_key)

    def _look_at_provision(self, snapshot: Snapshot, provision: _Provision) -> PendingObject | None:
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
            self._check_reach(snapshot, volume, "")
        return None if is_fully_bound(claim) else PendingObject(CLAIM, claim_key)

    def _check_reach(self, snapshot: Snapshot, volume: PersistentVolume, where: str) -> None:
        """See that the node can reach the volume: its labels may be others by now."""
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
                raise BindingFailed(f"{where}could not translate pv: {error}") from error
        nodes = snapshot.nodes
        labels = nodes.node(nodes.live_row(self._node_name)).metadata.labels
        if not topology_of_affinity(required).matches(labels):
            raise BindingFailed(
                f'pv "{volume.metadata.name}" node affinity doesn\'t match node '
                f'"{self._node_name}": no matching NodeSelectorTerms'
            )


def _is_older(known: ObjectMeta, written: ObjectMeta) -> bool:
    """Returns whether what is known of an object was before our write of it."""
    before, after = known.resource_version, written.resource_version
    if before.isdecimal() and after.isdecimal():
        return int(before) < int(after)
    return False
