"""The events of the volume controller about claims, and of the resource claim controller.

Source: pkg/controller/volume/persistentvolume/pv_controller.go (syncUnboundClaim, provisionClaim),
pkg/controller/resourceclaim/controller.go (syncPod).
Differs: every provisioner is one of the controller's own, so no external one is waited for; pods
are not read, so a claim waits for its first consumer until that has a node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mooring.devcluster.events.recorder import NORMAL, WARNING, EventRecorder, reference_to
from mooring.objects.kinds import kind_named
from mooring.objects.volume_claims import claim_class

if TYPE_CHECKING:
    from mooring.objects.pod import Pod, PodResourceClaim
    from mooring.objects.storage import PersistentVolume, PersistentVolumeClaim, StorageClass

_COMPONENT: Final = "persistentvolume-controller"
_KIND: Final = kind_named("PersistentVolumeClaim")
_POD: Final = kind_named("Pod")


class ClaimEvents:
    """Records why claims are not bound, and which got a new volume.

    Args:
        recorder: Records the events.
    """

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder

    def on_unbound(self, claim: PersistentVolumeClaim, storage_class: StorageClass | None) -> None:
        """Records why a claim waits: for a pod, or for a class that does not exist."""
        name = claim_class(claim)
        if storage_class is not None:
            text = "waiting for first consumer to be created before binding"
            self._record(claim, NORMAL, "WaitForFirstConsumer", text)
        elif name:
            text = f'storageclass.storage.k8s.io "{name}" not found'
            self._record(claim, WARNING, "ProvisioningFailed", text)
        else:
            text = "no persistent volumes available for this claim and no storage class is set"
            self._record(claim, NORMAL, "FailedBinding", text)

    def on_provisioned(
        self, claim: PersistentVolumeClaim, volume: PersistentVolume, storage_class: StorageClass
    ) -> None:
        """Records that a volume was made for a claim."""
        text = f"Successfully provisioned volume {volume.metadata.name}"
        text += f" using {storage_class.provisioner}"
        self._record(claim, NORMAL, "ProvisioningSucceeded", text)

    def _record(
        self, claim: PersistentVolumeClaim, event_type: str, reason: str, message: str
    ) -> None:
        reference = reference_to(_KIND, claim.metadata)
        self._recorder.record(_COMPONENT, reference, event_type, reason, message)


def on_missing_template(recorder: EventRecorder, pod: Pod, entry: PodResourceClaim) -> None:
    """Records that a claim of a pod cannot be made: its template does not exist."""
    name = entry.resource_claim_template_name
    text = f'PodResourceClaim {entry.name}: resource claim template "{name}"'
    text += f': resourceclaimtemplate.resource.k8s.io "{name}" not found'
    reference = reference_to(_POD, pod.metadata)
    recorder.record("resource_claim", reference, WARNING, "FailedResourceClaimCreation", text)
