"""A scheduler without an API server: it decides on virtual time, one pod after another.

This is all that ``simulate``, ``replay`` and ``explain`` need, and the shortest way to see how the
parts fit together: a Cache, a Framework per profile, an attempt, and what follows from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mooring.clock import Clock, Rng, VirtualClock
from mooring.config import KubeSchedulerConfiguration, default_configuration
from mooring.errors import InvariantViolation, PluginError, SchedulerError
from mooring.framework import Attempt, Cycle, Diagnosis, Framework, schedule_pod
from mooring.framework.runtime import bind as binding
from mooring.framework.runtime.post_filter import post_filter
from mooring.framework.status import Code, PostFilterResult, Status
from mooring.framework.waiting_pods import WaitingPod
from mooring.objects import Pod
from mooring.plugins import IN_TREE
from mooring.scheduler.profiles import load_profiles
from mooring.simulation.cluster import Cluster
from mooring.simulation.offline import OfflineHandle, run_to_end
from mooring.simulation.outcome import Outcome, renew_nominations
from mooring.simulation.preempt_all_nodes import preempting_everywhere

#: The plugins mooring comes with: what a recording is compared on with ``--only-plugins own``.
OWN: frozenset[str] = frozenset(IN_TREE)

#: What the way to a binding came to: None = bound, a refusal by Reserve or Permit (a Diagnosis) or
#: by PreBind or Bind (a Status), a wait, or what went wrong.
Answer = Diagnosis | Status | WaitingPod | SchedulerError | None


class Driver(Cluster):
    """One cluster and one configuration; decides on virtual time.

    ``attempt`` decides and changes nothing; ``apply`` carries the outcome out.
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
        preempt_everywhere: bool = False,
    ) -> None:
        """Loads the cluster and the plugins.

        ``plugins`` are objects or ``module:attribute``; ``clock`` times them (decisions run on a
        virtual clock of their own); ``node_order`` is checked against the order found.
        ``preempt_everywhere``: as in recordings of kube-scheduler, preemption tries all nodes,
        whatever its arguments say.

        Raises:
            ConfigError: if the configuration, a plugin or ``node_order`` cannot be used.
        """
        super().__init__(objects)
        config = config or default_configuration()
        self.time = VirtualClock()
        self.handle = OfflineHandle(self.cache, self.time, rng)
        self.next_start_index = 0
        #: When pods that are bound now start, as the API writes it; None = not yet.
        self.start_time: str | None = None
        #: Pods that Permit holds back, by UID, and what came of those that it let go.
        self._held: dict[str, tuple[Outcome, WaitingPod]] = {}
        self._settled: list[Outcome] = []
        if node_order is not None:
            self.check_order(node_order)
        self._frameworks = load_profiles(
            preempting_everywhere(config) if preempt_everywhere else config,
            self.handle,
            clock=clock,
            waiting=self.handle.waiting,
            plugins=plugins,
            cache_results=cache_results,
        )

    # -- what is there ------------------------------------------------------------------------

    @property
    def weights(self) -> dict[str, int]:
        """Score plugin -> weight, over all profiles (the first one to name it counts)."""
        weights: dict[str, int] = {}
        for framework in self._frameworks.values():
            for name, weight in framework.profile.weights.items():
                weights.setdefault(name, weight)
        return weights

    @property
    def frameworks(self) -> dict[str, Framework]:
        """SchedulerName -> Framework."""
        return self._frameworks

    # -- deciding -------------------------------------------------------------------------------

    def attempt(
        self, pod: Pod, *, start_index: int | None = None, explain: bool = False
    ) -> Outcome:
        """Decides where ``pod`` goes. Nothing is changed but the start index of the next walk.

        ``explain`` takes the whole Decision down at once; otherwise ask for it before the cluster
        changes.
        """
        info = self.cache.pending_info(pod)
        framework = self._frameworks.get(pod.spec.scheduler_name or "default-scheduler")
        if framework is None:
            text = f'no profile has the schedulerName "{pod.spec.scheduler_name}"'
            return Outcome.failed(info, text)
        snapshot = self.cache.snapshot()
        start = self.next_start_index if start_index is None else start_index
        attempt = Attempt(snapshot, start)
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
            found = schedule_pod(framework, cycle, attempt)
            room = PostFilterResult(None)
            if isinstance(found, Diagnosis):
                room = post_filter(framework, cycle, found)
        except PluginError as error:
            return Outcome.failed(cycle.pod, str(error), attempt, nominated="")
        finally:
            self.next_start_index = attempt.next_start_index(self.next_start_index)
        if isinstance(found, Diagnosis):
            attempt.preemption = room.record
            outcome = Outcome.refused(cycle.pod, found, attempt, nominated=room.node_name)
            outcome.victims = room.victims
            return outcome
        return Outcome.placed(cycle, framework, found, attempt)

    # -- carrying out ---------------------------------------------------------------------------

    def apply(self, outcome: Outcome) -> Outcome:
        """Carries a decision out: assume, Reserve, Permit, bind; returns what came of it.

        A pod that Permit holds back counts on its node until its wait is over, and ``settle`` tells
        what came of it. Pods whose wait is over by now go on here too. The victims of a pod that
        was made room for are gone at once, and it waits for its next attempt.
        """
        final = self._carry_out(outcome) if outcome.node is not None else self._make_way(outcome)
        if self._held:
            self._finish_waits()
        final.updated = self.handle.take_written()
        return final

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """An object is gone; a pod that waits in Permit is refused, and gives back what it holds.

        Source: pkg/scheduler/eventhandlers.go (deletePodFromSchedulingQueue).
        """
        if kind == "Pod" and self._held:
            for outcome, waiting in self._held.values():
                if outcome.info.key == f"{namespace}/{name}":
                    waiting.reject("", "removed")
            self._finish_waits()
        super().remove(kind, namespace, name)

    def settle(self) -> list[Outcome]:
        """Lets time pass until no pod waits in Permit any more.

        Returns what came of each pod that waited since ``settle`` was last called, in the order in
        which their waits ended.
        """
        self._finish_waits()
        while self._held:
            next_s = min(waiting.deadline_s for _, waiting in self._held.values())
            next_s = min(next_s, self.handle.next_call_s())
            self.time.advance(max(0.0, next_s - self.time.monotonic_s()))
            self._finish_waits()
        settled, self._settled = self._settled, []
        return settled

    def _make_way(self, outcome: Outcome) -> Outcome:
        """Evicts the victims of a pod that got no node; one that Permit holds is turned back."""
        for victim in outcome.victims:
            if victim.uid in self._held:
                self._held[victim.uid][1].preempt("DefaultPreemption", "preempted")
            else:
                self.remove("Pod", victim.metadata.namespace, victim.metadata.name)
        renew_nominations(self.cache.nominator, outcome)
        return outcome

    def _carry_out(self, outcome: Outcome) -> Outcome:
        cycle, framework, node = _parts(outcome)
        placed = cycle.pod.on_node(node, start_time=self.start_time)
        with self.cache.assume(placed, node) as held:
            try:
                answer: Answer = self._reserve_and_permit(outcome)
                if answer is None:
                    answer = self._bind(outcome)
            except InvariantViolation:
                raise
            except SchedulerError as error:
                answer = error
            if answer is not None and not isinstance(answer, WaitingPod):
                return self._given_up(outcome, answer)
            held.keep()
        if answer is not None:
            self._held[cycle.pod.uid] = (outcome, answer)
            return outcome
        self.cache.confirm(cycle.pod.uid)
        binding.post_bind(framework, cycle, node)
        return outcome

    def _reserve_and_permit(self, outcome: Outcome) -> Diagnosis | WaitingPod | None:
        """What Reserve and Permit say; None = bind the pod now."""
        cycle, framework, node = _parts(outcome)
        refusal = binding.reserve(framework, cycle, node)
        if refusal is not None:
            return binding.diagnosis_of(node, refusal)
        answer = binding.permit(framework, cycle, node, now_s=self.time.monotonic_s())
        return binding.diagnosis_of(node, answer) if isinstance(answer, Status) else answer

    def _bind(self, outcome: Outcome) -> Status | None:
        """PreBind and Bind, run to their end at once."""
        cycle, framework, node = _parts(outcome)
        refusal: Status | None = run_to_end(binding.pre_bind(framework, cycle, node))
        if refusal is None:
            refusal = run_to_end(binding.bind(framework, cycle, node))
        return refusal

    def _given_up(self, outcome: Outcome, answer: Diagnosis | Status | SchedulerError) -> Outcome:
        """The pod does not get its node after all: what plugins hold for it is given back."""
        cycle, framework, node = _parts(outcome)
        binding.unreserve(framework, cycle, node)
        if isinstance(answer, Diagnosis):
            return Outcome.refused(outcome.info, answer, None, nominated="")
        if isinstance(answer, Status):
            return Outcome.turned_back(outcome.info, answer.message)
        return Outcome.failed(outcome.info, str(answer), nominated="")

    def _finish_waits(self) -> None:
        """Goes on with every pod whose wait in Permit is over.

        What one pod's end makes plugins say may end another one's wait.
        """
        while True:
            self.handle.call_due()
            self.handle.waiting.expire(self.time.monotonic_s())
            over = [uid for uid, (_, waiting) in self._held.items() if waiting.verdict is not None]
            if not over:
                return
            for uid in over:
                outcome, waiting = self._held.pop(uid)
                self._settled.append(self._finish(outcome, waiting))

    def _finish(self, outcome: Outcome, waiting: WaitingPod) -> Outcome:
        """What follows when a pod's wait in Permit is over."""
        cycle, framework, node = _parts(outcome)
        self.handle.waiting.remove(cycle.pod.uid)
        answer: Diagnosis | Status | SchedulerError | None
        try:
            verdict = waiting.verdict
            if isinstance(verdict, Status) and verdict.code is Code.ERROR:
                answer = SchedulerError(f"waiting on permit for pod: {verdict.message}")
            elif isinstance(verdict, Status):
                answer = binding.diagnosis_of(node, verdict)
            else:
                answer = self._bind(outcome)
        except InvariantViolation:
            raise
        except SchedulerError as error:
            answer = error
        if answer is not None:
            given_up = self._given_up(outcome, answer)
            self.cache.forget(cycle.pod.uid)
            return given_up
        self.cache.confirm(cycle.pod.uid)
        binding.post_bind(framework, cycle, node)
        return outcome


def _parts(outcome: Outcome) -> tuple[Cycle, Framework, str]:
    """What is carried out of an outcome that has a node."""
    assert outcome.cycle is not None
    assert outcome.framework is not None
    assert outcome.node is not None
    return outcome.cycle, outcome.framework, outcome.node
