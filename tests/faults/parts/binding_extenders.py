"""Extenders that bind pods in place of plugins, for ``points_run``.

Those that are not ignorable come first. The first one that binds and is interested in the pod
decides; if it fails and is ignorable the next one is called, and at last the plugins.

Source: pkg/scheduler/schedule_one.go (bind, extendersBinding).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from mooring.clock import Rng
from mooring.errors import ExtenderError, PluginError
from mooring.framework import Framework
from mooring.framework.runtime import bind as bind_points
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import make_pod
from tests.faults.parts.logged import logged
from tests.faults.parts.points_plugins import DrawnPlugins

TRIES: Final = 6
NODE: Final = "node-0"


class BindingExtender:
    """An extender with drawn properties.

    Attributes:
        name: Its name.
        has_bind: Whether it binds pods.
        is_ignorable: Whether the next one is called if it fails.
        error: What its calls raise; None = it binds.
    """

    has_filter = has_prioritize = has_preempt = False
    weight = 1

    def __init__(self, rng: Rng, name: str, calls: list[str]) -> None:
        self.name = name
        self.has_bind = rng.random() < 0.8
        self.is_ignorable = rng.random() < 0.5
        self.error = ExtenderError(f"{name} has failed") if rng.random() < 0.5 else None
        self._is_interested = rng.random() < 0.8
        self._calls = calls

    def is_interested(self, pod: PodInfo) -> bool:
        """Returns what was drawn."""
        del pod
        return self._is_interested

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        """Binds the pod, or raises."""
        self._calls.append(f"{self.name} binds {pod.metadata.name} to {node_name}")
        if self.error is not None:
            raise self.error


async def binding_problems(
    rng: Rng, framework: Framework, plugins: DrawnPlugins, cache: Cache, kinds: Sequence[str]
) -> list[str]:
    """Binds pods with drawn extenders; returns what differs from the rules."""
    problems: list[str] = []
    for number in range(TRIES):
        kind, calls = rng.choice(kinds), list[str]()
        drawn = [BindingExtender(rng, f"x{at}", calls) for at in range(rng.randint(1, 3))]
        extenders: Any = drawn
        framework.set_extenders(extenders, rng.random)
        plugins.begin(kind, -number)
        pod = PodInfo(make_pod(f"bound-{number}", uid=f"bound-{number}", labels={"kind": kind}))
        cycle = framework.new_cycle(pod, cache.snapshot())
        error: Exception | None = None
        with logged(bind_points) as log:
            try:
                await bind_points.bind(framework, cycle, NODE)
            except (ExtenderError, PluginError) as failed:
                error = failed
        actual = calls, error if isinstance(error, ExtenderError) else None
        callees, due, is_bound = _expected(drawn)
        expected = [f"{it.name} binds {pod.metadata.name} to {NODE}" for it in callees]
        if actual != (expected, due):
            problems.append(f"{pod.key}: {actual}, not {expected}, {due}")
        ignored = [it.name for it in callees if it.error is not None and it.error is not due]
        if [fields["extender"] for _, _, fields in log.lines] != ignored:
            problems.append(f"{pod.key}: logged are {log.lines}, not {ignored}")
        problems += _called(framework, plugins, is_bound or due is not None)
    framework.set_extenders((), rng.random)
    return [*problems, *_note_problems(rng, framework)]


def _note_problems(rng: Rng, framework: Framework) -> Iterator[str]:
    """Compares which bind plugin words the event of a bound pod: the first one that does so."""
    notes = []
    for plugin in framework.plugins("bind"):
        note = (lambda pod, node_name: f"{pod.key} {node_name}") if rng.random() < 0.5 else None
        plugin.scheduled_note = note
        notes += [note] if note is not None else []
    actual = framework.profile.scheduled_note()
    if actual is not (notes[0] if notes else None):
        yield f"the note is {actual}, of {notes}"


def _expected(
    extenders: Sequence[BindingExtender],
) -> tuple[list[BindingExtender], ExtenderError | None, bool]:
    """Returns the extenders that are called, the error, and whether one has bound the pod."""
    callees: list[BindingExtender] = []
    for is_ignorable in (False, True):
        for extender in extenders:
            if extender.is_ignorable != is_ignorable:
                continue
            if not extender.has_bind or not extender._is_interested:
                continue
            callees.append(extender)
            if extender.error is None:
                return callees, None, True
            if not is_ignorable:
                return callees, extender.error, False
    return callees, None, False


def _called(framework: Framework, plugins: DrawnPlugins, is_decided: bool) -> Iterator[str]:
    """Yields a difference: plugins bind the pod if no extender has decided."""
    called = [plugin for point, plugin in plugins.called if point == "bind"]
    is_due = not is_decided and bool(framework.plugins("bind"))
    if bool(called) != is_due:
        yield f"{called} bind the pod, but no extender has decided: {not is_decided}"
