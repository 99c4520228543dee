"""The claims of a pod, classified: bound, to be bound with the pod, or not bound in time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mooring.objects.pod import Pod
from mooring.objects.storage import PersistentVolumeClaim
from mooring.objects.volume_claims import (
    WAIT_FOR_FIRST_CONSUMER,
    ClaimUse,
    claim_class,
    is_fully_bound,
    ownership_problem,
)
from mooring.state.volumes.storage import Storage


class ModeError(ValueError):
    """A StorageClass without volumeBindingMode."""


class PodClaims(NamedTuple):
    """The claims of a pod, in the order of its volumes, with duplicates.

    Attributes:
        bound: The claims that are bound.
        unbound: The claims that are bound when the pod's node is selected.
        immediate: The unbound claims of the binding mode Immediate.
    """

    bound: tuple[PersistentVolumeClaim, ...]
    unbound: tuple[PersistentVolumeClaim, ...]
    immediate: tuple[PersistentVolumeClaim, ...]


def problem_with(pod: Pod, uses: Sequence[ClaimUse], storage: Storage) -> str:
    """Returns why a claim of the pod is not usable, or not yet; "" = all are."""
    for use in uses:
        claim = storage.claim(f"{pod.metadata.namespace}/{use.name}")
        if claim is None and use.is_ephemeral:
            return (
                "waiting for ephemeral volume controller to create the "
                f'persistentvolumeclaim "{use.name}"'
            )
        if claim is None:
            return f'persistentvolumeclaim "{use.name}" not found'
        if claim.status.phase == "Lost":
            volume_name = claim.spec.volume_name
            return (
                f'persistentvolumeclaim "{use.name}" bound to non-existent '
                f'persistentvolume "{volume_name}"'
            )
        if claim.metadata.deletion_timestamp is not None:
            return f'persistentvolumeclaim "{use.name}" is being deleted'
        if use.is_ephemeral:
            problem = ownership_problem(pod, claim)
            if problem:
                return problem
    return ""


def claims_of(pod: Pod, uses: Sequence[ClaimUse], storage: Storage) -> PodClaims:
    """Classifies the claims of a pod for which ``problem_with`` is ""; includes assumed changes.

    Raises:
        ModeError: if a claim's class has no volumeBindingMode.
    """
    bound, unbound, immediate = [], [], []
    for use in uses:
        claim = storage.current_claim(f"{pod.metadata.namespace}/{use.name}")
        assert claim is not None
        if is_fully_bound(claim):
            bound.append(claim)
        elif _waits_for_pod(claim, storage) and not claim.spec.volume_name:
            unbound.append(claim)
        else:
            immediate.append(claim)
    return PodClaims(tuple(bound), tuple(unbound), tuple(immediate))


def _waits_for_pod(claim: PersistentVolumeClaim, storage: Storage) -> bool:
    name = claim_class(claim)
    storage_class = storage.storage_class(name) if name else None
    if storage_class is None:
        return False
    if storage_class.volume_binding_mode is None:
        raise ModeError(f'VolumeBindingMode not set for StorageClass "{name}"')
    return storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
