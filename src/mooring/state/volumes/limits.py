"""Selects the volumes of a pod that count against the limits of a node's CSI drivers.

A claim counts as its volume's handle; an unbound claim counts as itself, for the driver of its
class. Inline disks count if they are migrated to a CSI driver.

Source: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go (filterAttachableVolumes).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mooring.objects.csi_migration import (
    TranslationError,
    in_tree,
    in_tree_plugin,
    inline_handle,
    volume_handle,
)
from mooring.objects.pod import Pod, Volume
from mooring.objects.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.objects.volume_claims import claim_class, claim_use, ownership_problem

#: Kinds of the objects that a pod's volumes depend on.
CLAIM: Final = "PersistentVolumeClaim"
VOLUME: Final = "PersistentVolume"
CLASS: Final = "StorageClass"

#: Kind and key of an object.
Dependency = tuple[str, str]


@dataclass(frozen=True, slots=True)
class VolumeObjects:
    """The objects by key, without assumed versions. Shared with their owner."""

    claims: dict[str, PersistentVolumeClaim] = field(default_factory=dict)
    volumes: dict[str, PersistentVolume] = field(default_factory=dict)
    classes: dict[str, StorageClass] = field(default_factory=dict)


class Problem(NamedTuple):
    """A reason why a pod's volumes cannot be counted; ``is_absence``: a claim does not exist."""

    text: str
    is_absence: bool = False


class Counted(NamedTuple):
    """The counted volumes of a pod.

    Attributes:
        volumes: "driver/handle" -> driver; only those before the problem, if there is one.
        problem: The reason why not all were counted; None = all were.
        dependencies: The objects, existing or not, that the result depends on.
    """

    volumes: dict[str, str]
    problem: Problem | None
    dependencies: tuple[Dependency, ...]

    @property
    def concerns_limits(self) -> bool:
        """True if the pod matters for the limits of its node."""
        return bool(self.volumes) or self.problem is not None


NOTHING_COUNTED: Final = Counted({}, None, ())


def attach_limit_volumes(
    pod: Pod, storage: VolumeObjects, *, has_csi_node: bool = True, is_placed: bool = False
) -> Counted:
    """Returns the volumes of a pod that count on a node.

    Args:
        pod: The pod.
        storage: The claims, volumes and classes.
        has_csi_node: True if the node has a CSINode: without it no volume counts as migrated.
        is_placed: True if the pod is on a node: a claim that does not exist is skipped.
    """
    if not pod.spec.volumes:
        return NOTHING_COUNTED
    count = _Count(pod, storage, has_csi_node=has_csi_node)
    problem = None
    for volume in pod.spec.volumes:
        problem = count.add(volume, is_placed=is_placed)
        if problem is not None:
            break
    return Counted(count.volumes, problem, tuple(count.dependencies))


def counts(volume: Volume) -> bool:
    """Returns whether a volume of a pod may count against a limit."""
    return (
        volume.persistent_volume_claim is not None
        or volume.ephemeral is not None
        or in_tree(volume) is not None
    )


class _Count:
    """Counts the volumes of one pod."""

    def __init__(self, pod: Pod, storage: VolumeObjects, *, has_csi_node: bool) -> None:
        self.volumes: dict[str, str] = {}
        self.dependencies: dict[Dependency, None] = {}
        self._pod = pod
        self._known = storage
        self._has_csi_node = has_csi_node

    def add(self, volume: Volume, *, is_placed: bool) -> Problem | None:
        """Counts one volume of the pod; returns a problem if that is impossible."""
        use = claim_use(self._pod, volume)
        if use is None:
            return self._add_inline(volume)
        if not use.name:
            return Problem("PersistentVolumeClaim had no name")
        claim_key = f"{self._pod.metadata.namespace}/{use.name}"
        self._depend(CLAIM, claim_key)
        claim = self._known.claims.get(claim_key)
        if claim is None:
            if is_placed:
                return None
            text = f'looking up PVC {claim_key}: persistentvolumeclaim "{use.name}" not found'
            return Problem(text, is_absence=True)
        if use.is_ephemeral:
            problem = ownership_problem(self._pod, claim)
            if problem:
                return Problem(problem)
        self._append(*self._driver_of(claim))
        return None

    def _add_inline(self, volume: Volume) -> Problem | None:
        kind = in_tree(volume)
        if kind is None or not kind.is_migrated or not self._has_csi_node:
            return None
        try:
            handle = inline_handle(volume, kind)
        except TranslationError as error:
            return Problem(f"converting volume({volume.name}) from inline to csi: {error}")
        self.volumes[f"{kind.driver}/{handle}"] = kind.driver
        return None

    def _driver_of(self, claim: PersistentVolumeClaim) -> tuple[str, str]:
        """Returns the driver and the handle of a claim's volume; empty if it does not count."""
        name = claim.spec.volume_name
        if not name:
            return self._driver_of_class(claim)
        self._depend(VOLUME, name)
        volume = self._known.volumes.get(name)
        if volume is None:
            return self._driver_of_class(claim)
        if volume.spec.csi is not None:
            return volume.spec.csi.driver, volume.spec.csi.volume_handle
        kind = in_tree(volume.spec)
        if kind is None or not kind.is_migrated or not self._has_csi_node:
            return "", ""
        try:
            return kind.driver, volume_handle(volume, kind)
        except TranslationError:
            return "", ""

    def _driver_of_class(self, claim: PersistentVolumeClaim) -> tuple[str, str]:
        name = claim_class(claim)
        if not name:
            return "", ""
        self._depend(CLASS, name)
        storage_class = self._known.classes.get(name)
        if storage_class is None:
            return "", ""
        # Upstream uses a random text; any text that cannot be a handle works as well.
        handle = f"\0{claim.metadata.namespace}/{claim.metadata.name}"
        kind = in_tree_plugin(storage_class.provisioner)
        if kind is None:
            return storage_class.provisioner, handle
        return (kind.driver, handle) if kind.is_migrated and self._has_csi_node else ("", "")

    def _append(self, driver: str, handle: str) -> None:
        if driver and handle:
            self.volumes[f"{driver}/{handle}"] = driver

    def _depend(self, kind: str, object_key: str) -> None:
        self.dependencies[kind, object_key] = None
