"""The memory of a Job controller: which pods it has counted, and when it may create the next ones.

A pod is counted once, when it has succeeded, failed, or is being deleted: upstream notes this with
finalizers, so that none is lost.

Source: pkg/controller/job/backoff_utils.go, tracking_utils.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from mooring.objects.pod import FINISHED_PHASES
from mooring.simulation.controllers.job_pods.indexes import index_of, indexes_of
from mooring.simulation.controllers.job_pods.policies import verdict_of

if TYPE_CHECKING:
    from mooring.objects.pod import Pod
    from mooring.simulation.controllers.objects import Json, Workload

#: The wait after the first failure since a success; then twice as long.
BACKOFF_S: Final = 10.0
BACKOFF_S_MAX: Final = 600.0


class JobRecord:
    """The finished pods of one Job.

    Attributes:
        succeeded, failed: How many pods have succeeded, and failed.
        completed, failed_indexes: The indexes that have succeeded, and failed for good.
        message: Why ``podFailurePolicy`` makes the Job fail; "" = it does not.

    Args:
        job: With the status that another controller may have left.
        pods: Its pods; those that have finished are in its status.
    """

    def __init__(self, job: Workload, pods: Sequence[Pod]) -> None:
        status: Json = job.status
        self.message = ""
        self.completed = indexes_of(status.get("completedIndexes") or "")
        self.failed_indexes = indexes_of(status.get("failedIndexes") or "")
        phases = [pod.status.phase for pod in pods]
        self.succeeded = max(phases.count("Succeeded"), int(status.get("succeeded") or 0))
        self.failed = max(phases.count("Failed"), int(status.get("failed") or 0))
        ended = [pod for pod in pods if pod.status.phase in FINISHED_PHASES]
        self.completed |= {index_of(pod) for pod in ended if pod.status.phase == "Succeeded"} - {-1}
        terminating = [pod for pod in pods if pod.metadata.deletion_timestamp is not None]
        self._counted = {pod.metadata.uid for pod in (*ended, *terminating)}
        #: The pods that are not counted yet, by UID.
        self._present: dict[str, Pod] = {}
        #: Failures since the last success, and the last one's time; -1 = of the whole Job.
        self._failures: dict[int, int] = {}
        self._failed_s: dict[int, float] = {}
        #: Index -> failures that count for ``backoffLimitPerIndex``.
        self._limited: dict[int, int] = {}

    def count(self, job: Workload, pods: Sequence[Pod], now_s: float) -> None:
        """Counts the pods that have ended since the last call."""
        spec = job.spec
        waits = replaces_only_failed(spec)
        current = {pod.metadata.uid: pod for pod in pods}
        removed = [pod for uid, pod in self._present.items() if uid not in current]
        new = [pod for uid, pod in current.items() if uid not in self._counted]
        succeeded = [pod for pod in new if pod.status.phase == "Succeeded"]
        failed = [pod for pod in new if _has_failed(pod, waits=waits)]
        failed += removed
        self._counted = {uid for uid in self._counted if uid in current}
        self._counted |= {pod.metadata.uid for pod in (*succeeded, *failed)} & current.keys()
        self._present = {uid: pod for uid, pod in current.items() if uid not in self._counted}
        self.succeeded += len(succeeded)
        self.completed |= {index_of(pod) for pod in succeeded} - {-1}
        for pod in failed:
            self._fail(spec, pod)
        self._note_times(spec, succeeded, failed, now_s)

    def _fail(self, spec: Json, pod: Pod) -> None:
        verdict, limit = verdict_of(spec.get("podFailurePolicy"), pod), _limit_of(spec)
        self.failed += verdict.counts
        self.message = self.message or verdict.message
        index = index_of(pod)
        if limit is None or index < 0:
            return
        before = self._limited.get(index, 0)
        if verdict.fails_index or (verdict.counts and before >= limit):
            self.failed_indexes.add(index)
        self._limited[index] = before + verdict.counts

    def _note_times(
        self, spec: Json, succeeded: Iterable[Pod], failed: Iterable[Pod], now_s: float
    ) -> None:
        if _limit_of(spec) is not None:
            for pod in failed:
                index = index_of(pod)
                self._failures[index] = self._failures.get(index, 0) + 1
                self._failed_s[index] = now_s
        elif any(True for _ in succeeded):
            self._failures.clear()
        else:
            for _ in failed:
                self._failures[-1] = self._failures.get(-1, 0) + 1
                self._failed_s[-1] = now_s

    def wait_s(self, now_s: float, index: int = -1) -> float:
        """Returns how long the next pod must wait: of an index, or of the Job; seconds."""
        failures = self._failures.get(index, 0)
        if not failures:
            return 0.0
        backoff_s = min(BACKOFF_S * 2.0 ** min(failures - 1, 30), BACKOFF_S_MAX)
        return max(0.0, self._failed_s[index] + backoff_s - now_s)

    def failures_of(self, index: int) -> int:
        """Returns how many failures of an index count for ``backoffLimitPerIndex``."""
        return self._limited.get(index, 0)


def replaces_only_failed(spec: Json) -> bool:
    """Returns whether a pod that is being deleted is replaced, and counted, only at its end."""
    return spec.get("podReplacementPolicy") == "Failed" or "podFailurePolicy" in spec


def _limit_of(spec: Json) -> int | None:
    limit = spec.get("backoffLimitPerIndex")
    return None if limit is None else int(limit)


def _has_failed(pod: Pod, *, waits: bool) -> bool:
    if pod.status.phase == "Failed":
        return True
    is_deleted = pod.metadata.deletion_timestamp is not None
    return is_deleted and not waits and pod.status.phase != "Succeeded"
