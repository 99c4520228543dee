"""The Deployment controller: ReplicaSets for the versions of a template, and their sizes.

::

    template new?  ──> a new ReplicaSet with the next revision
    replicas changed, or paused?  ──> all ReplicaSets are scaled in proportion
    Recreate:       old ones to 0 ──> their pods are gone ──> the new one to full size
    RollingUpdate:  the new one up, within maxSurge <──> old ones down, within maxUnavailable

Each turn does one step; the changes that it causes lead to the next one.

Source: pkg/controller/deployment/{sync,rolling,recreate}.go, util/deployment_util.go.
Differs: a turn goes by the sizes that it has just written; ``deprecated.deployment.rollback.to``
is not read; a hash collision is not resolved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mooring.objects.pod import FINISHED_PHASES
from mooring.simulation.controllers.deployment.limits import max_surge, max_unavailable
from mooring.simulation.controllers.deployment.replica_sets import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    ReplicaSets,
    active,
    by_creation,
    total_replicas,
)
from mooring.simulation.controllers.deployment.status import (
    TERMINATING,
    Conditions,
    rollout_status,
)
from mooring.simulation.controllers.objects import (
    Result,
    Turn,
    Workload,
    selector_of,
    status_write,
)

if TYPE_CHECKING:
    from mooring.simulation.controllers.cluster import ControlledObjects


def sync_deployment(workload: Workload, cluster: ControlledObjects, turn: Turn) -> Result:
    """Returns the writes of the next step of a Deployment."""
    if selector_of(workload).selects_everything:
        return Result([])
    return _Rollout(workload, cluster, turn).step()


class _Rollout:
    """One turn of a Deployment."""

    def __init__(self, deployment: Workload, cluster: ControlledObjects, turn: Turn) -> None:
        self._deployment = deployment
        self._cluster = cluster
        self._conditions = Conditions(deployment, turn.now_s)
        self._sets = ReplicaSets(deployment, cluster, self._conditions)

    def step(self) -> Result:
        """Returns the writes of this turn."""
        deployment = self._deployment
        if deployment.is_deleted:
            return self._result(is_rollout=False)
        self._conditions.note_pause(is_paused=bool(deployment.spec.get("paused")))
        if deployment.spec.get("paused") or self._is_scaled():
            self._sets.sync_revision()
            self._scale_in_proportion()
            if deployment.spec.get("paused"):
                self._sets.delete_old()
            return self._result(is_rollout=False)
        if deployment.spec["strategy"]["type"] == "Recreate":
            self._recreate()
        else:
            self._roll()
        return self._result(is_rollout=True)

    def _result(self, *, is_rollout: bool) -> Result:
        sets = self._sets
        status, again_s = rollout_status(
            self._deployment, sets.all, sets.new, self._conditions, is_rollout=is_rollout
        )
        return Result(
            [*sets.writes, *status_write(self._deployment, status, pointers=(TERMINATING,))],
            again_s,
        )

    # -- scaling ----------------------------------------------------------------------------------

    def _is_scaled(self) -> bool:
        """Returns whether the number of replicas has changed since the last step."""
        desired = str(self._deployment.replicas)
        return any(
            item.metadata.annotations.get(DESIRED_REPLICAS, desired) != desired
            for item in active(self._sets.all)
        )

    def _scale_in_proportion(self) -> None:
        deployment, scaled = self._deployment, active(self._sets.all)
        if len(scaled) <= 1:
            newest = self._sets.new or (self._sets.old[-1] if self._sets.old else None)
            only = scaled[0] if scaled else newest
            if only is not None:
                self._sets.scale(only, deployment.replicas)
            return
        if self._is_saturated():
            for old in active(self._sets.old):
                self._sets.scale(old, 0)
            return
        if deployment.spec["strategy"]["type"] != "Recreate":
            for replica_set, size in _proportional_sizes(deployment, scaled):
                self._sets.scale(replica_set, size, is_forced=True)

    def _is_saturated(self) -> bool:
        """Returns whether the new ReplicaSet has all replicas, and all are available."""
        new, desired = self._sets.new, self._deployment.replicas
        return (
            new is not None
            and new.replicas == desired
            and new.metadata.annotations.get(DESIRED_REPLICAS) == str(desired)
            and new.status.get("availableReplicas", 0) == desired
        )

    # -- strategies -------------------------------------------------------------------------------

    def _recreate(self) -> None:
        self._sets.sync_revision()
        scaled = [self._sets.scale(old, 0) for old in active(self._sets.old)]
        if any(scaled) or self._has_old_pods():
            return
        if self._sets.new is None:
            self._sets.create_new()
        if self._sets.new is not None:
            self._sets.scale(self._sets.new, self._deployment.replicas)
        self._sets.delete_old_if_complete()

    def _has_old_pods(self) -> bool:
        if sum(item.status.get("replicas", 0) for item in self._sets.old):
            return True
        pods = [pod for item in self._sets.old for pod in self._cluster.pods_of(item)]
        return any(pod.status.phase not in FINISHED_PHASES for pod in pods)

    def _roll(self) -> None:
        if self._sets.new is None:
            self._sets.create_new()
            return
        self._sets.sync_revision()
        new, desired = self._sets.new, self._deployment.replicas
        if new.replicas != desired:
            size = desired if new.replicas > desired else self._sets.size_of_new(new.replicas)
            if self._sets.scale(new, size):
                return
        if not self._scale_old_down():
            self._sets.delete_old_if_complete()

    def _scale_old_down(self) -> bool:
        """Scales old ReplicaSets down: first their pods that are not available."""
        sets, new, old_sets = self._sets, self._sets.new, active(self._sets.old)
        if new is None or not old_sets:
            return False
        least = self._deployment.replicas - max_unavailable(self._deployment)
        unavailable = new.replicas - _available(new)
        budget = total_replicas(sets.all) - least - unavailable
        if budget <= 0:
            return False
        scaled = 0
        for old in old_sets:
            count = min(budget - scaled, old.replicas - _available(old))
            if count > 0 and sets.scale(old, old.replicas - count):
                scaled += count
        free = sum(map(_available, sets.all)) - least
        for old in active(sets.old):
            count = min(old.replicas, free)
            if count > 0 and sets.scale(old, old.replicas - count):
                scaled, free = scaled + count, free - count
        return scaled > 0


def _available(replica_set: Workload) -> int:
    return int(replica_set.status.get("availableReplicas", 0))


def _proportional_sizes(
    deployment: Workload, scaled: Sequence[Workload]
) -> list[tuple[Workload, int]]:
    """Returns the sizes of several ReplicaSets after the Deployment was scaled."""
    desired = deployment.replicas
    allowed = desired + max_surge(deployment) if desired else 0
    missing = allowed - total_replicas(scaled)
    newest_first = sorted(scaled, key=by_creation, reverse=missing > 0)
    ordered = sorted(newest_first, key=lambda item: -item.replicas)
    sizes, added = [], 0
    for replica_set in ordered:
        share = 0
        if missing and missing != added:
            share = _fraction(deployment, replica_set) if desired else -replica_set.replicas
            left = missing - added
            share = min(share, left) if missing > 0 else max(share, left)
        sizes.append(replica_set.replicas + share)
        added += share
    if missing:
        sizes[0] = max(0, sizes[0] + missing - added)
    return list(zip(ordered, sizes, strict=True))


def _fraction(deployment: Workload, replica_set: Workload) -> int:
    """Returns by how much a ReplicaSet grows, as the Deployment as a whole does."""
    text = replica_set.metadata.annotations.get(MAX_REPLICAS, "")
    before = int(text) if text.isdigit() else 0
    before = before or deployment.status.get("replicas", 0)
    if not before:
        return 0
    most = deployment.replicas + max_surge(deployment)
    return _rounded(replica_set.replicas * most / before) - replica_set.replicas


def _rounded(number: float) -> int:
    return int(number + 0.5) if number >= 0 else int(number - 0.5)
