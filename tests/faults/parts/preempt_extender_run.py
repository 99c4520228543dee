"""Choices of victims that extenders may change, behind a faulty network.

The clusters and the candidates are those of ``choice_run``. Up to three extenders with the verb
``preempt`` drop nodes and victims, name others, or fail. What each is sent, and what is evicted in
the end, is compared with plain rules.

Source: framework/preemption/preemption.go (callExtenders, pickOneNodeForPreemption), extender.go
(ProcessPreemption, convertToVictims).
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any, Final

from mooring.clock import Rng, SystemClock, seeded_random
from mooring.config.types import Extender, ExtenderManagedResource
from mooring.extenders.http import NoResponse
from mooring.extenders.http_extender import HTTPExtender
from mooring.framework import Code, Diagnosis, PostFilterResult
from mooring.framework.runtime.attempt import Attempt
from mooring.framework.runtime.post_filter import post_filter_with_extenders
from mooring.framework.runtime.scheduling_algorithm import schedule_pod
from mooring.objects.pod import Pod
from mooring.scheduler.with_extenders import drive_extender_calls
from mooring.state import PodInfo
from tests.faults.harness.reference_preemption import OFFSET, priority_of, started_s
from tests.faults.parts.choice_run import ChoiceRun
from tests.faults.parts.preempt_records import record_problem
from tests.helpers.virtual_loop import run_virtually

#: In such seeds, modulo five, extenders name pods of the node that are no victims.
NAMING: Final = 2
FAULTS: Final = ("not sent", "lost", "cut off", "nonsense", "null")
NONSENSE: Final = (
    b"<html>",
    b"[]",
    b"",
    b'{"NodeNameToMetaVictims": 5}',
    b'{"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": 7}]}}}',
    b'{"NodeNameToMetaVictims": {"nowhere": {"Pods": [{"UID": "x"}]}}}',
)
#: Node -> (UIDs of the victims, violations): the candidates, as an extender sees them.
Offer = dict[str, tuple[list[str], int]]


class Play:
    """An extender, and its effect on the candidates.

    Attributes:
        extender: The real one.
        is_ignorable: Its failure changes nothing.
        is_interested: It is called for the pods.
        is_capable: It gets the UIDs of victims, not whole pods.
    """

    def __init__(self, run: PreemptExtenderRun, name: str) -> None:
        rng = run.more
        self.is_ignorable = rng.random() < 0.4
        self.is_interested = rng.random() < 0.85
        self.is_capable = rng.random() < 0.6
        self._run, self._name = run, name
        resource = "cpu" if self.is_interested else "example.com/fpga"
        is_for_all = self.is_interested and rng.random() < 0.6
        config = Extender(
            url_prefix=f"http://{name}",
            preempt_verb="preempt",
            node_cache_capable=self.is_capable,
            ignorable=self.is_ignorable,
            managed_resources=() if is_for_all else (ExtenderManagedResource(name=resource),),
        )

        def post(verb: str, body: bytes, bytes_max: int) -> Awaitable[bytes]:
            del verb, bytes_max
            return run.post(self, body)

        whole: Any = SimpleNamespace(pod=_whole_pod, pods=run.whole_pods)
        unused: Any = None
        self.extender = HTTPExtender(config, post, whole, client=unused, clock=SystemClock())


class PreemptExtenderRun(ChoiceRun):
    """One run.

    Attributes:
        more: Draws what the extenders do.
        paths: What happened, and how often.
    """

    has_failures = False
    has_terms = False

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.more = seeded_random(seed + 3)
        self.paths: Counter[str] = Counter()
        self._fault_rate = self.more.choice((0.0, 0.1, 0.4))
        self._plays = [Play(self, name) for name in ("one", "two", "three")[: seed % 3 + 1]]
        framework = self._harness.framework
        framework.set_extenders([play.extender for play in self._plays], self.more.random)
        self._attempt_of: PodInfo | None = None
        #: The candidates that are left, and the extenders that have to be called.
        self._offer: Offer = {}
        self._due: list[Play] = []
        self._repeated: bytes | None = None
        self._is_error = False
        #: The message of the failure; "" if it is not compared.
        self._text = ""
        self._same_node = Random(f"{seed} same node") if seed % 5 == NAMING else None
        #: Victims that extenders which need whole pods do not get.
        self._deleted: set[str] = set()

    def _choose(self) -> None:
        """Tries a preemptor; the extenders may change its victims."""
        rng = self._rng
        pod = self._pod(rng.choice((1, 2, 3, 4)), priority=rng.choice((0, 5, 20, 100)))
        info, snapshot = PodInfo(pod), self._cache.snapshot()
        framework = self._harness.framework
        cycle = framework.new_cycle(info, snapshot)
        diagnosis = schedule_pod(framework, cycle, Attempt(snapshot))
        if not isinstance(diagnosis, Diagnosis):
            return
        self.model._calls = -1  # each choice is compared
        self._attempt_of, self._is_error, self._text = info, False, ""
        cluster = self.model._cluster()
        self._pods_of = {other.metadata.uid: (other, at) for other, at in cluster.placed}
        self._deleted = {uid for uid in self._pods_of if self.more.random() < 0.1}
        # As in upstream's list of extenders, those that are ignorable come last.
        due = [play for play in self._plays if play.is_interested]
        self._due = sorted(due, key=lambda play: play.is_ignorable)
        self._diagnosis, self._has_begun = diagnosis, False
        calls = post_filter_with_extenders(framework, cycle, diagnosis)
        result = run_virtually(drive_extender_calls(calls, lambda: None))
        self._check(info, result)
        for victim in result.victims:
            self._cache.remove_pod(victim.uid)
        if result.node_name:
            self._cache.put_pod(info.on_node(result.node_name).pod)

    def _first_offer(self) -> Offer:
        """Returns the candidates of the reference."""
        assert self._attempt_of is not None
        pod, cluster = self._attempt_of.pod, self.model._cluster()
        if self.model._may_not(pod, self._diagnosis, cluster):
            return {}
        helpful = list(self.model._helpful(self._diagnosis))
        handle: Any = self._plugin._handle
        choices = cluster.candidates(pod, helpful, handle.last)
        return {
            choice.node: ([victim.metadata.uid for victim in choice.victims], choice.violations)
            for choice in choices
        }

    # -- the network ------------------------------------------------------------------------------

    async def post(self, play: Play, body: bytes) -> bytes:
        """Handles a call, with at most one fault."""
        rng, arguments = self.more, json.loads(body)
        expected, self._repeated = self._repeated, None
        if expected is not None and expected != body:
            self.problems.append("a call whose connection was cut off is not repeated")
        offer = self._sent(play, arguments)
        if expected is None:
            self._check_call(play, offer)
        await asyncio.sleep(rng.choice((0.0, 1.0)))
        kind = rng.choice(FAULTS) if rng.random() < self._fault_rate else ""
        if kind == "cut off" and expected is None:
            self._repeated = body
            raise NoResponse("connection reset", is_cut_off=True)
        if kind in ("not sent", "lost", "cut off"):
            self._fail(play)
            raise NoResponse(f"no response: {kind}", is_sent=kind != "not sent")
        if kind == "nonsense":
            self._fail(play)
            return rng.choice(NONSENSE)
        if kind == "null":
            self._apply(play, {})
            return rng.choice((b"null", b"{}", b'{"nodeNameToMetaVictims": null}'))
        answer = self._answer(offer)
        self._apply(play, answer)
        return json.dumps(
            {
                rng.choice(("NodeNameToMetaVictims", "nodenametometavictims")): {
                    node: _written(self.more, uids, violations)
                    for node, (uids, violations) in answer.items()
                }
            }
        ).encode()

    def _sent(self, play: Play, arguments: Any) -> Offer:
        if play.is_capable:
            return {
                node: ([pod["UID"] for pod in victims["Pods"]], victims["NumPDBViolations"])
                for node, victims in arguments["NodeNameToMetaVictims"].items()
            }
        return {
            node: ([pod["metadata"]["uid"] for pod in victims["Pods"]], victims["NumPDBViolations"])
            for node, victims in arguments["NodeNameToVictims"].items()
        }

    def _check_call(self, play: Play, sent: Offer) -> None:
        """Compares what is sent with the candidates that are left."""
        assert self._attempt_of is not None
        self.paths["call"] += 1
        if not self._due or self._due[0] is not play:
            self.problems.append(f"{self._attempt_of.key}: an extender is called out of turn")
            return
        del self._due[0]
        if not self._has_begun:
            self._has_begun, self._offer = True, self._first_offer()
        expected = self._offer
        if not play.is_capable:
            expected = {
                node: ([uid for uid in uids if uid not in self._deleted], violations)
                for node, (uids, violations) in expected.items()
            }
        if sent != expected or list(sent) != list(expected):
            self.problems.append(f"{self._attempt_of.key}: {sent} are sent, not {expected}")

    async def whole_pods(self, pods: Sequence[PodInfo]) -> dict[str, bytes]:
        """Returns the victims that are not deleted, as JSON."""
        return {
            pod.uid: json.dumps({"metadata": {"uid": pod.uid}}).encode()
            for pod in pods
            if pod.uid not in self._deleted
        }

    # -- what an extender does --------------------------------------------------------------------

    def _answer(self, offer: Offer) -> Offer:
        """Drops nodes and victims, mostly; names others that it must not, at times."""
        rng, answer = self.more, Offer()
        for node, (uids, violations) in offer.items():
            if rng.random() < 0.2:
                continue
            left = [uid for uid in uids if rng.random() < 0.85]
            if rng.random() < 0.1:
                left, violations = [], 0
            if rng.random() < 0.3:
                rng.shuffle(left)
            if rng.random() < 0.1:
                left.append(rng.choice(sorted(self._pods_of)))
            if self._same_node is not None and self._same_node.random() < 0.1:
                there = sorted(uid for uid, (_, at) in self._pods_of.items() if at == node)
                left.append(self._same_node.choice(there))
            answer[node] = left, rng.choice((violations, violations, 0, 1))
        names = list(answer)
        rng.shuffle(names)
        answer = {name: answer[name] for name in names}
        if rng.random() < 0.05:
            answer["nowhere"] = [], 0
        return answer

    def _apply(self, play: Play, answer: Offer) -> None:
        """Changes the candidates as upstream does."""
        name, unknown = play.extender.name, [node for node in answer if node not in self._offer]
        if unknown:
            what = f'claims to preempt on node "{unknown[0]}", which was not sent to it'
            self._fail(play, f'extender "{name}" {what}')
            return
        assert self._attempt_of is not None
        preemptor, left = self._attempt_of.pod, Offer()
        for node in self._offer:
            if node not in answer:
                continue
            uids, violations = answer[node]
            for uid in uids:
                other, at = self._pods_of.get(uid, (None, ""))
                claim = f"{name} claims to preempt pod (UID: &{{{uid}}}) on node: {node}"
                if other is None or at != node:
                    why = "the pod is not found on that node"
                    self._fail(play, f"extender: {claim}, but {why}")
                    return
                if priority_of(other) >= priority_of(preemptor):
                    self._fail(play, f"extender: {claim}, but its priority is not lower")
                    return
            if uids:
                left[node] = uids, violations
            elif not play.is_ignorable:
                self._fail(play, f'expected at least one victim pod on node "{node}"')
                return
        self.paths["changed"] += left != self._offer
        self._offer = left
        if not left:
            self._due = []

    def _fail(self, play: Play, text: str = "") -> None:
        """Ends the attempt, unless the extender is ignorable: then nothing has changed."""
        self.paths["ignored" if play.is_ignorable else "failed"] += 1
        if not play.is_ignorable:
            self._is_error, self._due, self._text = True, [], text

    # -- the end ----------------------------------------------------------------------------------

    def _check(self, info: PodInfo, result: PostFilterResult) -> None:
        """Compares the result with the best candidate that is left."""
        if not self._has_begun:
            self._check_without_calls(info, result)
            return
        if self._due:
            self.problems.append(f"{info.key}: {len(self._due)} extenders are not called")
        status: Any = result.status
        if self._is_error:
            if status is None or status.code is not Code.ERROR:
                self.problems.append(f"{info.key}: an extender has failed, but: {result}")
            elif self._text and status.message != f"preemption: {self._text}":
                self.problems.append(f"{info.key} fails with {status.message}, not {self._text}")
            return
        if not self._offer:
            if status is None or status.code is not Code.UNSCHEDULABLE or result.victims:
                self.problems.append(f"{info.key} has no candidate, but: {result}")
            self._check_record(info, result, "")
            return
        best = min(self._offer, key=lambda node: _cost(self._pods_of, *self._offer[node]))
        uids = [victim.uid for victim in result.victims]
        self.paths["preempted"] += 1
        if (result.node_name, uids) != (best, self._offer[best][0]):
            self.problems.append(
                f"{info.key} evicts {uids} on {result.node_name}, not {best} of {self._offer}"
            )
        self._check_record(info, result, best)

    def _check_record(self, info: PodInfo, result: PostFilterResult, best: str) -> None:
        """Compares what a Decision says of the candidates that are left; "" = there is no best."""
        costs = {node: _cost(self._pods_of, *offer) for node, offer in self._offer.items()}
        pods = {uid: pod for uid, (pod, _) in self._pods_of.items()}
        if problem := record_problem(result, best, self._offer, costs, pods):
            self.problems.append(f"{info.key} {problem}")

    def _check_without_calls(self, info: PodInfo, result: PostFilterResult) -> None:
        """Checks that extenders had nothing to decide."""
        if any(play.is_interested for play in self._plays) and self._first_offer():
            self.problems.append(f"{info.key} has candidates, but no extender is called: {result}")


def _cost(
    pods_of: Mapping[str, tuple[Pod, str]], uids: list[str], violations: int
) -> tuple[float, ...]:
    """Returns upstream's criteria: the first victim counts as the most important one."""
    pods = [pods_of[uid][0] for uid in uids]
    priorities = [priority_of(pod) for pod in pods]
    starts = [started_s(pod) for pod in pods if priority_of(pod) == max(priorities)]
    total = sum(priority + OFFSET for priority in priorities)
    return violations, priorities[0], total, len(pods), -min(starts)


def _written(rng: Rng, uids: list[str], violations: int) -> dict[str, Any]:
    """Returns the victims of a node in one of the forms that mean the same."""
    if not uids and not violations and rng.random() < 0.7:
        return rng.choice(({}, {"Pods": None}, {"Pods": []}, {"numPDBViolations": 0}))
    pods: Any = [{"UID": uid} for uid in uids]
    body = {rng.choice(("Pods", "pods")): pods, "NumPDBViolations": violations}
    if not violations and rng.random() < 0.3:
        del body["NumPDBViolations"]
    return body


async def _whole_pod(info: PodInfo) -> bytes:
    return json.dumps({"metadata": {"uid": info.uid}}).encode()


def run_preempt_extender(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: an extender is sent something else, or something else is evicted.
    """
    run = PreemptExtenderRun(seed)
    run.run()
    assert not run.problems, run.problems[0]
