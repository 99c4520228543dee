"""The claims of a pod, as VolumeBinding sorts them: bound already, or to be bound with the pod."""

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
    """A class that does not say when its volumes are bound."""


class PodClaims(NamedTuple):
    """The claims of a pod, in the order of its volumes; one that it uses twice is there twice.

    Attributes:
        bound: Those that have their volumes.
        unbound: Those that get one when it is known where the pod goes.
        immediate: Those that should have one by now.
    """

    bound: tuple[PersistentVolumeClaim, ...]
    unbound: tuple[PersistentVolumeClaim, ...]
    immediate: tuple[PersistentVolumeClaim, ...]


def problem_with(pod: Pod, uses: Sequence[ClaimUse], storage: Storage) -> str:
    """Why the pod cannot have one of these claims of it, or has to wait for it; "" = it can."""
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
            gone = claim.spec.volume_name
            return (
                f'persistentvolumeclaim "{use.name}" bound to non-existent '
                f'persistentvolume "{gone}"'
            )
        if claim.metadata.deletion_timestamp is not None:
            return f'persistentvolumeclaim "{use.name}" is being deleted'
        if use.is_ephemeral:
            problem = ownership_problem(pod, claim)
            if problem:
                return problem
    return ""


def claims_of(pod: Pod, uses: Sequence[ClaimUse], storage: Storage) -> PodClaims:
    """These claims of a pod that has no problem with them, with what is assumed of them.

    Raises:
        ModeError: if a claim's class does not say when its volumes are bound.
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
    found = storage.storage_class(name) if name else None
    if found is None:
        return False
    if found.volume_binding_mode is None:
        raise ModeError(f'VolumeBindingMode not set for StorageClass "{name}"')
    return found.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
