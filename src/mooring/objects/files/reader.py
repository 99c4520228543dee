"""Kubernetes objects from files: strict about what is read, patient with what is not needed.

::

    paths ──files──▶ bytes ──documents──▶ plain values ──List?──▶ items ──decode──▶ structs

Kinds that no scheduler reads are skipped and counted, since real dumps are full of them. A fault in
an object that is read stops the reading, with file, document, line, path and value: a cluster with
one node silently missing would give wrong answers. Admission is another step (``admission``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, NoReturn

from mooring.errors import ConfigError
from mooring.objects.codec.decode import convert
from mooring.objects.files.documents import (
    Document,
    Path,
    json_document,
    line_of,
    path_text,
    yaml_documents,
)
from mooring.objects.files.limits import OBJECTS_MAX
from mooring.objects.files.paths import expand, read_bytes, shown_name
from mooring.objects.kinds import KINDS, Kind
from mooring.objects.meta import KubernetesObject

_LIST = "List"

#: What Kubernetes makes name suffixes of: no vowels, so no words.
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5

#: A list position at the start of a path.
_POSITION = re.compile(r"\[([0-9]+)\]")


class Objects(list[KubernetesObject]):
    """The objects that were read, in order, and what was passed over.

    Attributes:
        skipped: Kind -> how many objects of it were skipped, since no scheduler reads that kind.
        places: Of each object the file and the document that it was read from.
    """

    def __init__(self, found: Iterable[KubernetesObject] = ()) -> None:
        super().__init__(found)
        self.skipped: dict[str, int] = {}
        self.places: list[tuple[str, int]] = []


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


class Source(NamedTuple):
    """Where a value stands: the file, its text, the document's number and the path inside it."""

    file: str
    data: bytes
    document: int
    path: Path

    def fault(self, problem: str, *steps: str | int, value: Any = None) -> ConfigError:
        """Returns an error about what stands ``steps`` below this place."""
        path = (*self.path, *steps)
        return ConfigError(
            problem,
            file=self.file,
            document=self.document,
            line=line_of(self.data, self.document, path),
            path=path_text(path) or None,
            value=value,
        )


def read_objects(paths: Iterable[str | os.PathLike[str]]) -> Objects:
    """The objects of all files and folders, in order; "-" is standard input.

    Raises:
        ConfigError: A file cannot be read, breaks a limit, or holds something that is not a
            Kubernetes object; or two objects of one kind have the same name.

    Example:
        >>> read_objects(["/nowhere.yaml"])
        Traceback (most recent call last):
        ...
        mooring.errors.ConfigError: /nowhere.yaml: cannot be read: no such file or directory
    """
    objects = Objects()
    generated = _GeneratedNames()
    seen: dict[tuple[str, str, str], str] = {}
    for source, raw in iter_values(paths):
        kind = _kind_of(source, raw)
        if kind is None:
            name = str(raw["kind"])
            objects.skipped[name] = objects.skipped.get(name, 0) + 1
            continue
        found = _decode(source, generated.filled_in(raw), kind)
        _check_new(source, found, kind, seen)
        objects.append(found)
        objects.places.append((source.file, source.document))
        if len(objects) > OBJECTS_MAX:
            raise ConfigError(f"more than {OBJECTS_MAX} objects", file=source.file)
    objects.skipped = dict(sorted(objects.skipped.items()))
    return objects


def iter_documents(paths: Iterable[str | os.PathLike[str]]) -> Iterator[tuple[Source, Any]]:
    """Yields the documents of all files one after another, as plain values, with where they stand.

    Only one file's text is held at a time.
    """
    for path in expand(paths):
        data = read_bytes(path)
        name = shown_name(path)
        try:
            for document in _documents(path, data):
                yield Source(name, data, document.number, ()), document.value
        except ConfigError as error:
            raise error.located(file=name) from None


def iter_values(
    paths: Iterable[str | os.PathLike[str]],
) -> Iterator[tuple[Source, dict[str, Any]]]:
    """Yields every object as a plain dict, those inside of lists too, with where it stands.

    ``apiVersion`` and ``kind`` are filled in for items of a ``PodList`` and the like, which leave
    them out.
    """
    for source, value in iter_documents(paths):
        yield from _unfold(source, value, {})


def _documents(path: str, data: bytes) -> Iterator[Document]:
    """JSON if it looks so, unless the file is named YAML and goes on after the first value."""
    is_json = path.removesuffix(".gz").endswith(".json")
    start = data[:256].removeprefix(b"\xef\xbb\xbf").lstrip()
    if not is_json and not start.startswith(b"{"):
        yield from yaml_documents(data)
        return
    if not start and is_json:
        return
    try:
        document = json_document(data)
    except ConfigError:
        if is_json:
            raise
        yield from yaml_documents(data)  # flow style, or JSON values with --- between them
        return
    yield document


def _unfold(
    source: Source, value: Any, inherited: dict[str, Any]
) -> Iterator[tuple[Source, dict[str, Any]]]:
    if not isinstance(value, dict):
        raise source.fault("must be a Kubernetes object: a mapping", value=value)
    raw = {**inherited, **value} if inherited else value
    kind = raw.get("kind")
    if not isinstance(kind, str) or not kind:
        raise source.fault("must name the kind of object", "kind", value=kind)
    if not isinstance(raw.get("apiVersion"), str) or not raw["apiVersion"]:
        raise source.fault("must name the API version", "apiVersion", value=raw.get("apiVersion"))
    if not (kind.endswith(_LIST) and "items" in raw):
        yield source, raw
        return
    items = [] if raw["items"] is None else raw["items"]
    if not isinstance(items, list):
        raise source.fault("must be a list", "items", value=items)
    of_items = {}
    if kind != _LIST:
        of_items = {"apiVersion": raw["apiVersion"], "kind": kind.removesuffix(_LIST)}
    for position in range(len(items)):
        # Each raw item is let go once it is decoded: it takes ten times what its struct takes.
        item, items[position] = items[position], None
        inside = source._replace(path=(*source.path, "items", position))
        yield from _unfold(inside, item, of_items)


def _kind_of(source: Source, raw: dict[str, Any]) -> Kind | None:
    """Returns the kind that mooring knows an object by; None if it is not read."""
    kind = KINDS.get(raw["kind"])
    group, _, version = str(raw["apiVersion"]).rpartition("/")
    if kind is None or kind.group != group:
        return None
    if kind.version != version:
        problem = f"{kind.name} is read only as {kind.api_version}"
        raise source.fault(problem, "apiVersion", value=raw["apiVersion"])
    return kind


def _decode(source: Source, raw: dict[str, Any], kind: Kind) -> KubernetesObject:
    try:
        found: KubernetesObject = convert(raw, kind)
    except ConfigError as error:
        _relocate(source, raw, error)
    return found


def _relocate(source: Source, raw: Any, error: ConfigError) -> NoReturn:
    """Raises the fault that decoding found once more, with where in the files it stands."""
    path = (*source.path, *_steps(raw, error.path or ""))
    is_unquoted = error.problem == "must be text" and isinstance(error.value, bool | int | float)
    raise ConfigError(
        error.problem + ("; put it in quotes" if is_unquoted else ""),
        file=source.file,
        document=source.document,
        line=line_of(source.data, source.document, path),
        path=path_text(path),
        value=error.value,
        suggestion=error.suggestion,
    ) from None


def _steps(value: Any, text: str) -> Path:
    """The steps of a path that is written as text, as far as they can be followed in a value.

    The keys of the value decide where a step ends, since keys may have dots themselves.
    """
    steps: list[str | int] = []
    while text:
        step = _position(text) if isinstance(value, list) else _longest_key(value, text)
        if step is None or (isinstance(step, int) and step >= len(value)):
            break
        steps.append(step)
        value = value[step]
        text = text.removeprefix(f"[{step}]" if isinstance(step, int) else step).removeprefix(".")
    # What is left is missing in the value, so its name has no ambiguity to speak of.
    return (*steps, *([text] if text else []))


def _position(text: str) -> int | None:
    match = _POSITION.match(text)
    return int(match[1]) if match else None


def _longest_key(value: Any, text: str) -> str | None:
    if not isinstance(value, dict):
        return None
    fitting = [key for key in value if text == key or text.startswith((key + ".", key + "["))]
    return max(fitting, key=len, default=None)


def _suffix(number: int) -> str:
    """Five letters and digits, as an API server appends them."""
    digits = []
    for _ in range(_SUFFIX_LENGTH):
        number, digit = divmod(number, len(_SUFFIX_ALPHABET))
        digits.append(_SUFFIX_ALPHABET[digit])
    return "".join(reversed(digits))


def _check_new(
    source: Source, found: KubernetesObject, kind: Kind, seen: dict[tuple[str, str, str], str]
) -> None:
    metadata = found.metadata
    namespace = (metadata.namespace or "default") if kind.namespaced else ""
    place = f"{source.file}, document {source.document}"
    key = (kind.name, namespace, metadata.name)
    first = seen.setdefault(key, place)
    if first is not place:
        problem = f"this {kind.name} stands twice, first in {first}"
        raise source.fault(problem, "metadata", "name", value=metadata.name)
