"""Renders Go templates of Stage documents: to the text of a status, and to its values.

A template that uses a function that is not here is refused when it is compiled.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from mooring.errors import ConfigError
from mooring.objects.files.documents import yaml_documents
from mooring.scenario.stages.template_syntax import (
    Assignment,
    Branch,
    Call,
    Dot,
    Expression,
    Fields,
    Include,
    Jump,
    Literal,
    Node,
    Output,
    Range,
    TemplateError,
    Text,
    Variable,
    parse,
)

#: Limits of one rendering: characters of the result, steps, and templates within templates.
_RESULT_MAX: Final = 1 << 20
_STEPS_MAX: Final = 100_000
_INCLUDES_MAX: Final = 16
_ABSENT: Final = "<no value>"

#: Functions of the object's surroundings: name -> number of arguments, the fewest and the most.
CONTEXT_FUNCTIONS: Final = {
    "Now": (0, 0),
    "Version": (0, 0),
    "NodeConditions": (0, 0),
    "NodeIP": (0, 0),
    "NodeName": (0, 0),
    "NodePort": (0, 0),
    "NodeIPWith": (1, 1),
    "PodIP": (0, 0),
    "PodIPWith": (1, 5),
}
#: What these functions return.
Context = Mapping[str, Callable[..., Any]]


class Template:
    """A compiled template.

    Args:
        text: A Go template.

    Raises:
        TemplateError: it cannot be rendered, whatever the object.

    Example:
        >>> Template("phase: {{ .status.phase | Quote }}").values({"status": {"phase": "x"}}, {})
        {'phase': 'x'}
    """

    def __init__(self, text: str) -> None:
        self._parsed = parse(text)
        for nodes in (self._parsed.nodes, *self._parsed.templates.values()):
            _check(nodes, self._parsed.templates)

    def render(self, value: Any, context: Context) -> str:
        """Returns the text for an object.

        Raises:
            TemplateError: a function does not apply to its arguments, or a limit is passed.
        """
        rendering = _Rendering(self._parsed.templates, context)
        try:
            rendering.run(self._parsed.nodes, value, [{"$": value}])
        except _JumpError as jump:
            raise TemplateError(f"{jump.args[0]} is in no range") from None
        return "".join(rendering.parts)

    def values(self, value: Any, context: Context) -> Any:
        """Returns the YAML of the text as plain values; {} if it is empty.

        Raises:
            TemplateError: as ``render``, or the text is not one YAML document.
        """
        text = self.render(value, context)
        try:
            documents = [document.value for document in yaml_documents(text)]
        except ConfigError as error:
            raise TemplateError(f"does not give YAML: {error}") from None
        if len(documents) > 1:
            raise TemplateError("gives several YAML documents")
        return documents[0] if documents else {}


# -- checks -------------------------------------------------------------------------------------


def _check(nodes: Sequence[Node], templates: Mapping[str, Any]) -> None:
    for node in nodes:
        for expression in _expressions(node):
            _check_calls(expression)
        if isinstance(node, Branch | Range):
            _check(node.body, templates)
            _check(node.other, templates)
        elif isinstance(node, Include) and node.name not in templates:
            raise TemplateError(f'has no template "{node.name}"')


def _expressions(node: Node) -> Iterator[Expression]:
    if isinstance(node, Output | Assignment | Branch | Range | Include):
        yield node.value


def _check_calls(expression: Expression) -> None:
    if isinstance(expression, Fields):
        _check_calls(expression.of)
    if not isinstance(expression, Call):
        return
    limits = CONTEXT_FUNCTIONS.get(expression.name)
    if limits is None and expression.name not in _FUNCTIONS:
        raise TemplateError(f"uses a function that is not supported: {expression.name}")
    fewest, most = limits or _FUNCTIONS[expression.name][:2]
    if not fewest <= len(expression.arguments) <= most:
        raise TemplateError(f"{expression.name} has {len(expression.arguments)} arguments")
    for argument in expression.arguments:
        _check_calls(argument)


# -- rendering ----------------------------------------------------------------------------------


class _JumpError(Exception):
    """A ``break`` or ``continue``, which its ``range`` catches."""


class _Rendering:
    """One rendering.

    Attributes:
        parts: The text so far.
    """

    def __init__(self, templates: Mapping[str, Sequence[Node]], context: Context) -> None:
        self.parts: list[str] = []
        self._templates = templates
        self._context = context
        self._length = self._steps = self._includes = 0

    def run(self, nodes: Sequence[Node], dot: Any, scopes: list[dict[str, Any]]) -> None:
        """Renders nodes; variables are looked for in the last scope first."""
        for node in nodes:
            self._steps += 1
            if self._steps > _STEPS_MAX:
                raise TemplateError(f"takes more than {_STEPS_MAX} steps")
            if isinstance(node, Text):
                self._write(node.text)
            elif isinstance(node, Output):
                self._write(_text(self._value(node.value, dot, scopes)))
            elif isinstance(node, Assignment):
                _assign(node, self._value(node.value, dot, scopes), scopes)
            elif isinstance(node, Branch):
                self._branch(node, dot, scopes)
            elif isinstance(node, Range):
                self._range(node, dot, scopes)
            elif isinstance(node, Jump):
                raise _JumpError(node.word)
            else:
                self._include(node, self._value(node.value, dot, scopes))

    def _write(self, text: str) -> None:
        self._length += len(text)
        if self._length > _RESULT_MAX:
            raise TemplateError(f"gives more than {_RESULT_MAX} characters")
        self.parts.append(text)

    def _include(self, node: Include, value: Any) -> None:
        self._includes += 1
        if self._includes > _INCLUDES_MAX:
            raise TemplateError(f"nests more than {_INCLUDES_MAX} templates")
        self.run(self._templates[node.name], value, [{"$": value}])
        self._includes -= 1

    def _branch(self, node: Branch, dot: Any, scopes: list[dict[str, Any]]) -> None:
        value = self._value(node.value, dot, scopes)
        scope = {node.variable: value} if node.variable else {}
        if _is_true(value):
            self.run(node.body, value if node.is_with else dot, [*scopes, scope])
        else:
            self.run(node.other, dot, [*scopes, scope])

    def _range(self, node: Range, dot: Any, scopes: list[dict[str, Any]]) -> None:
        items = _items(self._value(node.value, dot, scopes))
        if not items:
            self.run(node.other, dot, [*scopes, {}])
        for name, item in items:
            values = (item,) if len(node.variables) == 1 else (name, item)
            scope = dict(zip(node.variables, values, strict=False))
            try:
                self.run(node.body, item, [*scopes, scope])
            except _JumpError as jump:
                if jump.args[0] == "break":
                    return

    def _value(self, expression: Expression, dot: Any, scopes: list[dict[str, Any]]) -> Any:
        if isinstance(expression, Literal):
            return expression.value
        if isinstance(expression, Dot):
            return dot
        if isinstance(expression, Variable):
            for scope in reversed(scopes):
                if expression.name in scope:
                    return scope[expression.name]
            raise TemplateError(f"has no variable {expression.name}")
        if isinstance(expression, Fields):
            value = self._value(expression.of, dot, scopes)
            for name in expression.names:
                if value is not None and not isinstance(value, dict):
                    raise TemplateError(f"has no field {name} in {value!r:.40}")
                value = None if value is None else value.get(name)
            return value
        arguments = [self._value(item, dot, scopes) for item in expression.arguments]
        self._steps += 1
        if expression.name in self._context:
            return self._context[expression.name](*arguments)
        function: Callable[..., Any] = _FUNCTIONS[expression.name][2]
        try:
            return function(*arguments)
        except (TypeError, ValueError, IndexError, OverflowError) as error:
            raise TemplateError(f"{expression.name}: {error}") from None


def _assign(node: Assignment, value: Any, scopes: list[dict[str, Any]]) -> None:
    if node.is_new:
        scopes[-1][node.name] = value
        return
    for scope in reversed(scopes):
        if node.name in scope:
            scope[node.name] = value
            return
    raise TemplateError(f"has no variable {node.name}")


def _items(value: Any) -> list[tuple[Any, Any]]:
    if value is None:
        return []
    if isinstance(value, dict):
        return sorted(value.items())
    if isinstance(value, list):
        return list(enumerate(value))
    raise TemplateError(f"cannot range over {value!r:.40}")


def _is_true(value: Any) -> bool:
    return bool(value)


def _text(value: Any) -> str:
    if value is None:
        return _ABSENT
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return json.dumps(value)
    return str(value)


# -- functions ----------------------------------------------------------------------------------


def _and(*values: Any) -> Any:
    return next((value for value in values if not _is_true(value)), values[-1])


def _or(*values: Any) -> Any:
    return next((value for value in values if _is_true(value)), values[-1])


def _is_equal(value: Any, *others: Any) -> bool:
    return any(value == other and type(value) is type(other) for other in others)


def _index(value: Any, *keys: Any) -> Any:
    for key in keys:
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and isinstance(key, int) and 0 <= key < len(value):
            value = value[key]
        else:
            raise ValueError(f"there is no item {key!r:.40} in {value!r:.40}")
    return value


def _dict(*items: Any) -> dict[Any, Any]:
    if len(items) % 2:
        raise ValueError("a key has no value")
    return dict(zip(items[::2], items[1::2], strict=True))


def _integer(value: Any) -> int:
    if isinstance(value, str):
        return int(value, 0)
    return int(value or 0)


def _printf(form: Any, *values: Any) -> str:
    parts, rest = [], list(values)
    pieces = str(form).split("%")
    at = 1
    parts.append(pieces[0])
    while at < len(pieces):
        piece = pieces[at]
        if not piece and at + 1 < len(pieces):
            parts.append("%" + pieces[at + 1])
            at += 2
            continue
        if piece[:1] not in ("s", "v", "d", "q") or not rest:
            raise ValueError(f"the form {form!r:.40} is not supported with these values")
        value = _text(rest.pop(0))
        parts.append((json.dumps(value) if piece[0] == "q" else value) + piece[1:])
        at += 1
    if rest:
        raise ValueError(f"the form {form!r:.40} has fewer parts than values")
    return "".join(parts)


def _quote(value: Any) -> str:
    return json.dumps("" if value is None else _text(value))


def _yaml(value: Any, indent: Any = 0) -> str:
    # One line of flow style: YAML, however deep it stands.
    return "  " * _integer(indent) + json.dumps(value)


def _length(value: Any) -> int:
    return len(value)


_MANY: Final = 64
#: Name -> the fewest and the most arguments, and the function.
_FUNCTIONS: Final[Mapping[str, tuple[int, int, Callable[..., Any]]]] = {
    "Quote": (1, 1, _quote),
    "YAML": (1, 2, _yaml),
    "add": (1, _MANY, lambda *values: sum(map(_integer, values))),
    "add1": (1, 1, lambda value: _integer(value) + 1),
    "and": (1, _MANY, _and),
    "default": (2, 2, lambda other, value: value if _is_true(value) else other),
    "dict": (0, _MANY, _dict),
    "eq": (2, _MANY, _is_equal),
    "ge": (2, 2, lambda a, b: a >= b),
    "gt": (2, 2, lambda a, b: a > b),
    "index": (1, _MANY, _index),
    "int": (1, 1, _integer),
    "le": (2, 2, lambda a, b: a <= b),
    "len": (1, 1, _length),
    "list": (0, _MANY, lambda *values: list(values)),
    "lower": (1, 1, lambda value: _text(value).lower()),
    "lt": (2, 2, lambda a, b: a < b),
    "ne": (2, 2, lambda a, b: not _is_equal(a, b)),
    "not": (1, 1, lambda value: not _is_true(value)),
    "or": (1, _MANY, _or),
    "printf": (1, _MANY, _printf),
    "quote": (1, 1, _quote),
    "sub": (2, 2, lambda a, b: _integer(a) - _integer(b)),
    "upper": (1, 1, lambda value: _text(value).upper()),
}
