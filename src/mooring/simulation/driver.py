"""A scheduler without an API server: it schedules pods one by one, on virtual time.

``simulate``, ``replay`` and ``explain`` use it. It is also the shortest way to see how the
parts fit together: a Cache, a Framework per profile, the scheduling cycle, the binding cycle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from mooring.clock import Clock, Rng, VirtualClock
from mooring.config import KubeSchedulerConfiguration, default_configuration
from mooring.dra import features_of
from mooring.errors import InvariantViolation, PluginError, SchedulerError
from mooring.framework import Attempt, Cycle, Diagnosis, Framework, schedule_pod
from mooring.framework.runtime import bind as binding
from mooring.framework.runtime.post_filter import post_filter
from mooring.framework.status import Code, PostFilterResult, Status
from mooring.framework.waiting_pods import WaitingPod
from mooring.objects import Pod
from mooring.plugins import IN_TREE
from mooring.queue import profile_of
from mooring.scheduler.profiles import load_profiles
from mooring.simulation.cluster import Cluster
from mooring.simulation.offline import OfflineHandle, run_to_end
from mooring.simulation.outcome import Outcome, update_nominations
from mooring.simulation.preempt_all_nodes import with_all_candidate_nodes
from mooring.state import PodInfo

#: The in-tree plugins, to which ``--only-plugins own`` limits the comparison with a recording.
OWN: frozenset[str] = frozenset(IN_TREE)

#: Result of a binding cycle: None = bound, a rejection by Reserve or Permit (a Diagnosis) or by
#: PreBind or Bind (a Status), a wait in Permit, or an error.
BindingResult = Diagnosis | Status | WaitingPod | SchedulerError | None


class Driver(Cluster):
    """A cluster and a configuration; schedules on virtual time.

    ``attempt`` decides without changing the cluster; ``apply`` carries the outcome out.
    """

    OWN = OWN

    def __init__(
        self,
        objects: Iterable[Any],
        *,
        config: KubeSchedulerConfiguration | None = None,
        plugins: Sequence[str | Any] = (),
        rng: Rng,
        clock: Clock,
        node_order: Sequence[str] | None = None,
        cache_results: bool = True,
        preempt_all_nodes: bool = False,
        gates: Mapping[str, bool] = MappingProxyType({}),
    ) -> None:
        """Loads the cluster and the plugins.

        ``plugins`` are objects or ``module:attribute``; ``clock`` times them (decisions run on a
        virtual clock of their own); ``node_order`` must equal the order of the nodes; ``gates`` are
        those that differ from the default. ``preempt_all_nodes``: as in recordings of
        kube-scheduler, preemption tries all nodes, regardless of its arguments.

        Raises:
            ConfigError: if the configuration, a plugin or ``node_order`` cannot be used.
        """
        self._frameworks: dict[str, Framework] = {}
        super().__init__(objects, features_of(gates))
        config = config or default_configuration()
        self.time = VirtualClock()
        self.handle = OfflineHandle(self.cache, self.time, rng, self.listers)
        self.next_start_index = 0
        self.start_time: str | None = None  # of pods that are bound now, RFC 3339; None = unset
        #: Pods waiting in Permit, by UID, and the outcomes of finished waits.
        self._waiting: dict[str, tuple[Outcome, WaitingPod]] = {}
        self._finished_waits: list[Outcome] = []
        if node_order is not None:
            self.check_order(node_order)
        self._frameworks = load_profiles(
            with_all_candidate_nodes(config) if preempt_all_nodes else config,
            self.handle,
            clock=clock,
            waiting=self.handle.waiting,
            plugins=plugins,
            cache_results=cache_results,
            gates=gates,
        )
        self.check_gates()

    # -- state ----------------------------------------------------------------------------------

    @property
    def weights(self) -> dict[str, int]:
        """Weights by score plugin, over all profiles; the first profile with the plugin counts."""
        return merged_weights(self._frameworks.values())

    @property
    def frameworks(self) -> dict[str, Framework]:
        """Frameworks by schedulerName."""
        return self._frameworks

    def is_gated(self, pod: Pod) -> bool:
        """Returns whether a PreEnqueue plugin holds the pod back."""
        framework = self._framework_of(pod)
        return framework is not None and framework.pre_enqueue(PodInfo(pod)) is not None

    def _framework_of(self, pod: Pod) -> Framework | None:
        return self._frameworks.get(profile_of(pod))

    # -- scheduling cycle -----------------------------------------------------------------------

    def attempt(
        self, pod: Pod, *, start_index: int | None = None, explain: bool = False
    ) -> Outcome:
        """Decides where to place ``pod``. Changes only the start index of the next attempt.

        ``explain`` builds the Decision at once; without it, call ``decision()`` before the
        cluster changes.
        """
        info = self.cache.pending_info(pod)
        framework = self._framework_of(pod)
        if framework is None:
            text = f'no profile has the schedulerName "{pod.spec.scheduler_name}"'
            return Outcome.failed(info, text)
        snapshot = self.cache.snapshot()
        attempt = Attempt(snapshot, self.next_start_index if start_index is None else start_index)
        cycle = framework.new_cycle(info, snapshot)
        outcome = self._decide(framework, cycle, attempt)
        if explain:
            outcome.decision()
        return outcome

    def _decide(self, framework: Framework, cycle: Cycle, attempt: Attempt) -> Outcome:
        try:
            gate = framework.pre_enqueue(cycle.pod)
            if gate is not None:
                return Outcome.gated(cycle.pod, gate)
            result = schedule_pod(framework, cycle, attempt)
            post_filter_result = PostFilterResult(None)
            if isinstance(result, Diagnosis):
                post_filter_result = post_filter(framework, cycle, result)
        except PluginError as error:
            return Outcome.failed(cycle.pod, error.located, attempt, nominated="")
        finally:
            self.next_start_index = attempt.next_start_index(self.next_start_index)
        if isinstance(result, Diagnosis):
            attempt.preemption = post_filter_result.record
            outcome = Outcome.refused(
                cycle.pod, result, attempt, nominated=post_filter_result.node_name
            )
            outcome.victims = post_filter_result.victims
            outcome.claim_change = post_filter_result.claim_change
            return outcome
        return Outcome.placed(cycle, framework, result, attempt)

    # -- binding cycle --------------------------------------------------------------------------

    def apply(self, outcome: Outcome) -> Outcome:
        """Carries a decision out: assume, Reserve, Permit, bind. Returns the final outcome.

        A pod that waits in Permit counts on its node; ``settle`` returns its final outcome. Pods
        whose wait has ended are finished here, too. Victims of a preemption are removed at once;
        the preemptor waits for its next attempt.
        """
        final = (
            self._apply_placement(outcome)
            if outcome.node is not None
            else self._evict_victims(outcome)
        )
        if self._waiting:
            self._finish_waits()
        final.updated, final.deleted_claims = self.handle.take_changes()
        return final

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """Removes an object; a pod that waits in Permit is rejected and unreserved.

        Source: pkg/scheduler/eventhandlers.go (deletePodFromSchedulingQueue).
        """
        if kind == "Pod" and self._waiting:
            for outcome, waiting in self._waiting.values():
                if outcome.info.key == f"{namespace}/{name}":
                    waiting.reject("", "removed")
            self._finish_waits()
        super().remove(kind, namespace, name)

    def settle(self) -> list[Outcome]:
        """Advances the virtual clock until no pod waits in Permit.

        Returns the final outcomes of the pods that waited since the last call, in the order in
        which their waits ended.
        """
        self._finish_waits()
        while self._waiting:
            next_s = min(waiting.deadline_s for _, waiting in self._waiting.values())
            next_s = min(next_s, self.handle.next_call_s())
            self.time.advance(max(0.0, next_s - self.time.monotonic_s()))
            self._finish_waits()
        outcomes, self._finished_waits = self._finished_waits, []
        return outcomes

    def _evict_victims(self, outcome: Outcome) -> Outcome:
        """Evicts the victims of an unschedulable pod; a victim waiting in Permit is rejected."""
        for victim in outcome.victims:
            if victim.uid in self._waiting:
                self._waiting[victim.uid][1].preempt("DefaultPreemption", "preempted")
            else:
                self.remove("Pod", victim.metadata.namespace, victim.metadata.name)
                self.handle.claim_writer.release(victim.pod)
        if outcome.claim_change is not None:
            self.handle.claim_writer.apply(outcome.claim_change)
        update_nominations(self.cache.nominator, outcome)
        return outcome

    def _apply_placement(self, outcome: Outcome) -> Outcome:
        cycle, framework, node = _parts(outcome)
        placed = cycle.pod.on_node(node, start_time=self.start_time)
        with self.cache.assume(placed, node) as reservation:
            try:
                result: BindingResult = _reserve_and_permit(outcome, self.time.monotonic_s())
                if result is None:
                    result = _bind(outcome)
            except InvariantViolation:
                raise
            except SchedulerError as error:
                result = error
            if result is not None and not isinstance(result, WaitingPod):
                return self._binding_failed(outcome, result)
            reservation.keep()
        if result is not None:
            self._waiting[cycle.pod.uid] = (outcome, result)
            return outcome
        self.cache.confirm(cycle.pod.uid)
        binding.post_bind(framework, cycle, node)
        return outcome

    def _binding_failed(
        self, outcome: Outcome, result: Diagnosis | Status | SchedulerError
    ) -> Outcome:
        """Runs Unreserve and returns the outcome of a failed binding cycle."""
        cycle, framework, node = _parts(outcome)
        binding.unreserve(framework, cycle, node)
        if isinstance(result, Diagnosis):
            return Outcome.refused(outcome.info, result, None, nominated="")
        if isinstance(result, Status):
            return Outcome.rejected_in_binding(outcome.info, result.message)
        return Outcome.failed(outcome.info, str(result), nominated="")

    def _finish_waits(self) -> None:
        """Finishes the binding cycle of every pod whose wait in Permit has ended.

        Finishing a pod may make plugins end the wait of another.
        """
        while True:
            self.handle.call_due()
            self.handle.waiting.expire(self.time.monotonic_s())
            finished = [
                uid for uid, (_, waiting) in self._waiting.items() if waiting.status is not None
            ]
            if not finished:
                return
            for uid in finished:
                outcome, waiting = self._waiting.pop(uid)
                self._finished_waits.append(self._finish(outcome, waiting))

    def _finish(self, outcome: Outcome, waiting: WaitingPod) -> Outcome:
        """Finishes the binding cycle of a pod whose wait in Permit has ended."""
        cycle, framework, node = _parts(outcome)
        self.handle.waiting.remove(cycle.pod.uid)
        result: Diagnosis | Status | SchedulerError | None
        try:
            status = waiting.status
            if isinstance(status, Status) and status.code is Code.ERROR:
                result = SchedulerError(f"waiting on permit for pod: {status.message}")
            elif isinstance(status, Status):
                result = binding.diagnosis_of(node, status)
            else:
                result = _bind(outcome)
        except InvariantViolation:
            raise
        except SchedulerError as error:
            result = error
        if result is not None:
            failed = self._binding_failed(outcome, result)
            self.cache.forget(cycle.pod.uid)
            return failed
        self.cache.confirm(cycle.pod.uid)
        binding.post_bind(framework, cycle, node)
        return outcome


def merged_weights(frameworks: Iterable[Framework]) -> dict[str, int]:
    """Returns the weights of all profiles; the first profile with a plugin counts."""
    weights: dict[str, int] = {}
    for framework in frameworks:
        for name, weight in framework.profile.weights.items():
            weights.setdefault(name, weight)
    return weights


def _reserve_and_permit(outcome: Outcome, now_s: float) -> Diagnosis | WaitingPod | None:
    """Runs Reserve and Permit; None = bind the pod now."""
    cycle, framework, node = _parts(outcome)
    rejection = binding.reserve(framework, cycle, node)
    if rejection is not None:
        return binding.diagnosis_of(node, rejection)
    result = binding.permit(framework, cycle, node, now_s=now_s)
    return binding.diagnosis_of(node, result) if isinstance(result, Status) else result


def _parts(outcome: Outcome) -> tuple[Cycle, Framework, str]:
    """Returns the cycle, framework and node of an outcome that has a node."""
    assert outcome.cycle is not None
    assert outcome.framework is not None
    assert outcome.node is not None
    return outcome.cycle, outcome.framework, outcome.node


def _bind(outcome: Outcome) -> Status | None:
    """Runs PreBind and Bind to completion."""
    cycle, framework, node = _parts(outcome)
    rejection: Status | None = run_to_end(binding.pre_bind(framework, cycle, node))
    if rejection is None:
        rejection = run_to_end(binding.bind(framework, cycle, node))
    return rejection
