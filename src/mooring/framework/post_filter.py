"""PostFilter: no node can take the pod, so perhaps room can be made.

Source: framework/runtime/framework.go (RunPostFilterPlugins), schedule_one.go (schedulingCycle).
"""

from __future__ import annotations

from mooring.errors import PluginError
from mooring.framework.cycle import Cycle
from mooring.framework.diagnosis import Diagnosis
from mooring.framework.runner import Framework
from mooring.framework.verdict import Code, NodeError, PostFilterResult, Reject, Status


def post_filter(framework: Framework, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
    """Run the PostFilter plugins until one makes room, or knows that none can be made.

    What they say is added to the message of ``diagnosis``. The result's status is None if room was
    made; its ``node_name`` is what the pod's nomination becomes (None = stays as it is). If a
    plugin failed, the status is an Error: the pod stays unschedulable, for it fitted nowhere before
    that already.
    """
    try:
        return _ask(framework, cycle, diagnosis)
    except PluginError as error:
        return _told(diagnosis, NodeError(str(error)).named(error.plugin), None)


def _ask(framework: Framework, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
    reasons: list[str] = []
    node_name: str | None = None
    refused_by = ""
    for plugin in framework.plugins("post_filter"):
        answer = framework.call(plugin, "PostFilter", plugin.post_filter, cycle, diagnosis)
        if not isinstance(answer, PostFilterResult):
            raise PluginError(plugin.name, "PostFilter", f"returned {answer!r}")
        if answer.status is None:
            diagnosis.post_filter_message = ""
            return answer
        status = framework.status_of(plugin, "PostFilter", answer.status)
        if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return _told(diagnosis, status, answer.node_name)
        if answer.node_name is not None:
            node_name = answer.node_name
        reasons += status.reasons
        refused_by = refused_by or plugin.name
    return _told(diagnosis, Reject(*reasons).named(refused_by), node_name)


def _told(diagnosis: Diagnosis, status: Status, node_name: str | None) -> PostFilterResult:
    diagnosis.post_filter_message = status.message
    return PostFilterResult(status, node_name)
