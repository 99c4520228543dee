"""After the decision: Reserve, Permit, PreBind, Bind, PostBind.

What a plugin reserved is given back in reverse order, by every plugin of the point, whether it got
as far as reserving or not: that is upstream's rule, and ``unreserve`` has to be idempotent for it.

Source: framework/runtime/framework.go (RunReservePluginsReserve, RunPermitPlugins, WaitOnPermit,
RunPreBindPlugins, RunBindPlugins).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from mooring.errors import ExtenderError, PluginError, SchedulerError
from mooring.framework.cycle_state import Cycle
from mooring.framework.diagnosis import Diagnosis
from mooring.framework.runtime.framework import Framework
from mooring.framework.status import Skip, Status, Wait
from mooring.framework.waiting_pods import WaitingPod

_log = logging.getLogger(__name__)


def reserve(framework: Framework, cycle: Cycle, node_name: str) -> Status | None:
    """Runs the Reserve plugins; a refusal ends the run (call ``unreserve`` then).

    Raises:
        PluginError: if a plugin failed; ``unreserve`` is due then too.
    """
    for plugin in framework.plugins("reserve"):
        answer = framework.call(plugin, "Reserve", plugin.reserve, cycle, node_name)
        if answer is not None:
            return framework.status_of(plugin, "Reserve", answer)
    return None


def unreserve(framework: Framework, cycle: Cycle, node_name: str) -> None:
    """Runs the Unreserve plugins, the last one first.

    Every plugin is called. The attempt has failed already, so an error of one is logged and
    counted.
    """
    for plugin in reversed(framework.plugins("unreserve")):
        try:
            framework.call(plugin, "Unreserve", plugin.unreserve, cycle, node_name)
        except PluginError as error:
            framework.errors.log(error, pod=cycle.pod.key, node=node_name)


def permit(
    framework: Framework, cycle: Cycle, node_name: str, *, now_s: float
) -> Status | WaitingPod | None:
    """Runs the Permit plugins: a refusal, a pod that now waits, or None to go on.

    A refusal counts even if an earlier plugin asked to wait.

    Raises:
        PluginError: if a plugin failed.
    """
    waits: dict[str, float] = {}
    for plugin in framework.plugins("permit"):
        answer = framework.call(plugin, "Permit", plugin.permit, cycle, node_name)
        if isinstance(answer, Wait):
            waits[plugin.name] = answer.timeout_s
        elif answer is not None:
            return framework.status_of(plugin, "Permit", answer)
    if not waits:
        return None
    waiting = WaitingPod(cycle.pod, node_name, waits, now_s)
    framework.waiting.add(waiting)
    return waiting


def refusal(node_name: str, status: Status) -> Diagnosis:
    """Returns a refusal by Reserve or Permit as a Diagnosis of that one node."""
    diagnosis = Diagnosis(1, statuses={node_name: status})
    diagnosis.reasons.update(status.reasons)
    diagnosis.note_plugin(status)
    return diagnosis


async def pre_bind(
    framework: Framework, cycle: Cycle, node_name: str, binders: Sequence[Any] | None = None
) -> Status | None:
    """Runs the PreBind plugins that have something to do; the first refusal ends the run.

    Args:
        framework: Of the pod's profile.
        cycle: The attempt.
        node_name: Where the pod goes.
        binders: What ``pre_binders`` said, if it was asked already.

    Raises:
        PluginError: if a plugin failed.
    """
    for plugin in pre_binders(framework, cycle, node_name) if binders is None else binders:
        answer = await _wait(plugin, "PreBind", plugin.pre_bind, cycle, node_name)
        if answer is not None:
            return framework.status_of(plugin, "PreBind", answer)
    return None


def pre_binders(framework: Framework, cycle: Cycle, node_name: str) -> list[Any]:
    """The PreBind plugins that do not skip; all are asked before the first one does anything.

    Raises:
        PluginError: if a plugin failed, or answered something else.
    """
    wanted = []
    for plugin in framework.plugins("pre_bind"):
        answer = None
        flight = getattr(plugin, "pre_bind_pre_flight", None)
        if flight is not None:
            answer = framework.call(plugin, "PreBindPreFlight", flight, cycle, node_name)
        if answer is None:
            wanted.append(plugin)
        elif answer is not Skip.SKIP:
            raise PluginError(
                plugin.name, "PreBindPreFlight", f"returned {answer!r}, not None or SKIP"
            )
    return wanted


async def bind(framework: Framework, cycle: Cycle, node_name: str) -> Status | None:
    """Lets the first Bind plugin that does not skip bind the pod; None = bound.

    An extender that binds is asked instead; the plugins only if it fails and may be ignored.

    Raises:
        PluginError: if it failed, or if every plugin skipped.
        ExtenderError: if the extender failed.
    """
    if framework.extenders and await _bound_by_extender(framework, cycle, node_name):
        return None
    for plugin in framework.plugins("bind"):
        answer = await _wait(plugin, "Bind", plugin.bind, cycle, node_name)
        if answer is Skip.SKIP:
            continue
        return None if answer is None else framework.status_of(plugin, "Bind", answer)
    raise PluginError("", "Bind", "no bind plugin took the pod")


async def _bound_by_extender(framework: Framework, cycle: Cycle, node_name: str) -> bool:
    for extender in framework.extenders:
        if not extender.has_bind or not extender.is_interested(cycle.pod):
            continue
        try:
            await extender.bind(cycle.pod, node_name)
        except ExtenderError as error:
            if not extender.is_ignorable:
                raise
            told = {"extender": extender.name, "error": str(error)}
            _log.warning("an extender is ignored", extra=told)
        else:
            return True
    return False


def post_bind(framework: Framework, cycle: Cycle, node_name: str) -> None:
    """Runs the PostBind plugins.

    Every plugin is called. The pod is bound already, so an error of one is logged and counted.
    """
    for plugin in framework.plugins("post_bind"):
        try:
            framework.call(plugin, "PostBind", plugin.post_bind, cycle, node_name)
        except PluginError as error:
            framework.errors.log(error, pod=cycle.pod.key, node=node_name)


async def _wait(
    plugin: Any,
    point: str,
    method: Callable[..., Awaitable[Any]],
    *arguments: Any,
) -> Any:
    """Awaits a plugin, and name it if it raises.

    SchedulerErrors of the API client pass: whoever binds has to tell "refused" from "unknown". The
    plugin's name is their note.
    """
    try:
        return await method(*arguments)
    except PluginError:
        raise
    except SchedulerError as error:
        error.add_note(f'running {point} plugin "{plugin.name}"')
        raise
    except Exception as error:  # a plugin may raise anything; its pod alone fails
        raise PluginError(plugin.name, point, f"{type(error).__name__}: {error}") from error
