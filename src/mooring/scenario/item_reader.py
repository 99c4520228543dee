"""The items of a scenario: traces, arrivals, and what is done at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from mooring.chance import Distribution, arrivals_of, distribution_of
from mooring.config.field_errors import FieldError
from mooring.errors import ConfigError, ConfigErrors
from mooring.objects.files.documents import Path
from mooring.scenario import scenario as resolved
from mooring.scenario.document import Item, NodeAction, Spec
from mooring.scenario.object_reader import ObjectReader
from mooring.scenario.scenario import FOR_EVER, RunTime, Template
from mooring.scenario.stages.stage import Stage
from mooring.traces import read_trace
from mooring.traces.openb import OPENB_PREFIX

_NODE_ACTIONS: Final = ("drain", "cordon", "uncordon", "fail")
_ACTIONS: Final = ("create", "scale", *_NODE_ACTIONS, "delete")
#: The fields that belong to each form of an item.
_TRACE_FIELDS: Final = (
    *("format", "columns", "stretch", "stretch_duration", "copies", "limit"),
    *("start", "failure", "duration"),
)
_FIELDS_OF: Final = {
    "trace": _TRACE_FIELDS,
    "arrive": ("object", "duration", "start", "failure"),
    "at": (*_ACTIONS, "duration", "start", "failure"),
}
#: What contradicts the stages of pods.
_STAGED: Final = "does not go with stages of pods, which say when pods start and end"
#: Kinds whose pods end by themselves.
_ENDING: Final = frozenset({"Job", "CronJob"})


class TimeReader:
    """Reads distributions.

    Args:
        errors: Gets what is wrong.
        folder: File names are relative to it.
    """

    def __init__(self, errors: list[FieldError], folder: str) -> None:
        self._errors = errors
        self.folder = folder

    def distribution(self, value: Any, path: Path) -> Distribution:
        """Returns a distribution."""
        return distribution_of(value, path, self._errors, folder=self.folder)

    def run_time(self, item: Item, path: Path, defaults: RunTime) -> RunTime:
        """Returns the run time of an item; what it does not say is as the defaults."""
        start, duration, failure = defaults.start, defaults.duration, defaults.failure
        if item.start is not None:
            start = self.distribution(item.start, (*path, "start"))
        if item.duration is not None:
            duration = self.distribution(item.duration, (*path, "duration"))
        if item.failure is not None:
            failure = self.share(item.failure, (*path, "failure"))
        return RunTime(start, duration, failure)

    def share(self, value: float, path: Path) -> float:
        """Returns a number from 0 to 1."""
        if not 0 <= value <= 1:
            self._errors.append(FieldError(path, "must be a share from 0 to 1", value))
        return value


class ItemReader:
    """Reads the items of the workload.

    Args:
        errors: Gets what is wrong.
        objects: Reads their objects.
        times: Reads their distributions.
    """

    def __init__(self, errors: list[FieldError], objects: ObjectReader, times: TimeReader) -> None:
        self._errors = errors
        self._objects = objects
        self._times = times

    def _error(self, path: Path, problem: str, value: Any = None) -> None:
        self._errors.append(FieldError(path, problem, value))

    def item(
        self, item: Item, path: Path, defaults: RunTime
    ) -> resolved.ArrivalItem | resolved.TraceItem | resolved.ActionItem | None:
        """Returns an item; None if it is wrong."""
        forms = [
            form
            for form, is_there in (
                ("trace", bool(item.trace)),
                ("arrive", item.arrive is not None),
                ("at", item.at is not None),
            )
            if is_there
        ]
        if len(forms) != 1:
            self._error(path, "must have one of trace, arrive and at", forms or None)
            return None
        [form] = forms
        empty = Item()
        for name in Item.__struct_fields__:
            is_set = getattr(item, name) != getattr(empty, name)
            if is_set and name not in ("name", form, *_FIELDS_OF[form]):
                encoded = Item.__struct_encode_fields__[Item.__struct_fields__.index(name)]
                self._error((*path, encoded), f"does not go with {form}")
        name = item.name or f"{form}-{path[-1]}"
        run_time = self._times.run_time(item, path, defaults)
        if form == "trace":
            return self._trace_item(item, path, name, run_time)
        if form == "arrive":
            return self._arrival_item(item, path, name, run_time)
        return self._action_item(item, path, name, run_time)

    def _trace_item(
        self, item: Item, path: Path, name: str, run_time: RunTime
    ) -> resolved.TraceItem | None:
        for field in ("stretch", "stretch_duration"):
            if getattr(item, field) <= 0:
                file_name = field.replace("_d", "D")
                self._error((*path, file_name), "must be above 0", getattr(item, field))
        file = item.trace
        if not file.startswith(OPENB_PREFIX):
            file = os.path.join(self._times.folder, file)
        try:
            trace = read_trace(file, format=item.format or None, columns=item.columns or None)
        except ConfigErrors:
            raise
        except ConfigError as error:
            if error.file is not None and error.line is not None:
                raise
            self._error((*path, "trace"), str(error), None)
            return None
        return resolved.TraceItem(name, trace, item, run_time)

    def _arrival_item(
        self, item: Item, path: Path, name: str, run_time: RunTime
    ) -> resolved.ArrivalItem | None:
        arrivals = arrivals_of(item.arrive, (*path, "arrive"), self._errors)
        if item.object is None:
            self._error((*path, "object"), "is required with arrive")
            return None
        template = self._objects.template(item.object, (*path, "object"), name)
        self._check_ends(item, template, path)
        return resolved.ArrivalItem(name, arrivals, template, run_time)

    def _action_item(
        self, item: Item, path: Path, name: str, run_time: RunTime
    ) -> resolved.ActionItem | None:
        actions = [action for action in _ACTIONS if getattr(item, action) is not None]
        if len(actions) != 1:
            self._error(path, f"must have one of {', '.join(_ACTIONS)}", actions or None)
            return None
        [what] = actions
        value: Any = getattr(item, what)
        where = (*path, what)
        action: Any = value
        if what == "create":
            action = self._objects.template(value, where, name)
            self._check_ends(item, action, path)
        elif what in _NODE_ACTIONS:
            action = self._node_action(what, value, where)
        elif not value.name and not (what == "delete" and value.match_labels):
            self._error((*where, "name"), "is required")
        assert item.at is not None
        return resolved.ActionItem(name, item.at, action, run_time)

    def _node_action(self, what: str, action: NodeAction, path: Path) -> resolved.NodeAction:
        if bool(action.node) == bool(action.match_labels):
            self._error(path, "must name nodes by one of node and matchLabels")
        duration: Distribution = FOR_EVER
        if action.duration is not None:
            if what != "fail":
                self._error((*path, "duration"), f"does not go with {what}")
            duration = self._times.distribution(action.duration, (*path, "duration"))
        nodes = resolved.NodeSelection(action.node, action.match_labels)
        return resolved.NodeAction(what, nodes, duration)

    def _check_ends(self, item: Item, template: Template, path: Path) -> None:
        """Reports a run time for pods that their controllers run for ever."""
        if item.duration is None:
            return
        kinds = {raw["kind"] for raw in template.workloads}
        if not template.pods and kinds and not kinds & _ENDING:
            kind = min(kinds)
            self._error((*path, "duration"), f"pods of a {kind} run until they are deleted")


def run_time_errors(spec: Spec) -> list[FieldError]:
    """Returns an error for each run time that the stages of pods would contradict."""
    errors: list[FieldError] = []
    pods: Path = ("spec", "pods")
    if spec.pods.duration is not None:
        errors.append(FieldError((*pods, "duration"), _STAGED, spec.pods.duration))
    if spec.pods.start != "0s":
        errors.append(FieldError((*pods, "start"), _STAGED, spec.pods.start))
    if spec.pods.failure:
        errors.append(FieldError((*pods, "failure"), _STAGED, spec.pods.failure))
    for at, item in enumerate(spec.workload):
        for name in ("duration", "start", "failure"):
            if getattr(item, name) is not None:
                path: Path = ("spec", "workload", at, name)
                errors.append(FieldError(path, _STAGED, getattr(item, name)))
    return errors


def notes_of_traces(items: Sequence[Any], stages: Sequence[Stage]) -> Iterator[str]:
    """Yields what was left out of traces, and assumed."""
    has_stages = any(stage.kind == "Pod" for stage in stages)
    for item in items:
        if not isinstance(item, resolved.TraceItem):
            continue
        for note in item.trace.notes:
            yield f"{item.trace.name}: {note}"
        if has_stages and not np.isnan(item.trace.duration_s).all():
            yield f"{item.trace.name}: its run times are left out: the stages of pods say them"
