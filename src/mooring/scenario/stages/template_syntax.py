"""The syntax of Go templates: from a text to nodes and expressions.

Source: Go's package text/template; actions between ``{{`` and ``}}``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from mooring.objects.selectors import parse_int64

#: Limits of a template: characters, and nested actions.
LENGTH_MAX: Final = 65_536
DEPTH_MAX: Final = 32
#: Longer numbers are cut in errors.
NUMBER_CHARS_MAX: Final = 32
_TRIMS_BEFORE: Final = re.compile(r"-\s")
_TRIMS_AFTER: Final = re.compile(r"\s-\Z")
_TOKEN: Final = re.compile(
    r"""\s*(?:
    (?P<string>"(?:[^"\\]|\\.)*"|`[^`]*`)
  | (?P<number>[-+]?[0-9]+(?:\.[0-9]+)?)
  | (?P<variable>\$[A-Za-z0-9_]*)
  | (?P<field>\.[A-Za-z_][A-Za-z0-9_]*)
  | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<symbol>:=|[=|(),.])
    )""",
    re.VERBOSE,
)
_LITERALS: Final = {"true": True, "false": False, "nil": None}


class TemplateError(ValueError):
    """A text is not a template that can be rendered; the message says why."""


class Literal(NamedTuple):
    """A value that is written out."""

    value: Any


class Variable(NamedTuple):
    """A variable; "$" is the object that the template is rendered for."""

    name: str


class Dot(NamedTuple):
    """The current object."""


class Fields(NamedTuple):
    """Fields of a value, one after another."""

    of: Expression
    names: tuple[str, ...]


class Call(NamedTuple):
    """A function with its arguments."""

    name: str
    arguments: tuple[Expression, ...]


Expression: TypeAlias = "Literal | Variable | Dot | Fields | Call"


class Text(NamedTuple):
    """Text between actions."""

    text: str


class Output(NamedTuple):
    """An expression whose value is written."""

    value: Expression


class Assignment(NamedTuple):
    """A variable that gets a value; a new one, or one that was declared before."""

    name: str
    value: Expression
    is_new: bool


class Branch(NamedTuple):
    """``if`` or ``with``: the first body if the value is true, else the second."""

    value: Expression
    body: Sequence[Node]
    other: Sequence[Node]
    #: Whether the value is the current object of the first body.
    is_with: bool
    #: The variable that gets the value; "" = none.
    variable: str = ""


class Range(NamedTuple):
    """``range``: the body for each item, or ``other`` if there is none."""

    value: Expression
    variables: tuple[str, ...]
    body: Sequence[Node]
    other: Sequence[Node]


class Jump(NamedTuple):
    """``break`` or ``continue``."""

    word: str


class Include(NamedTuple):
    """``template``: another template, for a value."""

    name: str
    value: Expression


Node: TypeAlias = "Text | Output | Assignment | Branch | Range | Jump | Include"


class Parsed(NamedTuple):
    """A template: its nodes, and the templates that it defines."""

    nodes: Sequence[Node]
    templates: dict[str, Sequence[Node]]


class _Action(NamedTuple):
    line: int
    words: list[tuple[str, str]]


def parse(text: str) -> Parsed:
    """Returns the nodes of a template.

    Raises:
        TemplateError: it is none, with the line.
    """
    if len(text) > LENGTH_MAX:
        raise TemplateError(f"is longer than {LENGTH_MAX} characters")
    parser = _Parser(list(_parts(text)))
    nodes, end = parser.nodes(0)
    if end is not None:
        raise TemplateError(f"line {end.line}: {end.words[0][1]} has no beginning")
    return Parsed(nodes, parser.templates)


def _parts(text: str) -> Iterator[str | _Action]:
    """Yields texts and actions."""
    start, trims_next = 0, False
    while (begin := text.find("{{", start)) >= 0:
        line = text.count("\n", 0, begin) + 1
        end = text.find("}}", begin)
        if end < 0:
            raise TemplateError(f"line {line}: {{{{ has no }}}}")
        before, body = text[start:begin], text[begin + 2 : end]
        before = before.lstrip() if trims_next else before
        trims = _TRIMS_BEFORE.match(body) is not None
        yield before.rstrip() if trims else before
        body = body[1:] if trims else body
        trims_next = _TRIMS_AFTER.search(body) is not None
        body = body[:-1] if trims_next else body
        start = end + 2
        if not body.strip().startswith("/*"):
            yield _Action(line, list(_tokens(body, line)))
    rest = text[start:]
    yield rest.lstrip() if trims_next else rest


def _tokens(body: str, line: int) -> Iterator[tuple[str, str]]:
    end, body = 0, body.rstrip()
    while end < len(body):
        match = _TOKEN.match(body, end)
        if match is None:
            part = body[end : end + 20].strip()
            raise TemplateError(f"line {line}: has a part that is not supported: {part}")
        kind = str(match.lastgroup)
        # ".a.b" are fields of one value, ". a" and "$x .a" are two.
        is_joined = kind == "field" and end > 0 and match.start(kind) == end
        yield ("joined" if is_joined else kind), match[kind]
        end = match.end()


class _Parser:
    """Builds nodes from texts and actions."""

    def __init__(self, parts: list[str | _Action]) -> None:
        self.templates: dict[str, Sequence[Node]] = {}
        self._parts = parts
        self._at = 0

    def nodes(self, depth: int) -> tuple[list[Node], _Action | None]:
        """Returns the nodes up to ``else``, ``end`` or the end of the text, and that action."""
        nodes: list[Node] = []
        while self._at < len(self._parts):
            part = self._parts[self._at]
            self._at += 1
            if isinstance(part, str):
                if part:
                    nodes.append(Text(part))
                continue
            if not part.words:
                raise TemplateError(f"line {part.line}: has an empty action")
            if depth > DEPTH_MAX:
                raise TemplateError(f"line {part.line}: nests deeper than {DEPTH_MAX} levels")
            kind, word = part.words[0]
            if kind == "word" and word in ("else", "end"):
                return nodes, part
            node = self._node(part, depth)
            if node is not None:
                nodes.append(node)
        return nodes, None

    def _node(self, action: _Action, depth: int) -> Node | None:
        kind, word = action.words[0]
        words = _Words(action)
        if kind == "word" and word in ("if", "with"):
            words.next()
            return self._branch(action, words, depth, is_with=word == "with")
        if kind == "word" and word == "range":
            words.next()
            names = words.variables()
            value = words.whole()
            body, other = self._bodies(action, depth)
            return Range(value, names, body, other)
        if kind == "word" and word in ("break", "continue"):
            words.next()
            words.expect_end()
            return Jump(word)
        if kind == "word" and word == "define":
            words.next()
            name = words.name()
            words.expect_end()
            self.templates[name], other = self._bodies(action, depth)
            if other:
                raise TemplateError(f"line {action.line}: define has no else")
            return None
        if kind == "word" and word == "template":
            words.next()
            name = words.name()
            return Include(name, Literal(None) if words.is_at_end else words.whole())
        return words.statement()

    def _branch(self, action: _Action, words: _Words, depth: int, *, is_with: bool) -> Branch:
        names = words.variables()
        value = words.whole()
        body, other = self._bodies(action, depth)
        return Branch(value, body, other, is_with, names[0] if names else "")

    def _bodies(self, action: _Action, depth: int) -> tuple[list[Node], list[Node]]:
        """Returns the nodes up to ``else``, and those up to ``end``."""
        body, end = self.nodes(depth + 1)
        other: list[Node] = []
        if end is not None and end.words[0][1] == "else":
            following = end.words[1:]
            if following and following[0] in (("word", "if"), ("word", "with")):
                # "else if" is an "if" that shares the "end".
                inner = _Action(end.line, following)
                words = _Words(inner)
                words.next()
                is_with = following[0][1] == "with"
                if depth > DEPTH_MAX:
                    raise TemplateError(f"line {end.line}: nests deeper than {DEPTH_MAX} levels")
                return body, [self._branch(inner, words, depth + 1, is_with=is_with)]
            if following:
                raise TemplateError(f"line {end.line}: else has a part that is not supported")
            other, end = self.nodes(depth + 1)
        if end is None or end.words[0][1] != "end":
            raise TemplateError(f"line {action.line}: {action.words[0][1]} has no end")
        return body, other


class _Words:
    """The words of one action."""

    def __init__(self, action: _Action) -> None:
        self._words = action.words
        self._line = action.line
        self._at = 0
        self._depth = 0

    @property
    def is_at_end(self) -> bool:
        """True if there is no further word."""
        return self._at >= len(self._words)

    def _peek(self, ahead: int = 0) -> tuple[str, str]:
        at = self._at + ahead
        return self._words[at] if at < len(self._words) else ("end", "")

    def next(self) -> tuple[str, str]:
        """Returns the next word, and passes it."""
        token = self._peek()
        self._at += 1
        return token

    def _fail(self, problem: str) -> TemplateError:
        return TemplateError(f"line {self._line}: {problem}")

    def expect_end(self) -> None:
        """Raises an error if there is a further word."""
        if not self.is_at_end:
            raise self._fail(f"has a part that is not supported: {self._peek()[1]}")

    def name(self) -> str:
        """Returns a quoted name."""
        kind, text = self.next()
        if kind != "string":
            raise self._fail(f"must have a name in quotes, not {text or 'nothing'}")
        return str(self._unquoted(text))

    def variables(self) -> tuple[str, ...]:
        """Returns the variables before ``:=``; none if there is none."""
        if self._peek()[0] != "variable":
            return ()
        if self._peek(1)[1] == ":=":
            names: tuple[str, ...] = (self.next()[1],)
        elif self._peek(1)[1] == "," and self._peek(3)[1] == ":=":
            names = (self.next()[1], self._words[self._at + 1][1])
            self._at += 2
        else:
            return ()
        self.next()
        return names

    def statement(self) -> Node:
        """Returns an assignment or an output."""
        if self._peek()[0] == "variable" and self._peek(1)[1] in (":=", "="):
            name, sign = self.next()[1], self.next()[1]
            return Assignment(name, self.whole(), sign == ":=")
        return Output(self.whole())

    def whole(self) -> Expression:
        """Returns the expression up to the end of the action."""
        value = self._pipeline()
        self.expect_end()
        return value

    def _pipeline(self) -> Expression:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self._fail(f"nests deeper than {DEPTH_MAX} levels")
        value = self._command()
        while self._peek()[1] == "|" and self._peek()[0] == "symbol":
            self.next()
            function = self._command()
            if not isinstance(function, Call):
                raise self._fail("pipes a value into what is no function")
            # The value is the last argument.
            value = Call(function.name, (*function.arguments, value))
        self._depth -= 1
        return value

    def _command(self) -> Expression:
        kind, text = self._peek()
        if kind == "word" and text not in _LITERALS:
            self.next()
            arguments = []
            while self._peek()[0] not in ("end", "symbol") or self._peek()[1] in ("(", "."):
                arguments.append(self._operand())
            return Call(text, tuple(arguments))
        return self._operand()

    def _number(self, text: str) -> float:
        number = float(text) if "." in text else parse_int64(text)
        if number is None:
            raise self._fail(f"has a number that is too large: {text[:NUMBER_CHARS_MAX]}")
        return number

    def _operand(self) -> Expression:
        kind, text = self.next()
        value: Expression
        if kind == "string":
            value = Literal(self._unquoted(text))
        elif kind == "number":
            value = Literal(self._number(text))
        elif kind == "variable":
            value = Variable(text)
        elif kind in ("field", "joined"):
            value = Fields(Dot(), (text[1:],))
        elif kind == "word":
            value = Literal(_LITERALS[text]) if text in _LITERALS else Call(text, ())
        elif text == "(":
            value = self._pipeline()
            if self.next()[1] != ")":
                raise self._fail("( has no )")
        elif text == ".":
            value = Dot()
        else:
            raise self._fail(f"has a part that is not supported: {text or 'its end'}")
        names = []
        while self._peek()[0] == "joined":
            names.append(self.next()[1][1:])
        return Fields(value, tuple(names)) if names else value

    def _unquoted(self, text: str) -> str:
        if text.startswith("`"):
            return text[1:-1]
        try:
            value: str = json.loads(text)
        except ValueError:
            raise self._fail(f"has a text that cannot be read: {text}") from None
        return value
