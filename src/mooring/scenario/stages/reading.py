"""Reads Stage documents: strictly, and what a simulation cannot follow is refused by name."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from mooring.config import strict
from mooring.config.field_errors import FieldError
from mooring.config.strict import nearest
from mooring.config.strict_document import ERRORS_MAX
from mooring.errors import ConfigError, ConfigErrors
from mooring.objects.files.documents import Path
from mooring.objects.files.sources import Source, iter_documents, iter_values
from mooring.scenario.stages import document
from mooring.scenario.stages.queries import Query, QueryError
from mooring.scenario.stages.stage import (
    EXISTS,
    IN,
    NOT_EXISTS,
    NOT_IN,
    Effect,
    Requirement,
    Stage,
    StageEvent,
    Time,
)
from mooring.scenario.stages.template_syntax import TemplateError
from mooring.scenario.stages.templates import Template

#: More stages are refused.
STAGES_MAX: Final = 1000
#: Names in a note; further ones are counted.
NAMES_SHOWN: Final = 20
_KINDS: Final = ("Pod", "Node")
_OPERATORS: Final = (IN, NOT_IN, EXISTS, NOT_EXISTS)
_PATCH_TYPES: Final = ("", "strategic", "merge")
_EVENT_TYPES: Final = ("", "Normal", "Warning")


class ReadStages:
    """The stages of some files.

    Attributes:
        stages: In the order of the files.
        notes: What they say that has no effect.
    """

    def __init__(self) -> None:
        self.stages: list[Stage] = []
        self.notes: list[str] = []

    @property
    def notes_of_simulation(self) -> list[str]:
        """The notes, and what has no effect in a simulation: it has no events."""
        with_events = [
            stage.name
            for stage in self.stages
            if any(effect.event is not None for effect in stage.effects)
        ]
        if not with_events:
            return self.notes
        names = ", ".join(with_events[:NAMES_SHOWN])
        rest = f" and {len(with_events) - NAMES_SHOWN} more" * (len(with_events) > NAMES_SHOWN)
        text = f"events have no effect, and are not recorded: those of stage {names}{rest}"
        return [*self.notes, text]


def are_stages(file: str | os.PathLike[str]) -> bool:
    """Returns whether the first object of a file is a stage.

    Raises:
        ConfigError: the file cannot be read.
    """
    name = os.fspath(file)
    if not os.path.isfile(name):
        return os.path.isdir(name)
    with suppress(ConfigError):
        for _, value in iter_documents([name]):
            return isinstance(value, dict) and value.get("kind") in (document.KIND, "StageList")
    return False


def read_stages(files: Iterable[str | os.PathLike[str]]) -> ReadStages:
    """Reads files of Stage documents; a folder stands for the files in it.

    Raises:
        ConfigError: one cannot be read, or says what cannot be simulated; ``ConfigErrors`` if there
            are several errors.
    """
    read = ReadStages()
    errors: list[ConfigError] = []
    places: dict[str, str] = {}
    for source, raw in iter_values(files):
        if len(errors) >= ERRORS_MAX:
            break
        stage = _stage(source, raw, read.notes, errors)
        if stage is None:
            continue
        if stage.name in places:
            problem = f"is the name of the stage at {places[stage.name]}, too"
            errors.append(source.fault(problem, "metadata", "name", value=stage.name))
        places.setdefault(stage.name, stage.where)
        read.stages.append(stage)
        if len(read.stages) > STAGES_MAX:
            raise source.fault(f"there are more than {STAGES_MAX} stages")
    if errors:
        is_cut = len(errors) >= ERRORS_MAX
        raise errors[0] if len(errors) == 1 else ConfigErrors(errors, is_cut=is_cut)
    return read


def _stage(
    source: Source, raw: dict[str, Any], notes: list[str], errors: list[ConfigError]
) -> Stage | None:
    """Returns the stage of a document; None if there are errors."""
    problems: list[FieldError] = []
    for name, expected in (("apiVersion", document.API_VERSION), ("kind", document.KIND)):
        if raw[name] != expected:
            problems.append(FieldError((name,), f'must be "{expected}"', raw[name]))
    stage = None
    if not problems:
        plain = strict.checked(raw, document.Document, (), problems)
        if not problems:
            built: document.Document = strict.build(plain, document.Document)
            stage = _Reading(built, source, problems).stage(notes)
    errors += [_located(source, error) for error in problems[:ERRORS_MAX]]
    return None if problems else stage


def _patches(following: document.Next) -> list[str]:
    """Returns the fields that patch an object, in the order of the file."""
    parts = {"statusTemplate": following.status_template, "patches": following.patches}
    return [name for name, value in parts.items() if value]


def _located(source: Source, error: FieldError) -> ConfigError:
    located = source.fault(error.problem, *error.path, value=error.value)
    return ConfigError(
        error.problem,
        file=located.file,
        document=located.document,
        line=located.line,
        path=located.path,
        value=error.value,
        suggestion=error.suggestion,
    )


class _Reading:
    """Resolves one document; errors are collected."""

    def __init__(self, read: document.Document, source: Source, errors: list[FieldError]) -> None:
        self._spec = read.spec
        self._metadata = read.metadata
        self._source = source
        self._errors = errors

    def _error(self, path: Path, problem: str, value: Any = None, near: str | None = None) -> None:
        self._errors.append(FieldError(path, problem, value, near))

    def stage(self, notes: list[str]) -> Stage:
        """Returns the stage; it means nothing if there are errors."""
        spec, selector = self._spec, self._spec.selector
        name = self._metadata.get("name")
        if not isinstance(name, str) or not name:
            self._error(("metadata", "name"), "must be a name", name)
        self._check_resource()
        delay = spec.delay or document.Delay()
        effects = self._effects()
        where = self._source.fault("").file or ""
        if selector is None:
            notes.append(f"{where}: stage {name} has no selector: it is for no object")
        if spec.next is not None and spec.next.delete and _patches(spec.next):
            parts = ", ".join(f"next.{part}" for part in _patches(spec.next))
            notes.append(f"{where}: stage {name} deletes its object: {parts} has no effect")
        chosen = selector or document.Selector()
        has_jitter = delay.jitter_duration_from or delay.jitter_duration_milliseconds is not None
        path: Path = ("spec", "delay")
        return Stage(
            name=str(name),
            kind=spec.resource_ref.kind if selector is not None else "",
            labels=chosen.match_labels,
            annotations=chosen.match_annotations,
            requirements=[
                requirement
                for at, item in enumerate(chosen.match_expressions)
                if (requirement := self._requirement(item, at)) is not None
            ],
            weight=spec.weight,
            weight_query=self._query_from(spec.weight_from, ("spec", "weightFrom")),
            delay=None
            if spec.delay is None
            else Time(
                self._query_from(delay.duration_from, (*path, "durationFrom")),
                (delay.duration_milliseconds or 0) / 1000,
            ),
            jitter=None
            if not has_jitter
            else Time(
                self._query_from(delay.jitter_duration_from, (*path, "jitterDurationFrom")),
                None
                if delay.jitter_duration_milliseconds is None
                else delay.jitter_duration_milliseconds / 1000,
            ),
            effects=effects,
            where=where,
        )

    def _check_resource(self) -> None:
        resource = self._spec.resource_ref
        path: Path = ("spec", "resourceRef")
        if resource.kind not in _KINDS:
            problem = "must be Pod or Node: objects of other kinds have no stages here"
            near = nearest(resource.kind, [*_KINDS])
            self._error((*path, "kind"), problem, resource.kind, near)
        if resource.api_group not in ("", "v1"):
            self._error((*path, "apiGroup"), 'must be "v1"', resource.api_group)

    # -- selector ---------------------------------------------------------------------------------

    def _requirement(self, item: document.Requirement, at: int) -> Requirement | None:
        path: Path = ("spec", "selector", "matchExpressions", at)
        if item.cel is not None:
            self._error((*path, "cel"), "expressions in CEL are not supported", item.cel)
            return None
        key, operator, values = item.key, item.operator, item.values
        if item.jq is not None:
            if item.key or item.operator or item.values:
                self._error(path, "must have one of key and jq")
            key, operator, values = item.jq.key, item.jq.operator, item.jq.values
            path = (*path, "jq")
        if operator not in _OPERATORS:
            near = nearest(operator, [*_OPERATORS])
            problem = f"must be one of {', '.join(_OPERATORS)}"
            self._error((*path, "operator"), problem, operator, near)
        elif bool(values) is not (operator in (IN, NOT_IN)):
            words = "must have an item" if operator in (IN, NOT_IN) else "must be empty"
            self._error((*path, "values"), f"{words} with {operator}", list(values) or None)
        query = self._query(key, (*path, "key"))
        return None if query is None else Requirement(query, operator, values)

    def _query(self, text: str, path: Path) -> Query | None:
        try:
            return Query(text)
        except QueryError as error:
            self._error(path, str(error), text)
            return None

    def _query_from(self, item: document.ExpressionFrom | None, path: Path) -> Query | None:
        if item is None:
            return None
        if item.cel is not None:
            self._error((*path, "cel"), "expressions in CEL are not supported", item.cel)
            return None
        if item.jq is not None:
            return self._query(item.jq.expression, (*path, "jq", "expression"))
        return self._query(item.expression_from, (*path, "expressionFrom"))

    # -- effects ----------------------------------------------------------------------------------

    def _effects(self) -> list[Effect]:
        spec = self._spec
        if (spec.next is None) is (not spec.steps):
            self._error(("spec",), "must have one of next and steps")
            return []
        if spec.next is not None:
            return self._of_next(spec.next)
        return [self._of_step(step, at) for at, step in enumerate(spec.steps)]

    def _of_next(self, following: document.Next) -> list[Effect]:
        path: Path = ("spec", "next")
        if following.status_patch_as is not None:
            problem = "is not supported: there are no users to impersonate"
            self._error((*path, "statusPatchAs"), problem, following.status_patch_as)
        if following.status_subresource not in ("", "status"):
            problem = 'must be "status"'
            self._error((*path, "statusSubresource"), problem, following.status_subresource)
        effects = []
        if following.event is not None:
            effects.append(self._of_event(following.event, (*path, "event")))
        first = _finalizing(following.finalizers)
        if first is not None:
            effects.append(first)
        if following.delete:
            # KWOK patches nothing that it deletes.
            effects.append(Effect(deletes=True))
        if following.status_template:
            template = self._template(following.status_template, (*path, "statusTemplate"))
            effects.append(Effect(template=template))
        for at, patch in enumerate(following.patches):
            effects.append(self._of_patch(patch, (*path, "patches", at)))
        return effects

    def _of_step(self, step: document.Step, at: int) -> Effect:
        path: Path = ("spec", "steps", at)
        parts = [step.event is not None, step.finalizers is not None, step.delete]
        if sum([*parts, step.patch is not None]) != 1:
            self._error(path, "must have one of event, finalizers, delete and patch")
        if step.patch is not None:
            return self._of_patch(step.patch, (*path, "patch"))
        if step.event is not None:
            return self._of_event(step.event, (*path, "event"))
        if step.finalizers is not None:
            return _finalizing(step.finalizers) or Effect()
        return Effect(deletes=step.delete)

    def _of_event(self, event: document.Event, path: Path) -> Effect:
        if event.type not in _EVENT_TYPES:
            self._error((*path, "type"), "must be Normal or Warning", event.type)
        message = self._template(event.message, (*path, "message"))
        if message is None:
            return Effect()
        return Effect(event=StageEvent(event.type or "Normal", event.reason, message))

    def _of_patch(self, patch: document.Patch, path: Path) -> Effect:
        if patch.impersonation is not None:
            problem = "is not supported: there are no users to impersonate"
            self._error((*path, "impersonation"), problem, patch.impersonation)
        if patch.root != "status" or patch.subresource not in ("", "status"):
            problem = 'must be "status": a stage changes nothing else here'
            at = "root" if patch.root != "status" else "subresource"
            self._error((*path, at), problem, getattr(patch, at))
        if patch.type not in _PATCH_TYPES:
            self._error((*path, "type"), "must be strategic or merge", patch.type)
        return Effect(template=self._template(patch.template, (*path, "template")))

    def _template(self, text: str, path: Path) -> Template | None:
        try:
            return Template(text)
        except TemplateError as error:
            self._error(path, str(error))
            return None


def _finalizing(item: document.Finalizers | None) -> Effect | None:
    if item is None:
        return None
    removes = tuple(own.value for own in item.remove)
    return Effect(empties=item.empty, removes=removes, adds=tuple(own.value for own in item.add))
