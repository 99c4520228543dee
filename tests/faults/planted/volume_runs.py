"""Bugs about volumes that ``test_volume_seeds`` must detect, planted one at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from mooring.plugins.volume_binding import bind_volumes, claims, find_volumes
from mooring.plugins.volume_binding.plugin import VolumeBinding
from mooring.state.volumes import storage as storage_module
from mooring.state.volumes.storage import Storage

Patch = pytest.MonkeyPatch


def wait_for_no_claim(patch: Patch) -> None:
    """Binds the pod as soon as volumes and claims are written."""

    async def wait(*_: Any) -> None:
        """Returns at once."""

    patch.setattr(bind_volumes.VolumeBinder, "_wait", wait)


def forget_the_provisioned(patch: Patch) -> None:
    """Waits for matched volumes only, not for provisioned ones."""
    patch.setattr(bind_volumes.BindProgress, "_check_provision", lambda *_: None)


def forget_the_second_provision(patch: Patch) -> None:
    """Writes the selected node of the first claim alone, and waits for this claim alone."""
    assume = bind_volumes.assume

    def assume_one(plan: Any, storage: Any, node_name: str) -> Any:
        volumes = assume(plan, storage, node_name)
        for provision in volumes.provisions[1:]:
            storage.restore_claim(provision.claim)
        del volumes.provisions[1:]
        return volumes

    patch.setattr("mooring.plugins.volume_binding.plugin.assume", assume_one)


def trust_a_named_volume(patch: Patch) -> None:
    """Counts a claim as bound when it names a volume, before the binding is complete."""

    def is_fully_bound(claim: Any) -> bool:
        return bool(claim.spec.volume_name)

    patch.setattr(bind_volumes, "is_fully_bound", is_fully_bound)
    patch.setattr(claims, "is_fully_bound", is_fully_bound)


def ignore_the_affinity_of_bound_volumes(patch: Patch) -> None:
    """Lets a pod run on a node that does not reach its volume."""
    patch.setattr(find_volumes._Search, "check_bound", lambda self, claims: None)


def ignore_the_affinity_of_the_second(patch: Patch) -> None:
    """Checks the volume of the first bound claim alone."""
    check = find_volumes._Search.check_bound
    patch.setattr(find_volumes._Search, "check_bound", lambda self, all_: check(self, all_[:1]))


def keep_assumed_volumes(patch: Patch) -> None:
    """Reverts the assumed claims of a failed binding, but not the volumes."""
    patch.setattr(Storage, "restore_volume", lambda self, volume: None)


def keep_the_older_version(patch: Patch) -> None:
    """Keeps an assumed version although the API server has a newer one."""
    patch.setattr(storage_module, "_is_newer", lambda assumed, current: False)


def overwrite_volumes(patch: Patch) -> None:
    """Omits the resourceVersion, and assumes nothing: two claims may get one volume."""
    patched = bind_volumes._patched

    def without_version(metadata: Any, annotation: str) -> dict[str, Any]:
        patch = patched(metadata, annotation)
        patch.pop("resourceVersion", None)
        return patch

    patch.setattr(bind_volumes, "_patched", without_version)
    patch.setattr(Storage, "assume_volume", lambda self, volume: None)


def requeue_for_no_volume(patch: Patch) -> None:
    """Does not retry a pod when a claim is bound or a volume appears."""
    patch.setattr(VolumeBinding, "events", lambda self: [])


def quarantine_failed_bindings(patch: Patch) -> None:
    """Treats a failure of the volume controller as a plugin that raises."""

    class Raised(Exception):
        """No error of the scheduler."""

    patch.setattr(bind_volumes, "BindingFailed", Raised)


#: Mutation -> the first seed that detects it, which is tried first.
VOLUME_MUTATIONS: Final[dict[Callable[[Patch], None], int]] = {
    wait_for_no_claim: 0,
    forget_the_provisioned: 0,
    forget_the_second_provision: 13,
    trust_a_named_volume: 0,
    ignore_the_affinity_of_bound_volumes: 0,
    ignore_the_affinity_of_the_second: 1,
    keep_assumed_volumes: 13,
    keep_the_older_version: 0,
    overwrite_volumes: 0,
    requeue_for_no_volume: 0,
    quarantine_failed_bindings: 3,
}
