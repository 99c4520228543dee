"""Reference of VolumeBinding: for each node by itself, over plain dicts of objects.

Source: pkg/scheduler/framework/plugins/volumebinding/{volume_binding,binder}.go (PreFilter,
FindPodVolumes, checkVolumeProvisions, hasEnoughCapacity); component-helpers v0.36.3,
storage/volume/pv_helpers.go (FindMatchingVolume).
*Differs:* of volumes that match equally well the first one by name is chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from mooring.objects.pod import Pod
from mooring.objects.quantity import Quantity
from tests.faults.parts.volumes_places import meets

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
COMPLETED: Final = "pv.kubernetes.io/bind-completed"
MARK: Final = "pv.kubernetes.io/bound-by-controller"

CONFLICT: Final = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME: Final = "node(s) didn't find available persistent volumes to bind"
NO_STORAGE: Final = "node(s) did not have enough free storage"
MISSING: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
IMMEDIATE: Final = "pod has unbound immediate PersistentVolumeClaims"

Objects = dict[tuple[str, str], Any]


class Plan(NamedTuple):
    """The volumes that a pod gets on a node.

    Attributes:
        reasons: Those against the node, in upstream's order.
        bindings: Claim -> volume, by their names.
        provisions: The names of the claims whose volumes are to be provisioned.
    """

    reasons: tuple[str, ...]
    bindings: Mapping[str, str]
    provisions: tuple[str, ...]


@dataclass
class View:
    """The objects that a scheduler knows, and those that it has assumed.

    Attributes:
        objects: By kind and name.
        assumed: The versions that are to be written.
    """

    objects: Objects
    assumed: Objects = field(default_factory=dict)

    def get(self, kind: str, name: str) -> Any:
        """Returns an object in its assumed version; None if it does not exist."""
        if (kind, name) not in self.objects:
            return None
        return self.assumed.get((kind, name), self.objects[kind, name])

    def all(self, kind: str) -> list[Any]:
        """Returns the objects of a kind, by name."""
        names = sorted(name for other, name in self.objects if other == kind)
        return [self.get(kind, name) for name in names]

    def problem(self, pod: Pod) -> str:
        """Returns why PreFilter rejects a pod; "" if it does not."""
        for name in claims_in(pod):
            claim = self.objects.get(("PersistentVolumeClaim", name))
            if claim is None:
                return f'persistentvolumeclaim "{name}" not found'
            if claim.status.phase == "Lost":
                volume = claim.spec.volume_name
                return (
                    f'persistentvolumeclaim "{name}" bound to non-existent '
                    f'persistentvolume "{volume}"'
                )
            if claim.metadata.deletion_timestamp is not None:
                return f'persistentvolumeclaim "{name}" is being deleted'
        claims = self.claims(pod)
        return IMMEDIATE if any(self._is_immediate(claim) for claim in claims) else ""

    def claims(self, pod: Pod) -> list[Any]:
        """Returns the claims of a pod that passes PreFilter."""
        return [self.get("PersistentVolumeClaim", name) for name in claims_in(pod)]

    def _is_immediate(self, claim: Any) -> bool:
        storage_class = self.get("StorageClass", claim.spec.storage_class_name or "")
        waits = storage_class is not None and (
            storage_class.volume_binding_mode == "WaitForFirstConsumer"
        )
        return not is_bound(claim) and not (waits and not claim.spec.volume_name)

    def plan(self, claims: Iterable[Any], node: Any) -> Plan:
        """Returns what claims get on a node."""
        claims = list(claims)
        reasons = self._of_bound([claim for claim in claims if is_bound(claim)], node)
        unbound = [claim for claim in claims if not is_bound(claim)]
        placed = [claim for claim in unbound if SELECTED_NODE in claim.metadata.annotations]
        others = [claim for claim in unbound if SELECTED_NODE not in claim.metadata.annotations]
        name = node.metadata.name
        if any(claim.metadata.annotations[SELECTED_NODE] != name for claim in placed):
            return Plan(ordered({*reasons, NO_VOLUME}), {}, ())
        bindings: dict[str, str] = {}
        provisions = list(placed)
        for claim in sorted(others, key=_size_of):
            volume = self._match(claim, node, set(bindings.values()))
            if volume is None:
                provisions.append(claim)
            else:
                bindings[claim.metadata.name] = volume.metadata.name
        for claim in provisions:
            if why := self._provision_problem(claim, node):
                reasons.add(why)
                break
        return Plan(ordered(reasons), bindings, tuple(c.metadata.name for c in provisions))

    def _of_bound(self, claims: list[Any], node: Any) -> set[str]:
        for claim in claims:
            volume = self.get("PersistentVolume", claim.spec.volume_name)
            if volume is None:
                return {MISSING}
            if not reaches(volume, node):
                return {CONFLICT}
        return set()

    def _match(self, claim: Any, node: Any, taken: set[str]) -> Any:
        best = None
        for volume in self.all("PersistentVolume"):
            owner, own = volume.spec.claim_ref, claim.metadata
            is_own = owner is not None and owner.name == own.name and owner.uid in ("", own.uid)
            if volume.metadata.name in taken or (owner is not None and not is_own):
                continue
            if volume.spec.storage_class_name != claim.spec.storage_class_name:
                continue
            if _capacity_of(volume) < _size_of(claim) or _mode_of(volume) != _mode_of(claim):
                continue
            if volume.metadata.deletion_timestamp is not None:
                continue
            if is_own:
                return volume if reaches(volume, node) else None
            is_free = volume.status.phase == "Available" and reaches(volume, node)
            if not is_free or not set(claim.spec.access_modes) <= set(volume.spec.access_modes):
                continue
            selector = claim.spec.selector
            labels = selector.match_labels if selector is not None else {}
            if not labels.items() <= volume.metadata.labels.items():
                continue
            if best is None or _capacity_of(volume) < _capacity_of(best):
                best = volume
        return best

    def _provision_problem(self, claim: Any, node: Any) -> str:
        storage_class = self.get("StorageClass", claim.spec.storage_class_name)
        if storage_class.provisioner in ("", "kubernetes.io/no-provisioner"):
            return NO_VOLUME
        terms = [
            {rule.key: rule.values for rule in term.match_label_expressions}
            for term in storage_class.allowed_topologies
        ]
        labels = node.metadata.labels
        if terms and not any(
            all(labels.get(key) in values for key, values in term.items()) for term in terms
        ):
            return NO_VOLUME
        driver = self.get("CSIDriver", storage_class.provisioner)
        if driver is None or not driver.spec.storage_capacity:
            return ""
        size = _size_of(claim)
        for capacity in self.all("CSIStorageCapacity"):
            limit = capacity.maximum_volume_size or capacity.capacity
            topology = capacity.node_topology
            if capacity.storage_class_name != storage_class.metadata.name or limit is None:
                continue
            is_there = topology is not None and topology.match_labels.items() <= labels.items()
            if is_there and Quantity.from_wire(limit).value() >= size:
                return ""
        return NO_STORAGE


def ordered(reasons: Iterable[str]) -> tuple[str, ...]:
    """Returns reasons in the order of upstream's message."""
    return tuple(
        reason for reason in (CONFLICT, NO_VOLUME, NO_STORAGE, MISSING) if reason in set(reasons)
    )


def claims_in(pod: Pod) -> list[str]:
    """Returns the names of a pod's claims."""
    return [
        volume.persistent_volume_claim.claim_name
        for volume in pod.spec.volumes
        if volume.persistent_volume_claim is not None
    ]


def is_bound(claim: Any) -> bool:
    """Returns whether a claim has a volume, and the controller has said so."""
    return bool(claim.spec.volume_name) and COMPLETED in claim.metadata.annotations


def reaches(volume: Any, node: Any) -> bool:
    """Returns whether a node meets a volume's affinity: all rules of one of its terms."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return True
    labels = node.metadata.labels
    return any(
        all(meets(labels, rule.key, rule.operator, rule.values) for rule in term.match_expressions)
        for term in affinity.required.node_selector_terms
    )


def _size_of(claim: Any) -> int:
    return Quantity.from_wire(claim.spec.resources.requests["storage"]).value()


def _capacity_of(volume: Any) -> int:
    return Quantity.from_wire(volume.spec.capacity["storage"]).value()


def _mode_of(obj: Any) -> str:
    return obj.spec.volume_mode or "Filesystem"
