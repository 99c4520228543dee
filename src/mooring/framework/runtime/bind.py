"""Runs the plugins of the Reserve, Permit, PreBind, Bind and PostBind extension points.

As upstream, ``unreserve`` runs in reverse order for all Reserve plugins, also for those whose
``reserve`` has not run, so it must be idempotent.

Source: framework/runtime/framework.go (RunReservePluginsReserve, RunPermitPlugins, WaitOnPermit,
RunPreBindPlugins, RunBindPlugins).
"""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from mooring.errors import ExtenderError, PluginError, SchedulerError, exception_text
from mooring.framework.cycle_state import Cycle
from mooring.framework.diagnosis import Diagnosis
from mooring.framework.runtime.framework import Framework
from mooring.framework.runtime.timings import ERROR, SKIPPED, SUCCESS, WAIT, code_of
from mooring.framework.status import Skip, Status, Wait
from mooring.framework.waiting_pods import WaitingPod

_log = logging.getLogger(__name__)


def reserve(framework: Framework, cycle: Cycle, node_name: str) -> Status | None:
    """Runs the Reserve plugins up to the first rejection; call ``unreserve`` after one.

    Raises:
        PluginError: if a plugin failed; call ``unreserve`` then too.
    """
    plugins, recorder = framework.selection.to_call("reserve", cycle), framework.recorder
    if not plugins:
        recorder.succeeded["Reserve"](0.0)
        return None
    started_s, status = recorder.now(), None
    try:
        for plugin in plugins:
            result = framework.call(plugin, "Reserve", plugin.reserve, cycle, node_name)
            if result is not None:
                status = framework.status_of(plugin, "Reserve", result)
                break
    except BaseException:
        recorder.point("Reserve", ERROR, started_s)
        raise
    if status is None:
        recorder.succeeded["Reserve"](recorder.now() - started_s)
    else:
        recorder.point("Reserve", status.code.value, started_s)
    return status


def unreserve(framework: Framework, cycle: Cycle, node_name: str) -> None:
    """Runs the Unreserve methods in reverse order.

    Every plugin is called. The attempt has failed already, so an error of one is logged and
    counted.
    """
    started_s = framework.recorder.now()
    for plugin in reversed(framework.selection.to_call("unreserve", cycle)):
        try:
            framework.call(plugin, "Unreserve", plugin.unreserve, cycle, node_name)
        except PluginError as error:
            framework.errors.log(error, pod=cycle.pod.key, node=node_name)
    framework.recorder.point("Unreserve", SUCCESS, started_s)


def permit(
    framework: Framework, cycle: Cycle, node_name: str, *, now_s: float
) -> Status | WaitingPod | None:
    """Runs the Permit plugins; returns a rejection, a waiting pod, or None = approved.

    A rejection takes precedence over a wait of an earlier plugin.

    Raises:
        PluginError: if a plugin failed.
    """
    plugins, recorder = framework.plugins("permit"), framework.recorder
    if not plugins:
        recorder.succeeded["Permit"](0.0)
        return None
    waits: dict[str, float] = {}
    started_s, code = recorder.now(), ERROR
    try:
        for plugin in plugins:
            result = framework.call(plugin, "Permit", plugin.permit, cycle, node_name)
            if isinstance(result, Wait):
                waits[plugin.name] = _timeout_s(plugin, result)
            elif result is not None:
                status = framework.status_of(plugin, "Permit", result)
                code = status.code.value
                return status
        code = WAIT if waits else SUCCESS
    finally:
        recorder.point("Permit", code, started_s)
    if not waits:
        return None
    waiting = WaitingPod(cycle.pod, node_name, waits, now_s)
    framework.waiting.add(waiting)
    return waiting


def _timeout_s(plugin: Any, wait: Wait) -> float:
    """Returns the seconds for which a plugin lets a pod wait.

    Raises:
        PluginError: it is no number.
    """
    seconds: Any = wait.timeout_s
    if isinstance(seconds, int | float) and not math.isnan(seconds):
        return seconds
    problem = f"returned {wait!r}: its timeout is no number of seconds"
    raise PluginError(plugin.name, "Permit", problem)


def diagnosis_of(node_name: str, status: Status) -> Diagnosis:
    """Returns a rejection by Reserve or Permit as a Diagnosis of that one node."""
    diagnosis = Diagnosis(1, statuses={node_name: status})
    diagnosis.reasons.update(status.reasons)
    diagnosis.note_plugin(status)
    return diagnosis


async def pre_bind(
    framework: Framework, cycle: Cycle, node_name: str, binders: Sequence[Any] | None = None
) -> Status | None:
    """Runs the PreBind plugins that do not skip, up to the first rejection.

    Args:
        framework: The framework of the pod's profile.
        cycle: The state of the attempt.
        node_name: The selected node.
        binders: The result of ``pre_binders``, if it is available.

    Raises:
        PluginError: if a plugin failed.
    """
    if binders is None:
        binders = pre_binders(framework, cycle, node_name)
    recorder = framework.recorder
    if not binders:
        recorder.succeeded["PreBind"](0.0)
        return None
    started_s, code = recorder.now(), ERROR
    try:
        for plugin in binders:
            result = await _wait(framework, plugin, "PreBind", plugin.pre_bind, cycle, node_name)
            if result is not None:
                status = framework.status_of(plugin, "PreBind", result)
                code = status.code.value
                return status
        code = SUCCESS
    finally:
        recorder.point("PreBind", code, started_s)
    return None


def pre_binders(framework: Framework, cycle: Cycle, node_name: str) -> list[Any]:
    """Returns the PreBind plugins that do not skip; runs before the first ``pre_bind``.

    Raises:
        PluginError: if a plugin failed, or returned an invalid result.
    """
    plugins, recorder = framework.selection.to_call("pre_bind", cycle), framework.recorder
    if not plugins:
        recorder.pre_flight_skipped(0.0)
        return []
    started_s, code = recorder.now(), ERROR
    try:
        binders = _pre_binders(framework, plugins, cycle, node_name)
        code = SUCCESS if binders else SKIPPED
    finally:
        recorder.point("PreBindPreFlight", code, started_s)
    return binders


def _pre_binders(
    framework: Framework, plugins: Sequence[Any], cycle: Cycle, node_name: str
) -> list[Any]:
    binders = []
    for plugin in plugins:
        result = None
        pre_flight = getattr(plugin, "pre_bind_pre_flight", None)
        if pre_flight is not None:
            result = framework.call(plugin, "PreBindPreFlight", pre_flight, cycle, node_name)
        if result is None:
            binders.append(plugin)
        elif result is not Skip.SKIP:
            raise PluginError(
                plugin.name, "PreBindPreFlight", f"returned {result!r}, not None or SKIP"
            )
    return binders


async def bind(framework: Framework, cycle: Cycle, node_name: str) -> Status | None:
    """Binds the pod with the first Bind plugin that does not skip; returns None = bound.

    An extender with a bind verb binds instead; the plugins only if it fails and is ignorable.

    Raises:
        PluginError: if the plugin failed, or if every plugin skipped.
        ExtenderError: if the extender failed.
    """
    if framework.extenders and await _bind_with_extender(framework, cycle, node_name):
        return None
    recorder = framework.recorder
    started_s, code = recorder.now(), ERROR
    try:
        for plugin in framework.plugins("bind"):
            result = await _wait(framework, plugin, "Bind", plugin.bind, cycle, node_name)
            if result is Skip.SKIP:
                continue
            if result is None:
                recorder.succeeded["Bind"](recorder.now() - started_s)
                return None
            status = framework.status_of(plugin, "Bind", result)
            recorder.point("Bind", status.code.value, started_s)
            return status
        code = SKIPPED
        raise PluginError("", "Bind", "every bind plugin skipped the pod")
    except BaseException:
        recorder.point("Bind", code, started_s)
        raise


async def _bind_with_extender(framework: Framework, cycle: Cycle, node_name: str) -> bool:
    for extender in framework.extenders:
        if not extender.has_bind or not extender.is_interested(cycle.pod):
            continue
        try:
            await extender.bind(cycle.pod, node_name)
        except ExtenderError as error:
            if not extender.is_ignorable:
                raise
            log_fields = {"extender": extender.name, "error": str(error)}
            _log.warning("extender failed, ignoring it", extra=log_fields)
        else:
            return True
    return False


def post_bind(framework: Framework, cycle: Cycle, node_name: str) -> None:
    """Runs the PostBind plugins.

    Every plugin is called. The pod is bound already, so an error of one is logged and counted.
    """
    plugins, recorder = framework.plugins("post_bind"), framework.recorder
    if not plugins:
        recorder.succeeded["PostBind"](0.0)
        return
    started_s = recorder.now()
    for plugin in plugins:
        try:
            framework.call(plugin, "PostBind", plugin.post_bind, cycle, node_name)
        except PluginError as error:
            framework.errors.log(error, pod=cycle.pod.key, node=node_name)
    recorder.point("PostBind", SUCCESS, started_s)


async def _wait(
    framework: Framework,
    plugin: Any,
    point: str,
    method: Callable[..., Awaitable[Any]],
    cycle: Cycle,
    node_name: str,
) -> Any:
    """Awaits a plugin; adds its name to an error that it raises.

    It is timed in those attempts in which ``Framework.call`` times plugins.

    SchedulerErrors of the API client pass through, with the plugin's name as a note: the caller has
    to distinguish a failed binding from one with an unknown outcome.
    """
    recorder = framework.recorder
    started_s, code = recorder.now() if cycle.is_timed else 0.0, ERROR
    try:
        result = await method(cycle, node_name)
        code = SUCCESS if result is None else code_of(result)
        return result
    except PluginError:
        recorder.plugin_failed(plugin.name, point)
        raise
    except SchedulerError as error:
        recorder.plugin_failed(plugin.name, point)
        error.add_note(f'running {point} plugin "{plugin.name}"')
        raise
    except (Exception, SystemExit) as error:  # a plugin may do anything; its pod alone fails
        recorder.plugin_failed(plugin.name, point)
        raise PluginError(plugin.name, point, exception_text(error)) from error
    except BaseException as error:  # a cancellation: its cause reports the plugin
        error.add_note(f'running {point} plugin "{plugin.name}"')
        raise
    finally:
        if cycle.is_timed:
            recorder.plugin(plugin.name, point, code, recorder.now() - started_s)


def cancelled_work(error: BaseException) -> SchedulerError:
    """Returns the error of an attempt in which a plugin leaked a cancellation of its own work.

    Args:
        error: The cancellation, with the plugin's name as a note.
    """
    running = next(iter(getattr(error, "__notes__", ())), "running a plugin")
    return SchedulerError(f"{running}: its own work was cancelled")


class AwaitedPlugin(NamedTuple):
    """A call of a plugin that has not returned: the plugin, its extension point and the pod."""

    plugin: str
    point: str
    pod: str


def awaited_plugin(waiting: Any) -> AwaitedPlugin | None:
    """Returns the plugin that a suspended coroutine awaits; None = it awaits something else."""
    while inspect.iscoroutine(waiting):
        frame = waiting.cr_frame
        if frame is not None and frame.f_code is _wait.__code__:
            call = frame.f_locals
            return AwaitedPlugin(call["plugin"].name, call["point"], call["cycle"].pod.key)
        waiting = waiting.cr_await
    return None
