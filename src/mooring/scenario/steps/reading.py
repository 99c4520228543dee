"""Reads Scenarios of kube-scheduler-simulator; what cannot be simulated is refused by name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from mooring.apiserver.patch.patch import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from mooring.apiserver.resources import RESOURCES
from mooring.config.field_errors import FieldError
from mooring.config.strict import nearest
from mooring.config.strict_document import read_strict
from mooring.errors import ConfigError
from mooring.objects.counts import counted
from mooring.objects.files.documents import (
    Path,
    aliased_max_of,
    json_document,
    yaml_documents,
)
from mooring.objects.files.paths import Text
from mooring.objects.files.sources import Source
from mooring.objects.generic import GenericObject
from mooring.scenario.document import Autoscaler
from mooring.scenario.object_reader import ObjectReader
from mooring.scenario.scenario import (
    Action,
    Creation,
    Operation,
    Patching,
    Reference,
    Removal,
    RunTime,
    Scenario,
    Step,
)
from mooring.scenario.stages.reading import ReadStages
from mooring.scenario.steps import document

#: Text that a file of the simulator contains, and others hardly ever.
GROUP: Final = b"simulation.kube-scheduler-simulator."
#: More operations are refused.
OPERATIONS_MAX: Final = 1_000_000
_PATCH_TYPES: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH)
#: Options that change nothing in a simulation.
_IDLE_OPTIONS: Final = ("fieldManager", "fieldValidation", "kind", "apiVersion")
#: Names of the scheduler among the controllers that are simulated.
_SCHEDULERS: Final = ("scheduler", "kube-scheduler", "Scheduler")
_NAMESPACED: Final = {
    (resource.api_version, resource.kind): resource.namespaced
    for resource in RESOURCES
    if resource.is_stored
}


class ReadSteps(NamedTuple):
    """The content of a file.

    Attributes:
        name: Of the scenario.
        steps: In order.
        value: The document as plain values.
        notes: What has no effect.
    """

    name: str
    steps: Sequence[Step]
    value: dict[str, Any]
    notes: Sequence[str]


def is_of_simulator(data: bytes) -> bool:
    """Returns whether a file is a Scenario of the simulator, of whatever version."""
    if GROUP not in data:
        return False
    try:
        value = first_document(data)
    except (ConfigError, StopIteration):
        return b"mooring.dev/" not in data
    version = value.get("apiVersion") if isinstance(value, dict) else None
    return isinstance(version, str) and version.encode().startswith(GROUP)


def first_document(data: bytes) -> Any:
    """Returns the value of the first document, YAML or JSON.

    Raises:
        ConfigError: it is neither.
        StopIteration: there is none.
    """
    start = data.lstrip()
    if start.startswith(b"{"):
        return json_document(start).value
    return next(yaml_documents(data, aliased_max=aliased_max_of(data))).value


def scenario_of_steps(text: Text, seed: int | None, stages: ReadStages) -> Scenario:
    """Returns a scenario of the simulator, ready to run.

    Raises:
        ConfigError: it cannot be read, or says what cannot be simulated.
    """
    read = _read_steps(text)
    return Scenario(
        name=read.name,
        seed=seed or 0,
        end_s=None,
        objects=(),
        pending=(),
        controlled=(),
        groups=(),
        prices={},
        autoscaler=Autoscaler(),
        items=(),
        defaults=RunTime(),
        failures=(),
        config=None,
        plugins=(),
        gates={},
        attempt_s=0.0,
        expectations=(),
        source=read.value,
        notes=[*read.notes, *stages.notes],
        stages=stages.stages,
        steps=read.steps,
    )


def _read_steps(text: Text) -> ReadSteps:
    data = text.read()
    version = next((own for own in document.API_VERSIONS if own.encode() in data), "")
    api_version = version or document.API_VERSIONS[0]
    read = read_strict(text, document.Document, api_version=api_version, kind=document.KIND)
    reading = _Reading(read.document, text, read.errors)
    steps = reading.steps()
    read.raise_errors()
    name = read.document.metadata.get("name") or os.path.basename(text.name)
    return ReadSteps(str(name), steps, read.value, reading.notes)


class _Reading:
    """Resolves a document; errors are collected.

    Attributes:
        notes: What has no effect.
    """

    def __init__(self, read: document.Document, text: Text, errors: list[FieldError]) -> None:
        self.notes: list[str] = []
        #: Objects that have no part in scheduling, with the number of operations on them.
        self._left_out: dict[Reference, int] = {}
        self._spec = read.spec
        self._text = text
        self._errors = errors
        self._objects = ObjectReader(text, errors)
        self._objects.context = [
            operation.create_operation.object
            for operation in read.spec.operations
            if operation.create_operation is not None
            and operation.create_operation.object.get("kind")
            in ("PriorityClass", "RuntimeClass", "StorageClass")
        ]
        if read.status is not None:
            self.notes.append("status: results of another run are left out")

    def _error(self, path: Path, problem: str, value: Any = None, near: str | None = None) -> None:
        self._errors.append(FieldError(path, problem, value, near))

    def steps(self) -> list[Step]:
        """Returns the steps; they mean nothing if there are errors."""
        operations = self._spec.operations
        if len(operations) > OPERATIONS_MAX:
            problem = f"has more than {OPERATIONS_MAX} operations"
            self._error(("spec", "operations"), problem, len(operations))
            return []
        self._check_controllers()
        self._check_ids()
        last = self._last_step()
        by_step: dict[int, list[Operation]] = {}
        for at, own in enumerate(operations):
            path: Path = ("spec", "operations", at)
            if last is not None and own.step > last:
                problem = f"comes after the end: a doneOperation is in step {last}"
                self._error((*path, "step"), problem, own.step)
            action = self._action(own, path)
            by_step.setdefault(own.step, [])
            if action is not None:
                name = own.id or f"operations[{at}]"
                by_step[own.step].append(Operation(name, action, self._source(path)))
        self._leave_out(by_step)
        return [Step(number, by_step[number]) for number in sorted(by_step)]

    def _leave_out(self, by_step: dict[int, list[Operation]]) -> None:
        """Removes the operations on objects that are left out, and notes them."""
        for number, operations in by_step.items():
            by_step[number] = [own for own in operations if own.action.object not in self._left_out]
            for own in operations:
                if own.action.object in self._left_out:
                    self._left_out[own.action.object] += 1
        by_kind: dict[tuple[str, str], list[Reference]] = {}
        for reference in self._left_out:
            by_kind.setdefault(reference[:2], []).append(reference)
        for (version, kind), references in by_kind.items():
            count = sum(self._left_out[reference] for reference in references)
            self.notes.append(
                f"{kind} of {version}: left out, it has no part in scheduling "
                f"({counted(count, 'operation')}, the first on {references[0].key})"
            )

    def _source(self, path: Path) -> Source:
        return Source(self._text.name, self._text, 1, path)

    def _last_step(self) -> int | None:
        ends = [own.step for own in self._spec.operations if own.done_operation is not None]
        if not ends:
            self.notes.append("there is no doneOperation: the run ends with the last step")
        return min(ends, default=None)

    def _check_ids(self) -> None:
        places: dict[str, int] = {}
        for at, own in enumerate(self._spec.operations):
            if own.id and places.setdefault(own.id, at) != at:
                problem = f"is the ID of operations[{places[own.id]}], too"
                self._error(("spec", "operations", at, "id"), problem, own.id)

    def _check_controllers(self) -> None:
        controllers = self._spec.controllers
        path: Path = ("spec", "controllers")
        for at, own in enumerate(controllers.simulation_controllers.enabled):
            if own.name not in _SCHEDULERS:
                where = (*path, "simulationControllers", "enabled", at, "name")
                self._error(where, "only the scheduler is simulated", own.name)
        for name, own_set in (
            ("simulationControllers", controllers.simulation_controllers),
            ("presimulationControllers", controllers.presimulation_controllers),
        ):
            for at, own in enumerate(own_set.disabled):
                problem = "no controller can be switched off: those of workloads always act"
                self._error((*path, name, "disabled", at, "name"), problem, own.name)
        for at, own in enumerate(controllers.presimulation_controllers.enabled):
            problem = "is not simulated: the controllers of workloads act, and no others"
            where = (*path, "presimulationControllers", "enabled", at, "name")
            self._error(where, problem, own.name)

    # -- operations -------------------------------------------------------------------------------

    def _action(self, own: document.Operation, path: Path) -> Action | None:
        forms = {
            "createOperation": own.create_operation,
            "patchOperation": own.patch_operation,
            "deleteOperation": own.delete_operation,
            "doneOperation": own.done_operation,
        }
        chosen = [name for name, value in forms.items() if value is not None]
        if len(chosen) != 1:
            self._error(path, f"must have one of {', '.join(forms)}", chosen or None)
            return None
        where = (*path, chosen[0])
        if own.create_operation is not None:
            return self._creation(own.create_operation, where)
        if own.patch_operation is not None:
            return self._patching(own.patch_operation, where)
        if own.delete_operation is not None:
            self._check_options(own.delete_operation.delete_options, (*where, "deleteOptions"))
            return self._removal(own.delete_operation, where)
        return None

    def _check_options(self, options: dict[str, Any], path: Path) -> None:
        for name, value in options.items():
            if name not in _IDLE_OPTIONS:
                self._error((*path, name), "is not simulated", value)

    def _creation(self, own: document.CreateOperation, path: Path) -> Creation | None:
        self._check_options(own.create_options, (*path, "createOptions"))
        raw, where = own.object, (*path, "object")
        metadata = raw.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if not isinstance(name, str) or not name:
            self._error((*where, "metadata", "name"), "is required", name)
            return None
        template = self._objects.template(raw, where, name)
        if len(self._errors):
            return None
        namespace = metadata.get("namespace", "") if isinstance(metadata, dict) else ""
        reference = self._reference(str(raw["apiVersion"]), str(raw["kind"]), namespace, name)
        # Objects without a struct, such as a ConfigMap or a custom resource.
        others = [obj for obj in template.others if not isinstance(obj, GenericObject)]
        if not (template.pods or template.workloads or others):
            self._left_out[reference] = self._left_out.get(reference, 0) + 1
            return None
        return Creation(template, reference)

    def _reference(self, api_version: str, kind: str, namespace: str, name: str) -> Reference:
        is_namespaced = _NAMESPACED.get((api_version, kind), bool(namespace))
        return Reference(api_version, kind, (namespace or "default") if is_namespaced else "", name)

    def _existing(
        self, type_meta: document.TypeMeta, meta: document.ObjectMeta, path: Path
    ) -> Reference | None:
        if (type_meta.api_version, type_meta.kind) not in _NAMESPACED:
            kinds = sorted({kind for _, kind in _NAMESPACED})
            near = nearest(type_meta.kind, kinds) if type_meta.kind not in kinds else None
            problem = f"there is no such kind in {type_meta.api_version}"
            self._error((*path, "typeMeta", "kind"), problem, type_meta.kind, near)
            return None
        if not meta.name:
            self._error((*path, "objectMeta", "name"), "must not be empty", meta.name)
            return None
        return self._reference(type_meta.api_version, type_meta.kind, meta.namespace, meta.name)

    def _patching(self, own: document.PatchOperation, path: Path) -> Patching | None:
        self._check_options(own.patch_options, (*path, "patchOptions"))
        media_type = own.patch_type or own.go_patch_type
        if media_type not in _PATCH_TYPES:
            problem = f"must be one of {', '.join(_PATCH_TYPES)}"
            if media_type == APPLY_PATCH:
                problem = "server-side apply is not simulated: " + problem
            near = nearest(media_type, [*_PATCH_TYPES]) if media_type else None
            self._error((*path, "patchType"), problem, media_type or None, near)
        try:
            patch = json_document(own.patch).value
        except ConfigError as error:
            self._error((*path, "patch"), error.problem, own.patch)
            return None
        form: type = list if media_type == JSON_PATCH else dict
        if media_type in _PATCH_TYPES and not isinstance(patch, form):
            words = "a list of operations" if form is list else "a mapping"
            self._error((*path, "patch"), f"must be {words} for {media_type}", own.patch)
            return None
        reference = self._existing(own.type_meta, own.object_meta, path)
        return None if reference is None else Patching(reference, media_type, patch)

    def _removal(self, own: document.DeleteOperation, path: Path) -> Removal | None:
        reference = self._existing(own.type_meta, own.object_meta, path)
        return None if reference is None else Removal(reference)
