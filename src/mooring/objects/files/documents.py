"""YAML and JSON text to plain Python values, strictly: one value for each document.

Only what JSON can say comes out: dict with string keys, list, str, int, float, bool, None. What
YAML has beyond that, and what makes a text mean something else than it shows, is refused: tags,
equal keys in one mapping, infinite numbers, and anchors, aliases and merge keys (unless the caller
allows them, and then up to a limit). So is what is too deep.

Values carry no positions, which would cost more than the parsing. When an error is found in a
value, ``line_of`` reads the text once more and says on which line the path stands.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, NoReturn, Protocol, cast

import yaml

from mooring.errors import ConfigError
from mooring.objects.files.json_numbers import (
    RefusedNumberError,
    finite,
    integer,
    path_of_refused,
    refuse_constant,
)
from mooring.objects.files.limits import (
    ALIASED_VALUES_MAX,
    DEPTH_MAX,
    DOCUMENTS_MAX,
    PATH_STEPS_MAX,
)
from mooring.objects.files.scalars import resolve

#: Where a value stands: keys and list positions from the top.
Path = tuple[str | int, ...]

#: Escapes of JSON; no text of Go has half a pair of surrogates.
_ESCAPES = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.",
    re.DOTALL,
)
#: Finds where a value ends; ``json_document`` reads it.
_ANY_JSON = json.JSONDecoder()
#: The end of an object and the begin of another.
_NEXT_OBJECT = re.compile(r"\}[ \t\r\n]*\{")
_SPACE = re.compile(r"[ \t\r\n]*")
#: The key whose value, a mapping or a list of mappings, gives entries to the mapping it stands in.
_MERGE_KEY = "<<"

_PlainLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Document(NamedTuple):
    """One document of a text: its number from 1, and its value."""

    number: int
    value: Any


class RepeatedKey(NamedTuple):
    """A key that its mapping has had before, and the line (from 1) on which its value begins."""

    key: str
    line: int


class _Mark(Protocol):
    line: int


class _Events(Protocol):
    def get_event(self) -> Any: ...


def path_text(path: Path) -> str:
    """Returns a path as people write it. A step that has its brackets already keeps them.

    Example:
        >>> path_text(("spec", "containers", 0, "resources", "limits", "nvidia.com/gpu"))
        'spec.containers[0].resources.limits[nvidia.com/gpu]'
    """
    text = ""
    for step in path:
        if isinstance(step, str) and step.startswith("["):
            text += step
        elif isinstance(step, int) or "." in step or "/" in step:
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def yaml_documents(
    data: bytes | str, *, aliased_max: int = 0, repeated: list[RepeatedKey] | None = None
) -> Iterator[Document]:
    """Yields the documents of a YAML text; empty ones are left out but counted.

    Args:
        data: The text.
        aliased_max: For how many values aliases may stand: an alias stands for a copy of the value
            at its anchor, and a merge key for the entries that its mapping has not. 0 = anchors,
            aliases and merge keys are errors.
        repeated: If given, equal keys in one mapping are appended to it when their values end, and
            the last one counts; else they are errors.

    Raises:
        ConfigError: With document, line and path; the file is for the caller to add.
    """
    yield from _Reader(data, aliased_max=aliased_max, repeated=repeated).documents()


def aliased_max_of(data: bytes | str) -> int:
    """Returns for how many values the aliases of a file may stand: its memory grows with it."""
    return max(ALIASED_VALUES_MAX, len(data))


def json_document(data: bytes | str) -> Document:
    """Returns the one value of a JSON text.

    Raises:
        ConfigError: With line, and the path of a key that stands twice, or of a number that is none
            for Kubernetes.
    """
    text = ""
    try:
        text = data.decode("utf-8-sig") if isinstance(data, bytes) else data
        value = json.loads(
            _with_whole_characters(text),
            object_pairs_hook=_unique,
            parse_constant=refuse_constant,
            parse_float=finite,
            parse_int=integer,
        )
    except _DuplicateKeyError:
        # The text is YAML as well, and that reader knows where it is.
        for _ in yaml_documents(data):
            pass
        raise ConfigError("has a key twice in one object") from None
    except RefusedNumberError as error:
        path = path_of_refused(text)
        raise ConfigError(
            error.problem,
            line=line_of(text, 1, path) if path else None,
            path=path_text(path) or None,
            value=error.digits,
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"is not UTF-8 text (byte {error.start})") from None
    except json.JSONDecodeError as error:
        problem = f"is not JSON: {error.msg} (column {error.colno})"
        raise ConfigError(problem, line=error.lineno) from None
    except RecursionError:
        raise ConfigError(f"nests deeper than {DEPTH_MAX} levels") from None
    if not is_shallow(value):
        raise ConfigError(f"nests deeper than {DEPTH_MAX} levels")
    return Document(1, value)


def _with_whole_characters(text: str) -> str:
    """Returns JSON in which half a pair of surrogates is the replacement character, as in Go."""
    if "\\ud" not in text and "\\uD" not in text:
        return text
    return _ESCAPES.sub(lambda escape: r"\ufffd" if escape["half"] else escape[0], text)


def is_json_stream(data: bytes | str) -> bool:
    """Returns whether a text is JSON objects one after another, as ``kubectl -o json -w`` prints.

    Only the first one is read, and only of a text with an object after another: no single value
    has that, except in its strings.
    """
    try:
        text = data.decode("utf-8-sig") if isinstance(data, bytes) else data
        if not _NEXT_OBJECT.search(text):
            return False
        _, end = _ANY_JSON.raw_decode(text, _after_space(text, 0))
    except (ValueError, RecursionError):
        return False
    return text.startswith("{", _after_space(text, end))


def json_documents(data: bytes | str) -> Iterator[Document]:
    """Yields the values of a JSON text, which stand one after another without separators.

    Raises:
        ConfigError: With document and line, and the path if a key stands twice.
    """
    for number, line, text in _json_texts(data):
        try:
            yield Document(number, json_document(text).value)
        except ConfigError as error:
            inside = line + (error.line or 1) - 1
            raise ConfigError(
                error.problem, document=number, line=inside, path=error.path, value=error.value
            ) from None


def _json_texts(data: bytes | str) -> Iterator[tuple[int, int, str]]:
    """Yields number, first line and text of each value of a JSON stream."""
    stream = data.decode("utf-8-sig") if isinstance(data, bytes) else data
    number, line, before = 0, 1, 0
    position = _after_space(stream, 0)
    while position < len(stream):
        number += 1
        line += stream.count("\n", before, position)
        before = position
        if number > DOCUMENTS_MAX:
            raise ConfigError(f"more than {DOCUMENTS_MAX} documents", line=line)
        try:
            _, end = _ANY_JSON.raw_decode(stream, position)
        except json.JSONDecodeError as error:
            problem = f"is not JSON: {error.msg} (column {error.colno})"
            raise ConfigError(problem, document=number, line=error.lineno) from None
        except RecursionError:
            problem = f"nests deeper than {DEPTH_MAX} levels"
            raise ConfigError(problem, document=number, line=line) from None
        yield number, line, stream[position:end]
        position = _after_space(stream, end)


def _after_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def is_shallow(value: Any) -> bool:
    """Returns whether a value nests at most ``DEPTH_MAX`` levels of dict and list."""
    level = [value]
    for _ in range(DEPTH_MAX):
        level = [item for holder in level for item in _children(holder)]
        if not level:
            return True
    return False


def line_of(data: bytes | str, number: int, path: Path) -> int | None:
    """Returns the line (from 1) on which the value at ``path`` of document ``number`` stands.

    If the path ends earlier than asked for (a required key that is missing), the line of what is
    there. None if the text cannot be read or has no such document.
    """
    return lines_of(data, [(number, path)])[0]


def lines_of(data: bytes | str, places: Sequence[tuple[int, Path]]) -> list[int | None]:
    """Returns for each document number and path what ``line_of`` says, in one reading."""
    if is_json_stream(data):
        return _lines_of_stream(data, places)
    reader = _Reader(data, places=places, aliased_max=aliased_max_of(data))
    last = max((number for number, _ in places), default=0)
    try:
        for document in reader.documents():
            if document.number >= last:
                break
    except ConfigError:
        pass
    return reader.lines


def _lines_of_stream(data: bytes | str, places: Sequence[tuple[int, Path]]) -> list[int | None]:
    lines: list[int | None] = [None] * len(places)
    try:
        for number, first, text in _json_texts(data):
            paths = {place: path for place, (own, path) in enumerate(places) if own == number}
            inside = lines_of(text, [(1, path) for path in paths.values()])
            for place, line in zip(paths, inside, strict=True):
                lines[place] = None if line is None else first + line - 1
    except ConfigError:
        pass
    return lines


class _DuplicateKeyError(ValueError):
    """A JSON object has a key twice."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _DuplicateKeyError
    return made


def _children(value: Any) -> Sequence[Any]:
    if isinstance(value, dict):
        return [item for item in value.values() if isinstance(item, dict | list)]
    if isinstance(value, list):
        return [item for item in value if isinstance(item, dict | list)]
    return ()


class _Reader:
    """Builds values from the parser's events, with the path of what is being built at hand.

    ``_holders`` are the open mappings and lists from the top, ``_steps`` the key or position in
    each; a step of None says that the next word is a key::

        spec:                 holders  [{...}, {...}, [...]]
          containers:         steps    ["spec", "containers", 1]
          - name: a
          - name: b   <- here
    """

    def __init__(
        self,
        data: bytes | str,
        *,
        places: Sequence[tuple[int, Path]] = (),
        aliased_max: int = 0,
        repeated: list[RepeatedKey] | None = None,
    ) -> None:
        self._aliased_max = aliased_max
        self._repeated = repeated
        #: The key that was read last, if its mapping has had it before.
        self._repeated_key: str | None = None
        #: Such keys whose values are open, with the number of holders around the value.
        self._repeated_open: list[tuple[int, RepeatedKey]] = []
        self._anchors: dict[str, Any] = {}
        #: Open mappings with a merge key: the mapping, its keys before that, and the place.
        self._merging: list[tuple[dict[str, Any], frozenset[str], _Mark]] = []
        self._copied_count = 0
        self.lines: list[int | None] = [None] * len(places)
        self._data = data
        #: Document number -> a path -> the places that are there, or inside it.
        self._places: dict[int, dict[Path, list[int]]] = {}
        for index, (number, path) in enumerate(places):
            inside = self._places.setdefault(number, {})
            for length in range(len(path) + 1):
                inside.setdefault(path[:length], []).append(index)
        self._number = 0
        self._holders: list[dict[str, Any] | list[Any]] = []
        self._steps: list[str | int | None] = []

    def documents(self) -> Iterator[Document]:
        """Yields what the text holds, one value for each document."""
        try:
            events = cast(_Events, _PlainLoader(self._data))
            while not isinstance(event := events.get_event(), yaml.StreamEndEvent):
                if not isinstance(event, yaml.DocumentStartEvent):
                    continue
                self._number += 1
                if self._number > DOCUMENTS_MAX:
                    self._refuse(f"more than {DOCUMENTS_MAX} documents", event.start_mark)
                value = self._build(events)
                if value is not None:
                    yield Document(self._number, value)
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else None
            problem = " ".join(filter(None, (error.problem, error.context)))
            number = max(self._number, 1)
            raise ConfigError(f"is not YAML: {problem}", document=number, line=line) from None
        except (yaml.YAMLError, UnicodeError) as error:
            reason = getattr(error, "reason", None) or "unreadable"
            position = getattr(error, "position", None)
            place = "" if position is None else f" (byte {position})"
            raise ConfigError(f"is not text that YAML allows: {reason}{place}") from None

    def _build(self, events: _Events) -> Any:
        """Returns the value of the document that just began."""
        holders, steps = self._holders, self._steps
        get_event = events.get_event
        root: Any = None
        self._anchors.clear()
        while True:
            event = get_event()
            kind = type(event)
            if kind is yaml.ScalarEvent:
                if steps and steps[-1] is None:
                    self._begin_entry(event)
                    continue
                value = self._scalar(event)
            elif kind is yaml.MappingStartEvent:
                value = self._open(event, {})
            elif kind is yaml.SequenceStartEvent:
                value = self._open(event, [])
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                closed = holders.pop()
                steps.pop()
                if self._merging and self._merging[-1][0] is closed:
                    self._merge(*self._merging.pop())
                self._note_closed()
                self._next()
                continue
            elif kind is yaml.DocumentEndEvent:
                return root
            else:
                value = self._aliased(event)
            opened = kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent
            parent = holders[-1 - opened] if len(holders) > opened else None
            if parent is None:
                root = value
            elif type(parent) is dict:
                parent[cast(str, steps[-1 - opened])] = value
            else:
                cast("list[Any]", parent).append(value)
            if not opened:
                self._next()

    def _open(self, event: Any, value: dict[str, Any] | list[Any]) -> dict[str, Any] | list[Any]:
        if self._steps and self._steps[-1] is None:
            is_template = isinstance(event, yaml.MappingStartEvent) and event.flow_style
            hint = "; is this a template? helm template renders a chart" if is_template else ""
            self._refuse(f"a key must be a plain word{hint}", event.start_mark)
        self._check_plain(event)
        self._note_repeated(event.start_mark, is_open=True)
        # The value of a key stands where its key does, though it may begin on the next line.
        if not self._steps or isinstance(self._steps[-1], int):
            self._note_line(event.start_mark)
        if len(self._holders) >= DEPTH_MAX:
            self._refuse(f"nests deeper than {DEPTH_MAX} levels", event.start_mark)
        if event.anchor is not None:
            self._anchors[event.anchor] = value
        self._holders.append(value)
        self._steps.append(None if type(value) is dict else 0)
        return value

    def _next(self) -> None:
        """Moves the innermost step past the value that is complete."""
        if self._steps:
            step = self._steps[-1]
            self._steps[-1] = step + 1 if isinstance(step, int) else None

    def _begin_entry(self, event: Any) -> None:
        """Takes a scalar as the key of the next entry."""
        key = event.value
        if event.implicit[0]:
            if key == _MERGE_KEY:
                self._begin_merge(event)
            key = _key_text(key)
        self._steps[-1] = key
        self._check_plain(event)
        self._note_line(event.start_mark)
        if key is None:
            self._steps[-1] = event.value
            self._refuse("a key must not be null; put it in quotes", event.start_mark)
        if key in self._holders[-1]:
            if self._repeated is None:
                self._refuse("duplicate key", event.start_mark)
            self._repeated_key = cast(str, key)

    def _begin_merge(self, event: Any) -> None:
        if not self._aliased_max:
            problem = "YAML merge keys are not supported; write the entries out"
            self._refuse(problem, event.start_mark)
        holder = cast("dict[str, Any]", self._holders[-1])
        if _MERGE_KEY not in holder:
            self._merging.append((holder, frozenset(holder), event.start_mark))

    def _merge(self, holder: dict[str, Any], before: frozenset[str], mark: _Mark) -> None:
        """Gives a complete mapping the entries of its merge key; those of its own come first.

        Go's reader lets the merge key replace what stands before it, and other readers do not, so
        that is refused.
        """
        merged = holder.pop(_MERGE_KEY)
        for source in merged if isinstance(merged, list) else [merged]:
            if not isinstance(source, dict):
                self._refuse("a merge key needs a mapping or a list of mappings", mark, source)
            for key, value in source.items():
                if key in before:
                    self._refuse("must stand after the merge key that also has it", mark, key)
                holder.setdefault(key, value)

    def _note_repeated(self, mark: _Mark, *, is_open: bool = False) -> None:
        """Notes a repeated key at its value: what is inside the value comes before it."""
        if self._repeated_key is None or self._repeated is None:
            return
        entry = RepeatedKey(self._repeated_key, mark.line + 1)
        self._repeated_key = None
        if is_open:
            self._repeated_open.append((len(self._holders), entry))
        else:
            self._repeated.append(entry)

    def _note_closed(self) -> None:
        if self._repeated_open and self._repeated_open[-1][0] == len(self._holders):
            entry = self._repeated_open.pop()[1]
            if self._repeated is not None:
                self._repeated.append(entry)

    def _scalar(self, event: Any) -> Any:
        self._check_plain(event)
        self._note_repeated(event.start_mark)
        self._note_line(event.start_mark)
        value = resolve(event.value) if event.implicit[0] else event.value
        if event.anchor is not None:
            self._anchors[event.anchor] = value
        if not event.implicit[0]:
            return value
        if isinstance(value, float) and not math.isfinite(value):
            self._refuse("is not a number that Kubernetes knows", event.start_mark, event.value)
        return value

    def _check_plain(self, event: Any) -> None:
        if event.anchor is not None and not self._aliased_max:
            self._refuse("YAML anchors are not supported", event.start_mark, f"&{event.anchor}")
        if event.tag is not None:
            self._refuse("YAML tags are not supported", event.start_mark, event.tag)

    def _aliased(self, event: Any) -> Any:
        """Returns a copy of the value at an anchor."""
        is_key = bool(self._steps) and self._steps[-1] is None
        if is_key:
            self._steps.pop()
        name = f"*{event.anchor}"
        if is_key or not self._aliased_max:
            problem = "YAML aliases are not supported; write the value out"
            self._refuse(problem, event.start_mark, name)
        if event.anchor not in self._anchors:
            self._refuse("there is no such anchor before this alias", event.start_mark, name)
        value = self._anchors[event.anchor]
        if any(value is holder for holder in self._holders):
            self._refuse("an alias stands in its own value", event.start_mark, name)
        self._note_line(event.start_mark)
        return self._copy(value, len(self._holders), event)

    def _copy(self, value: Any, depth: int, event: Any) -> Any:
        """Returns a copy, within the limits: a few aliases of aliases can stand for gigabytes."""
        self._copied_count += 1
        if self._copied_count > self._aliased_max:
            problem = f"aliases stand for more than {self._aliased_max} values"
            self._refuse(problem, event.start_mark)
        if depth > DEPTH_MAX:
            self._refuse(f"nests deeper than {DEPTH_MAX} levels", event.start_mark)
        if isinstance(value, dict):
            return {key: self._copy(item, depth + 1, event) for key, item in value.items()}
        if isinstance(value, list):
            return [self._copy(item, depth + 1, event) for item in value]
        return value

    def _path(self) -> Path:
        return tuple(step for step in self._steps if step is not None)

    def _note_line(self, mark: _Mark) -> None:
        """Remembers the line where a place is, or the nearest so far."""
        places = self._places.get(self._number)
        if not places:
            return
        for index in places.get(self._path(), ()):
            self.lines[index] = mark.line + 1

    def _refuse(self, problem: str, mark: _Mark | None, value: Any = None) -> NoReturn:
        raise ConfigError(
            problem,
            document=self._number,
            line=mark.line + 1 if mark else None,
            path=path_text(self._path()[:PATH_STEPS_MAX]) or None,
            value=value,
        )


def _key_text(word: str) -> str | None:
    """Returns a plain key as the string that JSON has for it; None for null."""
    value = resolve(word)
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if value is None or isinstance(value, str) else str(value)
