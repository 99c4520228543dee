"""PostFilter: no node can take the pod, so perhaps room can be made.

Source: framework/runtime/framework.go (RunPostFilterPlugins), schedule_one.go (schedulingCycle).
"""

from __future__ import annotations

from typing import Any

from mooring.errors import PluginError
from mooring.framework.cycle import Cycle
from mooring.framework.diagnosis import Diagnosis
from mooring.framework.runner import Framework
from mooring.framework.verdict import Code, NodeError, PostFilterResult, Reject, Status


def post_filter(framework: Framework, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
    """Run the PostFilter plugins until one makes room, or knows that none can be made.

    What they say is added to the message of ``diagnosis``. The result's status is None if room can
    be made: then its victims are to be evicted. Its ``node_name`` is what the pod's nomination
    becomes (None = stays as it is). If a plugin failed, the status is an Error: the pod stays
    unschedulable, for it fitted nowhere before that already. Without nodes or plugins nobody is
    asked, and an earlier nomination ends.
    """
    if not diagnosis.node_count or not framework.plugins("post_filter"):
        return PostFilterResult(None, "")
    try:
        return _ask(framework, cycle, diagnosis)
    except PluginError as error:
        return _told(diagnosis, PostFilterResult(NodeError(str(error)).named(error.plugin)))


def _ask(framework: Framework, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
    reasons: list[str] = []
    found = PostFilterResult(None)
    refused_by = ""
    for plugin in framework.plugins("post_filter"):
        answer = framework.call(plugin, "PostFilter", plugin.post_filter, cycle, diagnosis)
        if not isinstance(answer, PostFilterResult):
            raise PluginError(plugin.name, "PostFilter", f"returned {answer!r}")
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
