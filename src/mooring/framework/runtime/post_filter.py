"""PostFilter: no node can take the pod, so perhaps room can be made.

Source: framework/runtime/framework.go (RunPostFilterPlugins), schedule_one.go (schedulingCycle),
framework/preemption/preemption.go (callExtenders).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from mooring.decision import Preemption, PreemptionCandidate
from mooring.errors import ExtenderError, InvariantViolation, PluginError
from mooring.framework.cycle_state import Cycle
from mooring.framework.diagnosis import Diagnosis
from mooring.framework.extender import Extender, ExtenderCalls, Victims
from mooring.framework.runtime.framework import Framework
from mooring.framework.status import (
    Candidate,
    Code,
    NodeError,
    PostFilterResult,
    Reject,
    Status,
)
from mooring.state.tables.pods import PodInfo

#: Said if extenders leave no node to make room on.
NO_CANDIDATE = "preemption: no candidate node for preemption"

_log = logging.getLogger(__name__)


def post_filter(framework: Framework, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
    """Runs the PostFilter plugins until one makes room, or knows that none can be made.

    What they say is added to the message of ``diagnosis``. The result's status is None if room can
    be made: then its victims are to be evicted. Its ``node_name`` is what the pod's nomination
    becomes (None = stays as it is). If a plugin failed, the status is an Error: the pod stays
    unschedulable, for it fitted nowhere before that already. Without nodes or plugins nobody is
    asked, and an earlier nomination ends.
    """
    try:
        next(_run(framework, cycle, diagnosis, ()))
    except StopIteration as done:
        found: PostFilterResult = done.value
        return found
    raise InvariantViolation("a question was asked although there is no extender")


def asking(
    framework: Framework, cycle: Cycle, diagnosis: Diagnosis
) -> ExtenderCalls[PostFilterResult]:
    """As ``post_filter``; extenders may change who has to leave, and where."""
    preempting = tuple(
        each for each in framework.extenders if each.has_preempt and each.is_interested(cycle.pod)
    )
    return _run(framework, cycle, diagnosis, preempting)


def _run(
    framework: Framework, cycle: Cycle, diagnosis: Diagnosis, extenders: tuple[Extender, ...]
) -> ExtenderCalls[PostFilterResult]:
    if not diagnosis.node_count or not framework.plugins("post_filter"):
        return PostFilterResult(None, "")
    try:
        return (yield from _ask(framework, cycle, diagnosis, extenders))
    except PluginError as error:
        framework.errors.count(error)
        return _told(diagnosis, PostFilterResult(NodeError(str(error)).named(error.plugin)))


def _ask(
    framework: Framework, cycle: Cycle, diagnosis: Diagnosis, extenders: tuple[Extender, ...]
) -> ExtenderCalls[PostFilterResult]:
    reasons: list[str] = []
    found = PostFilterResult(None)
    refused_by = ""
    for plugin in framework.plugins("post_filter"):
        answer = framework.call(plugin, "PostFilter", plugin.post_filter, cycle, diagnosis)
        if not isinstance(answer, PostFilterResult):
            raise PluginError(plugin.name, "PostFilter", f"returned {answer!r}")
        if extenders and answer.status is None and answer.candidates is not None:
            answer = yield from _agree(cycle, extenders, answer.candidates())
        if answer.status is None:
            diagnosis.post_filter_message = ""
            return answer._replace(plugin=plugin.name)
        said: Any = answer.status
        if isinstance(said, Status) and said.code is Code.ERROR:
            return _told(diagnosis, PostFilterResult(said.named(plugin.name)))
        status = framework.status_of(plugin, "PostFilter", answer.status)
        if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return _told(diagnosis, answer._replace(status=status))
        if answer.node_name is not None:
            found = found._replace(node_name=answer.node_name)
        found = found._replace(record=answer.record or found.record)
        reasons += status.reasons
        refused_by = refused_by or plugin.name
    return _told(diagnosis, found._replace(status=Reject(*reasons).named(refused_by)))


def _told(diagnosis: Diagnosis, result: PostFilterResult) -> PostFilterResult:
    assert result.status is not None
    diagnosis.post_filter_message = result.status.message
    return result


# ---------------------------------------------------------------- extenders


def _agree(
    cycle: Cycle, extenders: tuple[Extender, ...], candidates: list[Candidate]
) -> ExtenderCalls[PostFilterResult]:
    """The best node of those that every extender agrees to, with the victims that they name."""
    for extender in extenders:
        [answer] = yield [partial(extender.preempt, cycle.pod, candidates)]
        try:
            candidates = _checked(cycle, extender, candidates, answer)
        except ExtenderError as error:
            if not extender.is_ignorable:
                return PostFilterResult(NodeError(f"preemption: {error}"))
            told = {"extender": extender.name, "error": str(error)}
            _log.warning("an extender is ignored", extra=told)
            continue
        if not candidates:
            nothing = partial(Preemption, None, (), {}, ())
            return PostFilterResult(Reject(NO_CANDIDATE), record=nothing)
    best = min(candidates, key=lambda candidate: candidate.rank)
    return PostFilterResult(
        None, best.node_name, best.victims, record=partial(_record, candidates, best)
    )


def _checked(
    cycle: Cycle, extender: Extender, candidates: list[Candidate], answer: Any
) -> list[Candidate]:
    """What is left of the nodes that were sent, in their order.

    Raises:
        ExtenderError: there is no answer, a node was not sent, or a victim is not there to go.
    """
    if isinstance(answer, ExtenderError):
        raise answer
    victims_of: Mapping[str, Victims] = answer
    sent = {candidate.node_name for candidate in candidates}
    for name in victims_of:
        if name not in sent:
            quoted = json.dumps(extender.name), json.dumps(name)
            told = "extender {} claims to preempt on node {}, which was not sent to it"
            raise ExtenderError(told.format(*quoted))
    found = []
    for candidate in candidates:
        victims = victims_of.get(candidate.node_name)
        if victims is None:
            continue
        pods = tuple(_victim(cycle, extender, candidate.node_name, uid) for uid in victims.uids)
        if pods:
            found.append(Candidate(candidate.node_name, pods, victims.violations))
        elif not extender.is_ignorable:
            told = f"expected at least one victim pod on node {json.dumps(candidate.node_name)}"
            raise ExtenderError(told)
    return found


def _victim(cycle: Cycle, extender: Extender, node_name: str, uid: str) -> PodInfo:
    placed = cycle.snapshot.pods.get(uid)
    here = cycle.snapshot.nodes.row(node_name)
    if placed is None or placed.row != here:
        raise ExtenderError(
            f"extender: {extender.name} claims to preempt pod (UID: &{{{uid}}}) on node:"
            f" {node_name}, but the pod is not found on that node"
        )
    if placed.info.priority >= cycle.pod.priority:
        raise ExtenderError(
            f"extender: {extender.name} claims to preempt pod (UID: &{{{uid}}}) on node:"
            f" {node_name}, but its priority is not lower"
        )
    return placed.info


def _record(candidates: list[Candidate], best: Candidate) -> Preemption:
    """Returns all that was found, as a Decision has it."""
    in_order = sorted(candidates, key=lambda candidate: candidate.node_name)
    return Preemption(
        nominated=best.node_name,
        victims=_keys(best),
        candidates={
            candidate.node_name: PreemptionCandidate(_keys(candidate), candidate.violations)
            for candidate in in_order
        },
        acceptable=tuple(
            candidate.node_name for candidate in in_order if candidate.rank == best.rank
        ),
    )


def _keys(candidate: Candidate) -> tuple[str, ...]:
    return tuple(sorted(pod.key for pod in candidate.victims))
