"""The resource claim controller of a simulation: it acts when a pod ends."""

from __future__ import annotations

from mooring.client import ObjectChange
from mooring.objects.meta import key
from mooring.objects.pod import FINISHED_PHASES, Pod
from mooring.objects.resource import ResourceClaim
from mooring.simulation.claim_controller import is_owned_by, release_of, released
from mooring.simulation.engine.object_table import ObjectTable


class ClaimController:
    """Takes ended pods from the users of their claims, and deletes the claims made for them.

    Args:
        table: The objects.
    """

    def __init__(self, table: ObjectTable) -> None:
        self._table = table

    def on_change(self, kind: str, change: ObjectChange) -> None:
        """Acts on a pod that was deleted or has finished."""
        if kind != "Pod" or change.old is None:
            return
        has_ended = change.new is None or change.new.status.phase in FINISHED_PHASES
        if has_ended and self._table.objects("ResourceClaim"):
            self._release(change.old)

    def _release(self, pod: Pod) -> None:
        for claim in self._claims_of(pod):
            if is_owned_by(claim, pod):
                self._table.delete("ResourceClaim", key(claim))
                continue
            release = release_of(claim, lambda user: user.uid == pod.metadata.uid)
            if release is not None:
                self._table.put(released(claim, release))

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
