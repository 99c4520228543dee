"""The controllers of the claims of pods in a simulation: they act when a pod comes and ends."""

from __future__ import annotations

from msgspec.structs import replace

from mooring.client import ObjectChange
from mooring.objects.meta import key
from mooring.objects.pod import FINISHED_PHASES, Pod
from mooring.objects.resource import ResourceClaim
from mooring.objects.volume_claims import ownership_problem
from mooring.simulation.claim_controller import (
    is_owned_by,
    release_of,
    released,
    with_statuses,
)
from mooring.simulation.engine.object_table import ObjectTable
from mooring.simulation.ephemeral_volumes import (
    ephemeral_claims,
    has_ephemeral_volumes,
    stored_claims,
)
from mooring.simulation.generated_claims import new_claims_of


class ClaimController:
    """Makes the claims of pods from templates, and deletes them when the pods end.

    These are resource claims, and the volume claims of ephemeral volumes.

    Ended pods are taken from the users of other claims.

    Args:
        table: The objects.
    """

    def __init__(self, table: ObjectTable) -> None:
        self._table = table

    def on_change(self, kind: str, change: ObjectChange) -> None:
        """Acts on a pod that is new, was deleted or has finished, and on a new template."""
        if kind == "ResourceClaimTemplate" and change.old is None:
            for pod_key in [*self._table.objects("Pod")]:
                self._generate(pod_key)
        if kind != "Pod":
            return
        if change.old is None:
            self._create_for_volumes(change.new)
            self._generate(key(change.new))
            return
        has_ended = change.new is None or change.new.status.phase in FINISHED_PHASES
        if has_ended and self._table.objects("ResourceClaim"):
            self._release(change.old)
        if change.new is None and has_ephemeral_volumes(change.old):
            self._delete_for_volumes(change.old)

    def _create_for_volumes(self, pod: Pod) -> None:
        """Creates the claims of ephemeral volumes."""
        if not has_ephemeral_volumes(pod) or pod.status.phase in FINISHED_PHASES:
            return
        classes = self._table.objects("StorageClass").values()
        present = self._table.objects("PersistentVolumeClaim")
        for claim in stored_claims(pod, classes):
            if key(claim) not in present:
                self._table.create(claim)

    def _delete_for_volumes(self, pod: Pod) -> None:
        """Deletes the claims of ephemeral volumes, as the garbage collector does."""
        for claim in ephemeral_claims(pod):
            claim_key = key(claim)
            stored = self._table.objects("PersistentVolumeClaim").get(claim_key)
            if stored is not None and not ownership_problem(pod, stored):
                self._table.delete("PersistentVolumeClaim", claim_key)

    def _generate(self, pod_key: str) -> None:
        """Creates the claims of a pod whose templates exist, and names them in its status."""
        templates = self._table.objects("ResourceClaimTemplate")
        pod: Pod | None = self._table.objects("Pod").get(pod_key)
        if not templates or pod is None or not pod.spec.resource_claims:
            return
        if pod.status.phase in FINISHED_PHASES or pod.metadata.deletion_timestamp is not None:
            return
        names, claims = new_claims_of(pod, templates, self._table.objects("ResourceClaim"))
        if not names:
            return
        for claim in claims:
            self._table.create(claim)
        statuses = with_statuses(pod, names)
        status = replace(pod.status, resource_claim_statuses=statuses)
        self._table.put(replace(pod, status=status))

    def _release(self, pod: Pod) -> None:
        for claim in self._claims_of(pod):
            release = release_of(claim, lambda user: user.uid == pod.metadata.uid)
            if release is not None:
                # Also before a deletion: pods that wait for a device are retried when an
                # allocation is cleared, and not when a claim is deleted.
                self._table.put(released(claim, release))
            if is_owned_by(claim, pod):
                self._table.delete("ResourceClaim", key(claim))

    def _claims_of(self, pod: Pod) -> list[ResourceClaim]:
        """Returns the claims of a pod, and those that were made for it."""
        names = [entry.resource_claim_name for entry in pod.spec.resource_claims]
        names += [entry.resource_claim_name for entry in pod.status.resource_claim_statuses]
        keys = {f"{pod.metadata.namespace}/{name}" for name in names if name}
        return [
            claim
            for claim in self._table.objects("ResourceClaim").values()
            if key(claim) in keys or is_owned_by(claim, pod)
        ]
