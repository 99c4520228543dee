"""The ReplicaSets of a Deployment in one turn: claimed, numbered, created, scaled and deleted.

Source: pkg/controller/deployment/sync.go, util/deployment_util.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from mooring.objects.meta import controller_of
from mooring.simulation.controllers.deployment.limits import max_surge
from mooring.simulation.controllers.deployment.status import Conditions, is_complete
from mooring.simulation.controllers.objects import (
    Create,
    Delete,
    Json,
    Patch,
    SetController,
    Workload,
    Write,
    owner_reference,
    selector_of,
)
from mooring.simulation.controllers.workload_pods import template_hash

if TYPE_CHECKING:
    from mooring.simulation.controllers.cluster import ControlledObjects

HASH_LABEL: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
REVISION_HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS: Final = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS: Final = "deployment.kubernetes.io/max-replicas"

#: Annotations of a Deployment that its ReplicaSets do not get.
_NOT_COPIED: Final = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        REVISION,
        REVISION_HISTORY,
        DESIRED_REPLICAS,
        MAX_REPLICAS,
        "deprecated.deployment.rollback.to",
    }
)
#: The revision history of a ReplicaSet is cut to so many characters.
_HISTORY_MAX: Final = 2000
_NAME_MAX: Final = 253


class ReplicaSets:
    """The ReplicaSets of one Deployment.

    Attributes:
        writes: The writes so far.
        all: All of them, the oldest first, as they are after the writes.
        new: The ReplicaSet of the Deployment's template; None if there is none.
    """

    def __init__(
        self, deployment: Workload, cluster: ControlledObjects, conditions: Conditions
    ) -> None:
        self.writes: list[Write] = []
        self._deployment = deployment
        self._cluster = cluster
        self._conditions = conditions
        self.all = sorted(self._claimed(), key=by_creation)
        self.new = next((item for item in self.all if self._is_current(item)), None)

    @property
    def old(self) -> list[Workload]:
        """The ReplicaSets of earlier templates."""
        return [item for item in self.all if item is not self.new]

    def _claimed(self) -> Iterable[Workload]:
        """Returns the ReplicaSets of the Deployment; orphans are adopted, others released."""
        deployment, selector = self._deployment, selector_of(self._deployment)
        uid = deployment.metadata.uid
        for replica_set in self._cluster.workloads_in("ReplicaSet", deployment.metadata.namespace):
            owner = controller_of(replica_set.metadata)
            is_match = selector.matches(replica_set.metadata.labels)
            if owner is not None and owner.uid == uid:
                if is_match or deployment.is_deleted:
                    yield replica_set
                elif not replica_set.is_deleted:
                    self._set_controller(replica_set, None)
            elif (
                owner is None and is_match and not (deployment.is_deleted or replica_set.is_deleted)
            ):
                self._set_controller(replica_set, owner_reference(deployment))
                yield replica_set

    def _set_controller(self, replica_set: Workload, owner: Json | None) -> None:
        metadata, uid = replica_set.metadata, self._deployment.metadata.uid
        write = SetController(
            "ReplicaSet", metadata.namespace, metadata.name, metadata.uid, uid, owner
        )
        self.writes.append(write)

    def _is_current(self, replica_set: Workload) -> bool:
        """Returns whether a ReplicaSet has the Deployment's template, apart from the hash."""
        template = replica_set.spec["template"]
        metadata = dict(template.get("metadata") or {})
        labels = dict(metadata.get("labels") or {})
        labels.pop(HASH_LABEL, None)
        return bool(
            {**template, "metadata": {**metadata, "labels": labels}}
            == _with_labels(self._deployment.spec["template"])
        )

    def sync_revision(self) -> None:
        """Gives the new ReplicaSet the highest revision, and the Deployment that revision."""
        if self.new is None:
            return
        highest = max((revision_of(item) for item in self.old), default=0) + 1
        annotations = self._copied_annotations(self.new)
        before = self.new.metadata.annotations.get(REVISION, "")
        if revision_of(self.new) < highest:
            annotations[REVISION] = str(highest)
            if before:
                annotations[REVISION_HISTORY] = _longer_history(self.new, before)
        patch: Json = {}
        if annotations:
            patch["metadata"] = {"annotations": annotations}
        if self.new.min_ready_s != self._deployment.min_ready_s:
            patch["spec"] = {"minReadySeconds": self._deployment.min_ready_s}
        if patch:
            self._patch(self.new, patch)
        self._set_revision(annotations.get(REVISION, before))
        self._conditions.note_found(self.new)

    def _copied_annotations(self, replica_set: Workload | None) -> dict[str, str]:
        present = {} if replica_set is None else replica_set.metadata.annotations
        return {
            name: text
            for name, text in self._deployment.metadata.annotations.items()
            if name not in _NOT_COPIED and present.get(name) != text
        }

    def _set_revision(self, revision: str) -> None:
        metadata = self._deployment.metadata
        if revision and metadata.annotations.get(REVISION) != revision:
            body = {"metadata": {"annotations": {REVISION: revision}}}
            # By the status: a change of annotations alone would count as a new generation.
            write = Patch("Deployment", metadata.namespace, metadata.name, body, "status")
            self.writes.append(write)

    def create_new(self) -> None:
        """Creates the ReplicaSet of the template."""
        deployment = self._deployment
        metadata, template = deployment.metadata, deepcopy(deployment.spec["template"])
        digest = template_hash(template)
        labels = {**(template.get("metadata", {}).get("labels") or {}), HASH_LABEL: digest}
        template["metadata"] = {**template.get("metadata", {}), "labels": labels}
        selector = deepcopy(deployment.spec["selector"])
        selector["matchLabels"] = {**selector.get("matchLabels", {}), HASH_LABEL: digest}
        revision = str(max((revision_of(item) for item in self.old), default=0) + 1)
        annotations = {**self._copied_annotations(None), REVISION: revision}
        annotations |= self._replicas_annotations()
        name = f"{metadata.name[: _NAME_MAX - 1 - len(digest)]}-{digest}"
        spec: Json = {"replicas": self.size_of_new(0), "selector": selector, "template": template}
        if deployment.min_ready_s:
            spec["minReadySeconds"] = deployment.min_ready_s
        manifest: Json = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": name,
                "namespace": metadata.namespace,
                "labels": labels,
                "annotations": annotations,
                "ownerReferences": [owner_reference(deployment)],
            },
            "spec": spec,
        }
        self.writes.append(Create(manifest))
        new_metadata = replace(metadata, name=name, uid="", annotations=annotations, generation=1)
        self.new = Workload(
            api_version="apps/v1", kind="ReplicaSet", metadata=new_metadata, spec=spec
        )
        self.all.append(self.new)
        self._set_revision(revision)
        self._conditions.note_created(self.new)

    def size_of_new(self, current: int) -> int:
        """Returns the size of the new ReplicaSet that maxSurge allows."""
        desired = self._deployment.replicas
        if self._deployment.spec["strategy"]["type"] == "Recreate":
            return desired
        free = desired + max_surge(self._deployment) - total_replicas(self.all)
        return current if free <= 0 else current + min(free, desired - current)

    def _replicas_annotations(self) -> dict[str, str]:
        desired = self._deployment.replicas
        most = desired + max_surge(self._deployment)
        return {DESIRED_REPLICAS: str(desired), MAX_REPLICAS: str(most)}

    def scale(self, replica_set: Workload, size: int, *, is_forced: bool = False) -> bool:
        """Scales a ReplicaSet; returns whether its size changes."""
        annotations = self._replicas_annotations()
        has_annotations = annotations.items() <= replica_set.metadata.annotations.items()
        is_resized = replica_set.replicas != size
        if is_resized or (is_forced and not has_annotations):
            patch = {"metadata": {"annotations": annotations}, "spec": {"replicas": size}}
            self._patch(replica_set, patch)
        return is_resized

    def _patch(self, replica_set: Workload, patch: Json) -> None:
        """Patches a ReplicaSet; later steps of this turn see the result."""
        metadata = replica_set.metadata
        if metadata.uid:
            self.writes.append(Patch("ReplicaSet", metadata.namespace, metadata.name, patch))
        annotations = patch.get("metadata", {}).get("annotations", {})
        patched = replace(
            replica_set,
            metadata=replace(metadata, annotations={**metadata.annotations, **annotations}),
            spec={**replica_set.spec, **patch.get("spec", {})},
        )
        self.all[self.all.index(replica_set)] = patched
        if replica_set is self.new:
            self.new = patched

    def delete_old_if_complete(self) -> None:
        """Deletes old revisions when the rollout has ended."""
        if is_complete(self._deployment, self._deployment.status):
            self.delete_old()

    def delete_old(self) -> None:
        """Deletes the oldest revisions beyond ``revisionHistoryLimit``."""
        limit = self._deployment.spec.get("revisionHistoryLimit")
        if limit is None or limit == 2**31 - 1:
            return
        living = sorted((item for item in self.old if not item.is_deleted), key=revision_of)
        for old in living[: max(0, len(living) - limit)]:
            metadata, status = old.metadata, old.status
            is_seen = metadata.generation <= status.get("observedGeneration", 0)
            if is_seen and not old.replicas and not status.get("replicas", 0):
                write = Delete("ReplicaSet", metadata.namespace, metadata.name, metadata.uid)
                self.writes.append(write)


def revision_of(workload: Workload) -> int:
    """Returns the revision of a ReplicaSet or Deployment; 0 if it has none."""
    text = workload.metadata.annotations.get(REVISION, "")
    return int(text) if text.isascii() and text.isdigit() else 0


def _with_labels(template: Json) -> Json:
    metadata = dict(template.get("metadata") or {})
    return {**template, "metadata": {**metadata, "labels": dict(metadata.get("labels") or {})}}


def by_creation(workload: Workload) -> tuple[str, str]:
    """Returns the sort key: creation time, then name."""
    return (workload.metadata.creation_timestamp or "", workload.metadata.name)


def active(sets: Iterable[Workload]) -> list[Workload]:
    """Returns the ReplicaSets that should have pods."""
    return [item for item in sets if item.replicas > 0]


def total_replicas(sets: Iterable[Workload]) -> int:
    """Returns the sum of the sizes."""
    return sum(item.replicas for item in sets)


def _longer_history(replica_set: Workload, revision: str) -> str:
    """Returns the earlier revisions of a ReplicaSet that becomes the newest one again."""
    text = replica_set.metadata.annotations.get(REVISION_HISTORY, "")
    revisions = [*(text.split(",") if text else ()), revision]
    while len(",".join(revisions)) > _HISTORY_MAX:
        revisions.pop(0)
    return ",".join(revisions)
