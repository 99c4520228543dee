"""The cluster of a recording after any number of its steps.

::

    steps applied forwards one by one; backwards from the start
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from mooring.decision import GATED, SCHEDULED
from mooring.dra import features_of
from mooring.explain.from_recording import UtilizationReplayer
from mooring.objects.meta import key
from mooring.objects.pod import Pod
from mooring.simulation.cluster import Cluster
from mooring.simulation.replay import RecordedOutcomes, located_within, objects_of, pod_of
from mooring.simulation.utilization import Utilization
from mooring.ui.attempts import AttemptRecord
from mooring.ui.recorded.attempts import RecordedAttempts

BOUND: Final = "bound"
ACTIVE: Final = "active"
UNSCHEDULABLE: Final = "unschedulable"
DELETED: Final = "deleted"


class RecordedCluster:
    """The cluster at a position.

    Attributes:
        attempts: The attempts of the recording.
        position: The number of steps that are applied.
        epoch: Rises when the cluster is built anew: its rows and generations begin again.
        cluster: The cluster.
        utilization: The requests on its nodes.
        pods: All pods, those of later steps included, by "namespace/name".

    Raises:
        ConfigError: an object cannot be read.
    """

    def __init__(self, attempts: RecordedAttempts) -> None:
        self.attempts = attempts
        self.epoch = 0
        self._counts: Counter[str] = Counter()
        self._counted = (0, 0)
        self._objects = objects_of(attempts.header.objects, file=attempts.file)
        self.pods = {key(obj): obj for obj in self._objects if isinstance(obj, Pod)}
        self._later = {step.pod_key for step in attempts.steps}
        for index, step in enumerate(attempts.steps):
            if step.pod_key not in self.pods:
                self.pods[step.pod_key] = pod_of(step, index, file=attempts.file)
        self._rewind()

    def seek(self, position: int) -> None:
        """Goes to a position. Complexity: O(steps between), backwards O(steps from the start)."""
        if position < self.position:
            self._rewind()
        while self.position < position:
            step = self.attempts.steps[self.position]
            with located_within(f"steps[{self.position}]", file=self.attempts.file):
                self._outcomes.apply(step)
            self._latest[step.pod_key] = self.attempts.records[self.position]
            self.position += 1

    def latest(self, name: str) -> AttemptRecord | None:
        """Returns the latest attempt at a pod so far."""
        return self._latest.get(name)

    def node_of(self, name: str) -> str:
        """Returns the node of a pod; "" = none."""
        placed = self.cluster.cache.pods.get(self.pods[name].metadata.uid)
        return "" if placed is None else placed.info.node_name

    def state_of(self, name: str) -> str:
        """Returns the state of a pod; one that no step has attempted yet is active."""
        if self.node_of(name):
            return BOUND
        latest = self._latest.get(name)
        if latest is None:
            return ACTIVE if name in self._later else DELETED
        if latest.result == SCHEDULED:
            return DELETED
        return GATED if latest.result == GATED else UNSCHEDULABLE

    def state_counts(self) -> Counter[str]:
        """Returns the number of pods in each state."""
        if self._counted != (self.epoch, self.position):
            self._counts = Counter(map(self.state_of, self.pods))
            self._counted = self.epoch, self.position
        return self._counts

    def _rewind(self) -> None:
        self.epoch += 1
        self.position = 0
        self._latest: dict[str, AttemptRecord] = {}
        self.cluster = Cluster(self._objects, features_of({}))
        self.utilization = Utilization(self._objects)
        replayer = UtilizationReplayer(self.utilization, self.cluster)
        self._outcomes = RecordedOutcomes(replayer, self.attempts.header.objects)
