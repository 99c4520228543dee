"""The cluster as a pod of a simulation meets it: at its first attempt.

The engine decides, as in ``mooring simulate``: a nominated pod before this one waits for its
victims, which still count on their node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from mooring.clock import SystemClock, seeded_random
from mooring.errors import SchedulerError
from mooring.framework import Attempt, Diagnosis, Placement
from mooring.framework.status import Status
from mooring.objects.pod import Pod
from mooring.queue import QueuedPod, QueueName
from mooring.scheduler.observer import Observer
from mooring.simulation.driver import Driver
from mooring.simulation.outcome import decision_of
from mooring.simulation.run import SimulationOptions, SimulationRun

if TYPE_CHECKING:
    from mooring.config import KubeSchedulerConfiguration
    from mooring.decision import Decision
    from mooring.simulation.utilization import Utilization
    from mooring.simulation.workload import Workload


class BeforeAttempt(NamedTuple):
    """A driver in the state before an attempt.

    Attributes:
        driver: Its cluster, nominations and random numbers are those of the attempt.
        decision: What the engine decided; None = the pod was never attempted, or with an error.
        pod: The version that was attempted; None = the pod was never attempted.
    """

    driver: Driver
    decision: Decision | None
    pod: Pod | None


def before_attempt(
    workload: Workload,
    pod_key: str,
    *,
    config: KubeSchedulerConfiguration | None = None,
    plugins: Sequence[str | Any] = (),
    seed: int = 0,
    gates: Mapping[str, bool] = MappingProxyType({}),
    utilization: Utilization,
) -> BeforeAttempt:
    """Simulates up to the first attempt at a pod; to the end if there is none.

    Args:
        workload: The cluster and its pending pods.
        pod_key: "namespace/name".
        config: Of the scheduler; None = kube-scheduler's defaults.
        plugins: Further plugins.
        seed: Of all random numbers.
        gates: The feature gates whose value is not the default.
        utilization: Of the workload's objects; it follows the cluster.

    Raises:
        ConfigError: the configuration or a plugin cannot be used.
    """
    options = SimulationOptions(
        config=config,
        plugins=plugins,
        seed=seed,
        gates=gates,
        on_change=utilization.on_change,
    )
    run = SimulationRun(workload, options)
    observer = _UntilAttempt(run, pod_key)
    run.observe(observer)
    try:
        run.run()
    except _AttemptReached:
        pass
    else:
        observer.note_state()
    rng = seeded_random(seed)
    driver = Driver(
        observer.objects,
        config=config,
        plugins=plugins,
        rng=rng,
        clock=SystemClock(),
        gates=gates,
    )
    for pod in observer.pods:
        driver.listers.apply("Pod", None, pod)
    for pod, node_name in observer.waiting:
        # The plugins of Permit have to know it; the nominated node is tried first.
        status = replace(pod.status, nominated_node_name=node_name)
        driver.apply(driver.attempt(replace(pod, status=status)))
    for pod, node_name in observer.nominated:
        driver.nominate(pod, node_name)
    rng.setstate(observer.rng_state)
    driver.next_start_index = observer.start_index
    return BeforeAttempt(driver, observer.decision, observer.pod)


class _AttemptReached(Exception):
    """The simulation has gone far enough."""


class _UntilAttempt(Observer):
    """Notes the state before the first attempt at a pod, and ends the simulation after it."""

    def __init__(self, run: SimulationRun, pod_key: str) -> None:
        self._run = run
        self._pod_key = pod_key
        self.objects: list[Any] = []
        self.pods: list[Pod] = []
        self.nominated: list[tuple[Pod, str]] = []
        self.waiting: list[tuple[Pod, str]] = []
        self.rng_state: Any = None
        self.start_index = 0
        self.decision: Decision | None = None
        self.pod: Pod | None = None

    def note_state(self) -> None:
        """Copies the cluster of the scheduler, which may know more than the table."""
        scheduler = self._run.scheduler
        self.rng_state = self._run.rng.getstate()
        cache = scheduler.cache
        waiting = {item.pod.uid: item.pod.pod for item in scheduler.handle.waiting}
        placed = [item.info.pod for item in cache.pods]
        self.objects = [obj for obj in self._run.objects() if not isinstance(obj, Pod)]
        self.pods = [obj for obj in self._run.objects() if isinstance(obj, Pod)]
        self.objects += [pod for pod in placed if pod.metadata.uid not in waiting]
        self.nominated = [(info.pod, node_name) for info, node_name in cache.nominator.pods()]
        nodes = {pod.metadata.uid: pod.spec.node_name for pod in placed}
        self.waiting = [(pod, nodes[uid]) for uid, pod in waiting.items() if uid in nodes]

    def moved(self, entry: QueuedPod, queue_name: QueueName, why: str) -> None:  # noqa: ARG002
        """Notes the state when the pod is popped."""
        if queue_name is QueueName.IN_FLIGHT and entry.pod.key == self._pod_key:
            self.note_state()
            self.pod = entry.pod.pod

    def attempted(self, entry: QueuedPod, attempt: Attempt, result: Placement | Diagnosis) -> None:
        """Notes the decision about the pod."""
        if entry.pod.key == self._pod_key:
            self.start_index = attempt.start_index
            self.decision = decision_of(attempt, result)
            raise _AttemptReached

    def failed(self, entry: QueuedPod, why: Diagnosis | Status | SchedulerError) -> None:  # noqa: ARG002
        """Ends an attempt that has no decision."""
        if entry.pod.key == self._pod_key:
            raise _AttemptReached
