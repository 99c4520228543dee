"""Kubernetes objects from files: strict about what is read, as an API server would store them.

::

    paths ──files──▶ bytes ──documents──▶ plain values ──List?──▶ items ──schema──▶ with defaults
          ──admission──▶ as stored ──validator──▶ checked ──decode──▶ structs

Kinds that no scheduler reads are counted, since real dumps are full of them, and are read as
``GenericObject``: a plugin may list them. With a
validator every kind that it knows is checked as an API server would, unknown fields included. An
error says file, document, line, path and value; all errors are collected, up to a limit, and
nothing is returned then: a cluster with one node silently missing would give wrong answers.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

import msgspec

from mooring.errors import ConfigError, ConfigErrors
from mooring.objects.codec.decode import convert
from mooring.objects.defaulting.admission import (
    CREATED,
    Neighbors,
    admit,
    is_admitted_alone,
    part_looked_at,
    with_defaults,
    with_head,
)
from mooring.objects.files.file_errors import FileErrors, steps_of
from mooring.objects.files.generic_objects import GenericObjects
from mooring.objects.files.limits import OBJECTS_MAX
from mooring.objects.files.runnable import problem_of
from mooring.objects.files.sources import Source, iter_values
from mooring.objects.kinds import GATED_KINDS, KINDS, Kind
from mooring.objects.meta import KubernetesObject
from mooring.objects.schema.checks import find_problems
from mooring.objects.schema.decoding import WrongType, reader_of
from mooring.objects.schema.types import struct_of
from mooring.objects.types import Object

#: What Kubernetes makes name suffixes of: no vowels, so no words.
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5

#: The kinds whose controllers create pods, by API group.
WORKLOADS = frozenset(
    [("apps", kind) for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")]
    + [("batch", "Job"), ("batch", "CronJob"), ("", "ReplicationController")]
)

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder().decode
_NO_NEIGHBORS = Neighbors()


class Objects(list[KubernetesObject]):
    """The objects that were read, those without a struct last, and what only plugins read.

    Attributes:
        skipped: Kind -> how many objects of it were read, although no scheduler reads that kind.
        workloads: The objects of ``WORKLOADS`` as JSON with defaults, for their controllers.
    """

    def __init__(self, objects: Iterable[KubernetesObject] = ()) -> None:
        super().__init__(objects)
        self.skipped: dict[str, int] = {}
        self.workloads: list[Object] = []


class _GeneratedNames:
    """Names for objects that have only ``generateName``: numbered, so that runs are alike."""

    def __init__(self) -> None:
        self._used: dict[str, int] = {}

    def filled_in(self, raw: dict[str, Any]) -> dict[str, Any]:
        """Returns the object with a name; unchanged if it has one, or nothing to make one of."""
        metadata = raw.get("metadata")
        if not isinstance(metadata, dict) or metadata.get("name"):
            return raw
        prefix = metadata.get("generateName")
        if not isinstance(prefix, str) or not prefix:
            return raw
        number = self._used[prefix] = self._used.get(prefix, -1) + 1
        return {**raw, "metadata": {**metadata, "name": prefix + _suffix(number)}}


class FieldProblem(Protocol):
    """One thing that breaks a rule."""

    @property
    def field(self) -> str:
        """The path, such as "spec.containers[0].name"."""
        ...

    @property
    def body(self) -> str:
        """The error, with the value."""
        ...


class Validator(Protocol):
    """The rules of an API server for objects that exist."""

    def knows(self, api_version: str, kind: str) -> bool:
        """Returns whether there are rules for the kind."""
        ...

    def problems_of(self, obj: Object) -> Iterable[FieldProblem]:
        """Returns what is wrong with an object that has its defaults."""
        ...


def read_objects(
    paths: Iterable[str | os.PathLike[str]],
    *,
    validator: Validator | None = None,
    created: str = CREATED,
) -> Objects:
    """Returns the objects of all files and folders, in order, as a scheduler would see them.

    Priority classes, storage classes and nodes among them count for all. Missing UIDs are numbered,
    so equal input gives equal output.

    Args:
        paths: Files and folders; "-" is standard input.
        validator: Checks the objects; None = unknown fields and broken rules are passed over.
        created: The creation time of objects without one, RFC 3339.

    Raises:
        ConfigError: A file cannot be read, breaks a limit, holds nothing, or holds something that
            is not a Kubernetes object or that an API server would refuse; or two objects of one
            kind have the same name. ``ConfigErrors`` if there are several.

    Example:
        >>> read_objects(["/nowhere.yaml"])
        Traceback (most recent call last):
        ...
        mooring.errors.ConfigError: /nowhere.yaml: cannot be read: no such file or directory
    """
    return read_values(iter_values(paths), validator=validator, created=created)


def read_values(
    values: Iterable[tuple[Source, Object]],
    *,
    validator: Validator | None = None,
    created: str = CREATED,
    context: Iterable[Object] = (),
) -> Objects:
    """Returns the objects of plain values, as ``read_objects`` does for those of files.

    Args:
        values: The values with their places.
        validator: As for ``read_objects``.
        created: As for ``read_objects``.
        context: Further objects that admission reads, with their defaults.

    Raises:
        ConfigError: As ``read_objects``.
    """
    reading = _Reading(validator, created, context)
    try:
        for source, raw in values:
            reading.add(source, raw)
    except ConfigErrors:
        raise
    except ConfigError as error:
        reading.errors.add_located(error)
    return reading.finished()


class _Pending(NamedTuple):
    """An object that waits until all others are read."""

    position: int
    source: Source
    kind: Kind
    packed: bytes | Object


class _Reading:
    """The objects and errors read so far."""

    def __init__(
        self, validator: Validator | None, created: str, context: Iterable[Object]
    ) -> None:
        self.errors = FileErrors()
        self._validator = validator
        self._created = created
        self._generated = _GeneratedNames()
        self._seen: dict[tuple[str, str, str], str] = {}
        self._skipped: dict[str, int] = {}
        #: None stands for an object that waits in ``_pending``, or was refused.
        self._objects: list[KubernetesObject | None] = []
        self._pending: list[_Pending] = []
        self._looked_at = [part for obj in context if (part := part_looked_at(obj)) is not None]
        self._uids: set[str] = set()
        self._workloads: list[Object] = []
        self._generic = GenericObjects(created)

    def add(self, source: Source, raw: Object) -> None:
        """Reads one object.

        Raises:
            ConfigErrors: There are too many errors to go on.
        """
        kind = _kind_of(raw)
        if kind is None:
            self._skip(source, raw)
            return
        if raw["apiVersion"] != kind.api_version:
            if self._validator is None:  # a dump of another version
                name = f"{kind.name} of {raw['apiVersion']}"
                self._skipped[name] = self._skipped.get(name, 0) + 1
                return
            problem = f"{kind.name} is read only as {kind.api_version}"
            self.errors.add(source, ("apiVersion",), problem, value=raw["apiVersion"])
            return
        raw = self._generated.filled_in(raw)
        obj = self._decoded(source, raw, kind)
        if obj is None or not self._is_named(source, raw):
            return
        self._check_new(source, obj, kind)
        if len(self._objects) >= OBJECTS_MAX:
            raise ConfigError(f"more than {OBJECTS_MAX} objects", file=source.file)
        uid = obj["metadata"].get("uid", "")
        self._uids.add(uid)
        if is_admitted_alone(obj):
            admit(obj, _NO_NEIGHBORS)
            self._objects.append(self._stored(source, obj, kind, uid=uid))
            return
        if (part := part_looked_at(obj)) is not None:
            self._looked_at.append(part)
        self._pending.append(_Pending(len(self._objects), source, kind, _packed(obj)))
        self._objects.append(None)

    def finished(self) -> Objects:
        """Admits what waits, and returns all objects.

        Raises:
            ConfigError: Something was wrong, or an API server would refuse an object.
        """
        # What cannot be read may be what another object refers to: that is no second error.
        is_complete = not self.errors
        neighbors = Neighbors(self._looked_at)
        number = 0
        for position, source, kind, packed in self._pending:
            obj: Object = _unpack(packed) if isinstance(packed, bytes) else packed
            uid = obj["metadata"].get("uid", "")
            if not uid:
                number, uid = self._free_uid(number)
            try:
                admit(obj, neighbors)
            except ConfigError as error:
                if is_complete:
                    self._refuse(source, obj, error)
                continue
            self._objects[position] = self._stored(source, obj, kind, uid=uid)
        generic = list(self._generic.decoded(self.errors))
        self.errors.raise_collected()
        objects = Objects(obj for obj in self._objects if obj is not None)
        objects += generic
        objects.skipped = dict(sorted(self._skipped.items()))
        for obj in self._workloads:
            metadata = obj["metadata"]
            if not metadata.get("uid"):
                number, metadata["uid"] = self._free_uid(number)
            metadata.setdefault("creationTimestamp", self._created)
        objects.workloads = self._workloads
        return objects

    def _free_uid(self, number: int) -> tuple[int, str]:
        """Returns the next number whose UID no object has, and that UID."""
        while True:
            number += 1
            uid = f"00000000-0000-4000-8000-{number:012x}"
            if uid not in self._uids:
                return number, uid

    def _stored(
        self, source: Source, obj: Object, kind: Kind, *, uid: str
    ) -> KubernetesObject | None:
        """Returns an admitted object as it is stored; None if it is refused."""
        if not self._is_valid(source, obj):
            return None
        metadata = obj["metadata"]
        metadata["uid"] = uid
        metadata.setdefault("creationTimestamp", self._created)
        try:
            stored: KubernetesObject = convert(obj, kind)
        except ConfigError as error:
            self._refuse(source, obj, error)
            return None
        if (kind.group, kind.name) in WORKLOADS and self._is_runnable(source, obj):
            self._workloads.append(obj)
        return stored

    def _skip(self, source: Source, raw: Object) -> None:
        """Counts an object that no scheduler reads, and checks it if there are rules for it."""
        name = str(raw["kind"])
        api_version = str(raw["apiVersion"])
        group = api_version.rpartition("/")[0]
        # Deployments were of this group first.
        group = "apps" if group == "extensions" else group
        if (group, name) in WORKLOADS:
            served = f"{group}/v1".lstrip("/")
            if api_version == served:
                self._add_workload(source, self._generated.filled_in(raw))
                return
            if self._validator is not None:
                problem = f"{name} is read only as {served}"
                self.errors.add(source, ("apiVersion",), problem, value=api_version)
                return
            name = f"{name} of {api_version}"
        self._skipped[name] = self._skipped.get(name, 0) + 1
        raw = self._generated.filled_in(raw)
        self._generic.add(source, raw)
        if self._validator is None or not self._validator.knows(api_version, name):
            return
        obj = self._strictly_decoded(source, raw, struct_of(api_version.rpartition("/")[0], name))
        if obj is not None:
            obj["kind"], obj["apiVersion"] = name, api_version
            self._is_valid(source, obj)

    def _add_workload(self, source: Source, raw: Object) -> None:
        """Reads a workload that no scheduler reads, for its controller."""
        group, _, version = str(raw["apiVersion"]).rpartition("/")
        name = str(raw["kind"])
        kind = Kind(name, object, group, version, f"{name.lower()}s", namespaced=True)
        obj = self._strictly_decoded(
            source, raw, struct_of(group, name), allows_unknown=self._validator is None
        )
        if obj is None or not self._is_named(source, raw):
            return
        obj = with_head(obj, kind)
        self._check_new(source, obj, kind)
        if uid := obj["metadata"].setdefault("uid", ""):
            self._uids.add(uid)
        if self._is_valid(source, obj) and self._is_runnable(source, obj):
            self._workloads.append(obj)

    def _is_runnable(self, source: Source, obj: Object) -> bool:
        """Reports a workload whose controller would never end."""
        problem = problem_of(obj)
        if problem is not None:
            self.errors.add(source, problem.path, problem.text, value=problem.value)
        return problem is None

    def _decoded(self, source: Source, raw: Object, kind: Kind) -> Object | None:
        """Returns an object with defaults; None if it cannot be read."""
        if self._validator is not None:
            obj = self._strictly_decoded(source, raw, struct_of(kind.group, kind.name))
            return obj and with_head(obj, kind)
        try:
            return with_defaults(raw, kind)
        except ConfigError as error:
            self._refuse(source, raw, error)
            return None

    def _strictly_decoded(
        self, source: Source, raw: Object, type_name: str, *, allows_unknown: bool = False
    ) -> Object | None:
        """Returns an object with defaults; None if it has unknown fields or wrong types."""
        reader = reader_of(type_name)
        try:
            obj = reader.read(raw)
        except WrongType:
            pass
        else:
            if allows_unknown or not reader.has_unknown_fields:
                return obj
        for problem in find_problems(type_name, raw):
            self.errors.add(
                source,
                problem.path,
                problem.text,
                value=problem.value,
                suggestion=problem.suggestion,
            )
        return None

    def _is_valid(self, source: Source, obj: Object) -> bool:
        """Reports the rules that an object breaks."""
        problems = list(self._validator.problems_of(obj)) if self._validator else []
        for problem in problems:
            path = steps_of(obj, problem.field)
            self.errors.add(source, path, problem.body, shown_path=problem.field)
        return not problems

    def _refuse(self, source: Source, raw: Object, error: ConfigError) -> None:
        is_unquoted = error.problem == "must be a string" and isinstance(
            error.value, bool | int | float
        )
        self.errors.add(
            source,
            steps_of(raw, error.path or ""),
            error.problem + ("; put it in quotes" if is_unquoted else ""),
            value=error.value,
            suggestion=error.suggestion,
        )

    def _is_named(self, source: Source, raw: Object) -> bool:
        """Reports an object without a name: others could not refer to it."""
        name = (raw.get("metadata") or {}).get("name")
        if name:
            return True
        if self._validator is None:
            self.errors.add(source, ("metadata", "name"), "must not be empty", value=name)
        else:
            problem = "Required value: name or generateName is required"
            self.errors.add(source, ("metadata", "name"), problem)
        return False

    def _check_new(self, source: Source, obj: Object, kind: Kind) -> None:
        metadata = obj["metadata"]
        namespace = metadata["namespace"] if kind.namespaced else ""
        place = f"{source.file}, document {source.document}"
        name = metadata.get("name", "")
        first = self._seen.setdefault((kind.name, namespace, name), place)
        if first is not place:
            problem = f"duplicate {kind.name}, first in {first}"
            self.errors.add(source, ("metadata", "name"), problem, value=name)


def _kind_of(raw: Object) -> Kind | None:
    """Returns the kind that an object is read as, in whatever version; None if it is not read."""
    kind = KINDS.get(raw["kind"]) if raw["kind"] not in GATED_KINDS else None
    group = str(raw["apiVersion"]).rpartition("/")[0]
    return kind if kind is not None and kind.group == group else None


def _packed(obj: Object) -> bytes | Object:
    """Returns a form of the object that takes less memory, if there is one."""
    try:
        return _pack(obj)
    except (OverflowError, TypeError, ValueError):  # integers of more than 64 bits
        return obj


def _suffix(number: int) -> str:
    """Returns five letters and digits, as an API server appends them."""
    digits = []
    for _ in range(_SUFFIX_LENGTH):
        number, digit = divmod(number, len(_SUFFIX_ALPHABET))
        digits.append(_SUFFIX_ALPHABET[digit])
    return "".join(reversed(digits))
