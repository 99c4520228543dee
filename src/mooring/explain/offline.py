"""Explains a pod of a workload: the pods before it are scheduled first, without an API server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec.structs import replace

from mooring.client import ObjectChange
from mooring.config import KubeSchedulerConfiguration
from mooring.decision import SCHEDULED, Decision
from mooring.explain.binding import Binding, carry_out
from mooring.explain.explain import DEFAULTS, Explained, Options, text_of
from mooring.explain.pod_state import PodState, encoded, state_of
from mooring.explain.undecided import reason_without_decision
from mooring.objects.meta import key
from mooring.objects.pod import Pod, unbound
from mooring.queue import profile_of
from mooring.simulation.before_attempt import before_attempt
from mooring.simulation.build import make_driver
from mooring.simulation.driver import Driver
from mooring.simulation.run import SimulationOptions, SimulationRun
from mooring.simulation.utilization import Utilization
from mooring.simulation.workload import Workload


class Source(NamedTuple):
    """The cluster and the scheduler of an explanation.

    Attributes:
        workload: The cluster and its pending pods.
        config: The configuration; None = all defaults.
        plugins: Further plugins: objects, or ``module:attribute``.
        seed: The random seed.
        schedules_queue: Whether the pods before the explained one are scheduled first.
        gates: The feature gates whose value is not the default.
    """

    workload: Workload
    config: KubeSchedulerConfiguration | None
    plugins: Sequence[str | Any] = ()
    seed: int = 0
    schedules_queue: bool = True
    gates: Mapping[str, bool] = MappingProxyType({})


def explain_offline(
    pod: Pod,
    source: Source,
    *,
    options: Options = DEFAULTS,
    is_json: bool = False,
) -> str:
    """Returns the explanation of a pod, as text or as JSON.

    A pod on a node is decided again without itself, on the rest of the cluster as it is.

    Raises:
        ConfigError: the configuration or a plugin cannot be used.
    """
    workload = source.workload
    driver = make_driver(
        workload.objects,
        config=source.config,
        plugins=source.plugins,
        seed=source.seed,
        gates=source.gates,
    )
    for pending in workload.pending:
        driver.listers.apply("Pod", None, pending)
    note = reason_without_decision(pod, driver.frameworks)
    if note:
        name = profile_of(pod)
        state = PodState(pod=key(pod), scheduler=name, node=pod.spec.node_name, note=note)
        return encoded(state) if is_json else note
    utilization = Utilization(workload.objects, pending=[pod])
    node, later = pod.spec.node_name, workload.pending
    decision: Decision | None = None
    if node:
        note = (
            f"Pod {key(pod)} is on {node}. It was decided again without itself, on the rest of"
            " the cluster as it is now:"
        )
        driver.remove("Pod", pod.metadata.namespace, pod.metadata.name)
        utilization.remove(key(pod))
        pod = unbound(pod)
    elif source.schedules_queue:
        keys = [key(other) for other in workload.pending]
        # Pods of controllers are created when the pending ones are in the queue.
        later = workload.pending[keys.index(key(pod)) + 1 :] if key(pod) in keys else []
        driver, decision, attempted = before_attempt(
            workload,
            key(pod),
            config=source.config,
            plugins=source.plugins,
            seed=source.seed,
            gates=source.gates,
            utilization=utilization,
        )
        pod = pod if attempted is None else attempted
    explained = _explained(pod, driver, utilization, later, options, decision)
    if is_json:
        state = state_of(explained)
        state.node, state.note = node, note
        return encoded(state)
    return "\n".join([note, "", text_of(explained)] if note else [text_of(explained)])


def created_pods(source: Source) -> list[Pod]:
    """Returns the pods that controllers create in a simulation of the workload, as created.

    They have the names that ``mooring simulate`` prints for the same seed.

    Raises:
        ConfigError: the configuration or a plugin cannot be used.
    """
    created: list[Pod] = []
    pending = {key(pod) for pod in source.workload.pending}

    def note(kind: str, change: ObjectChange) -> None:
        if kind == "Pod" and change.old is None and key(change.new) not in pending:
            created.append(change.new)

    options = SimulationOptions(
        config=source.config,
        plugins=source.plugins,
        seed=source.seed,
        gates=source.gates,
        on_change=note,
    )
    SimulationRun(source.workload, options).run()
    return created


def _explained(
    pod: Pod,
    driver: Driver,
    utilization: Utilization,
    later: Sequence[Pod],
    options: Options,
    decision: Decision | None,
) -> Explained:
    """Returns the decision on the cluster as the driver has it; None = the driver decides."""
    framework = driver.frameworks[profile_of(pod)]
    outcome = driver.attempt(pod, explain=True)
    decided = outcome.decision()
    if decision is not None:
        # The same, except for the nomination, which is known after the attempt only.
        decided = replace(decision, nominated_node_after=decided.nominated_node_after)

    def bind() -> Binding | None:
        return carry_out(driver, outcome, later) if decided.result == SCHEDULED else None

    return Explained(
        pod,
        decided,
        utilization,
        weights=framework.profile.weights,
        snapshot=driver.cache.snapshot(),
        framework=framework,
        options=options,
        driver=driver,
        bind=bind,
    )
