"""Runs the PostFilter plugins after no node was feasible, and the extenders' preemption.

Source: framework/runtime/framework.go (RunPostFilterPlugins), schedule_one.go (schedulingCycle),
framework/preemption/preemption.go (callExtenders).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from mooring.decision import Preemption, PreemptionCandidate
from mooring.errors import ExtenderError, InvariantViolation, PluginError
from mooring.framework.cycle_state import Cycle
from mooring.framework.diagnosis import Diagnosis
from mooring.framework.extender import Extender, ExtenderCalls, Victims
from mooring.framework.runtime.framework import Framework
from mooring.framework.runtime.timings import ERROR, code_of
from mooring.framework.status import (
    Candidate,
    ClaimChange,
    Code,
    NodeError,
    PostFilterResult,
    Reject,
    Status,
)
from mooring.state.tables.pods import PodInfo

#: The plugin whose calls are attempts at preemption.
PREEMPTION = "DefaultPreemption"

#: The reason if extenders leave no candidate.
NO_CANDIDATE = "preemption: no candidate node for preemption"

_log = logging.getLogger(__name__)


def post_filter(framework: Framework, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
    """Runs the PostFilter plugins until one succeeds or returns UnschedulableAndUnresolvable.

    Adds their reasons to the message of ``diagnosis``. The result's status is None if preemption is
    possible: its victims are to be evicted. Its ``node_name`` is the pod's new nomination (None =
    unchanged). If a plugin failed, the status is an Error; the pod is unschedulable all the same.
    Without nodes or plugins no plugin runs, and an earlier nomination is cleared.
    """
    try:
        next(_run(framework, cycle, diagnosis, ()))
    except StopIteration as stop:
        result: PostFilterResult = stop.value
        return result
    raise InvariantViolation("an extender call was yielded without extenders")


def post_filter_with_extenders(
    framework: Framework, cycle: Cycle, diagnosis: Diagnosis
) -> ExtenderCalls[PostFilterResult]:
    """Does the same as ``post_filter``; extenders may change the candidates and victims."""
    preempting = tuple(
        extender
        for extender in framework.extenders
        if extender.has_preempt and extender.is_interested(cycle.pod)
    )
    return _run(framework, cycle, diagnosis, preempting)


def _run(
    framework: Framework, cycle: Cycle, diagnosis: Diagnosis, extenders: tuple[Extender, ...]
) -> ExtenderCalls[PostFilterResult]:
    if not diagnosis.node_count or not framework.plugins("post_filter"):
        return PostFilterResult(None, "")
    started_s, code = framework.recorder.now(), ERROR
    changes: list[ClaimChange] = []
    try:
        result = yield from _run_plugins(framework, cycle, diagnosis, extenders, changes)
        code = code_of(result)
    except PluginError as error:
        framework.errors.count(error)
        status = NodeError(str(error)).named(error.plugin)
        result = _with_message(diagnosis, PostFilterResult(status))
    finally:
        framework.recorder.point("PostFilter", code, started_s)
    # Whatever later plugins return: a plugin of kube-scheduler makes the change by itself.
    return result._replace(claim_change=changes[-1] if changes else None)


def _run_plugins(
    framework: Framework,
    cycle: Cycle,
    diagnosis: Diagnosis,
    extenders: tuple[Extender, ...],
    changes: list[ClaimChange],
) -> ExtenderCalls[PostFilterResult]:
    """Runs the plugins until one ends it; appends the changes of claims that they ask for."""
    reasons: list[str] = []
    merged = PostFilterResult(None)
    rejected_by = ""
    for plugin in framework.plugins("post_filter"):
        if plugin.name == PREEMPTION:
            framework.recorder.preemption_attempted()
        result = framework.call(plugin, "PostFilter", plugin.post_filter, cycle, diagnosis)
        if not isinstance(result, PostFilterResult):
            raise PluginError(plugin.name, "PostFilter", f"returned {result!r}")
        _check_victims(plugin, result)
        if result.claim_change is not None:
            changes.append(result.claim_change)
        if extenders and result.status is None and result.candidates is not None:
            result = yield from _call_extenders(cycle, extenders, result.candidates())
        if result.status is None:
            diagnosis.post_filter_message = ""
            return result._replace(plugin=plugin.name)
        unchecked: Any = result.status
        if isinstance(unchecked, Status) and unchecked.code is Code.ERROR:
            return _with_message(diagnosis, PostFilterResult(unchecked.named(plugin.name)))
        status = framework.status_of(plugin, "PostFilter", result.status)
        if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return _with_message(diagnosis, result._replace(status=status))
        if result.node_name is not None:
            merged = merged._replace(node_name=result.node_name)
        merged = merged._replace(record=result.record or merged.record)
        reasons += status.reasons
        rejected_by = rejected_by or plugin.name
    return _with_message(diagnosis, merged._replace(status=Reject(*reasons).named(rejected_by)))


def _check_victims(plugin: Any, result: PostFilterResult) -> None:
    """Validates that the victims are pods.

    Raises:
        PluginError: they are not.
    """
    victims: Any = result.victims
    if not isinstance(victims, Sequence) or not all(isinstance(pod, PodInfo) for pod in victims):
        problem = f"returned the victims {victims!r}, not a tuple of pods (PodInfo)"
        raise PluginError(plugin.name, "PostFilter", problem)


def _with_message(diagnosis: Diagnosis, result: PostFilterResult) -> PostFilterResult:
    assert result.status is not None
    diagnosis.post_filter_message = result.status.message
    return result


# ---------------------------------------------------------------- extenders


def _call_extenders(
    cycle: Cycle, extenders: tuple[Extender, ...], candidates: list[Candidate]
) -> ExtenderCalls[PostFilterResult]:
    """Returns the best candidate after every extender has filtered candidates and victims."""
    for extender in extenders:
        [answer] = yield [partial(extender.preempt, cycle.pod, candidates)]
        try:
            candidates = _checked(cycle, extender, candidates, answer)
        except ExtenderError as error:
            if not extender.is_ignorable:
                return PostFilterResult(NodeError(f"preemption: {error}"))
            log_fields = {"extender": extender.name, "error": str(error)}
            _log.warning("extender failed, ignoring it", extra=log_fields)
            continue
        if not candidates:
            no_candidates = partial(Preemption, None, (), {}, ())
            return PostFilterResult(Reject(NO_CANDIDATE), record=no_candidates)
    best = min(candidates, key=lambda candidate: candidate.rank)
    return PostFilterResult(
        None, best.node_name, best.victims, record=partial(_record, candidates, best)
    )


def _checked(
    cycle: Cycle, extender: Extender, candidates: list[Candidate], answer: Any
) -> list[Candidate]:
    """Returns the candidates that the extender validated, in their order, with its victims.

    Raises:
        ExtenderError: if the call failed, a node was not sent, or a victim cannot be evicted.
    """
    if isinstance(answer, ExtenderError):
        raise answer
    victims_of: Mapping[str, Victims] = answer
    sent = {candidate.node_name for candidate in candidates}
    for name in victims_of:
        if name not in sent:
            quoted = json.dumps(extender.name), json.dumps(name)
            message = "extender {} claims to preempt on node {}, which was not sent to it"
            raise ExtenderError(message.format(*quoted))
    validated = []
    for candidate in candidates:
        victims = victims_of.get(candidate.node_name)
        if victims is None:
            continue
        pods = tuple(_victim(cycle, extender, candidate.node_name, uid) for uid in victims.uids)
        if pods:
            validated.append(Candidate(candidate.node_name, pods, victims.violations))
        elif not extender.is_ignorable:
            node = json.dumps(candidate.node_name)
            raise ExtenderError(f"expected at least one victim pod on node {node}")
    return validated


def _victim(cycle: Cycle, extender: Extender, node_name: str, uid: str) -> PodInfo:
    placed = cycle.snapshot.pods.get(uid)
    row = cycle.snapshot.nodes.row(node_name)
    if placed is None or placed.row != row:
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
    """Returns the record of the preemption for a Decision."""
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
