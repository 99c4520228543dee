"""Parses literals, names, calls of functions, lists, maps and messages.

Source: cel-go v0.26.0, parser/gen/CEL.g4 (rule primary) and parser/parser.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mooring.cel.environment import Environment
from mooring.cel.syntax import literals
from mooring.cel.syntax.macros import MacroError, NodeFactory, find_macro
from mooring.cel.syntax.source import Problems, Source
from mooring.cel.syntax.token_stream import ABSENT, TokenStream
from mooring.cel.syntax.tokens import Kind, Token
from mooring.cel.syntax.tree import (
    Call,
    Ident,
    Invalid,
    ListLiteral,
    Literal,
    MapEntry,
    MapLiteral,
    MessageField,
    MessageLiteral,
    Node,
)
from mooring.cel.values import Uint

if TYPE_CHECKING:
    from collections.abc import Callable

#: Rules may nest this deep, and so may operators, selections and calls.
MAX_DEPTH: Final = 250

_RESERVED: Final = frozenset(
    {
        *("as", "break", "const", "continue", "else", "false", "for", "function", "if"),
        *("import", "in", "let", "loop", "package", "namespace", "null", "return", "true"),
        *("var", "void", "while"),
    }
)
EXPR_START: Final = frozenset(
    {
        *(Kind.LBRACKET, Kind.LBRACE, Kind.LPAREN, Kind.DOT, Kind.MINUS, Kind.NOT),
        *(Kind.TRUE, Kind.FALSE, Kind.NULL, Kind.FLOAT, Kind.INT, Kind.UINT),
        *(Kind.STRING, Kind.BYTES, Kind.IDENTIFIER),
    }
)
MEMBER_START: Final = EXPR_START - {Kind.NOT}
OPT_EXPR_START: Final = EXPR_START | {Kind.QUESTION}
_LIST_END: Final = frozenset({Kind.COMMA, Kind.RBRACKET})
#: Names of fields; those with backticks are refused later.
NAMES: Final = frozenset({Kind.IDENTIFIER, Kind.ESC_IDENTIFIER})
_FIELD_START: Final = NAMES | {Kind.QUESTION}
_MAP_END: Final = frozenset({Kind.COMMA, Kind.RBRACE})


#: Longer decimal literals are out of the range of every type.
INTEGER_DIGITS_MAX: Final = 20


class PrimaryParser:
    """Rules of what operators are applied to; ``_expr`` is that of whole expressions."""

    def __init__(self, source: Source, problems: Problems, environment: Environment) -> None:
        self._environment = environment
        self._source = source
        self._problems = problems
        self._tokens = TokenStream(source, problems, MAX_DEPTH)
        self._nodes = NodeFactory()

    def _invalid(self) -> Node:
        return Invalid(self._nodes.next_id(), self._tokens.current.offset)

    def _rule(
        self, name: str, follow: set[Kind] | frozenset[Kind], body: Callable[[], Node]
    ) -> Node:
        return self._tokens.rule(name, follow, body, self._invalid)

    def _expr(self, follow: set[Kind]) -> Node:
        """Parses an expression."""
        raise NotImplementedError

    def _arguments(self) -> list[Node]:
        """Parses arguments up to the closing parenthesis, which stays."""
        self._tokens.sync(EXPR_START | {Kind.RPAREN})
        if self._tokens.current.kind not in EXPR_START:
            return []
        args: list[Node] = []

        def body() -> Node:
            args.append(self._expr({Kind.COMMA}))
            while self._tokens.current.kind is Kind.COMMA:
                self._tokens.match(Kind.COMMA)
                args.append(self._expr({Kind.COMMA}))
            return args[0]

        self._rule("exprList", {Kind.RPAREN}, body)
        return args

    # ------------------------------------------------------------ primaries

    def _primary_body(self) -> Node:
        tokens = self._tokens
        tokens.sync(MEMBER_START)
        kind = tokens.current.kind
        if kind is Kind.LPAREN:
            tokens.match(Kind.LPAREN)
            nested = self._expr({Kind.RPAREN})
            tokens.match(Kind.RPAREN)
            return nested
        if kind is Kind.LBRACKET:
            return self._list()
        if kind is Kind.LBRACE:
            return self._map()
        if kind in (Kind.IDENTIFIER, Kind.DOT):
            return self._name()
        if kind not in MEMBER_START:
            tokens.mismatch(MEMBER_START)
        return self._literal()

    def _name(self) -> Node:
        tokens = self._tokens
        start = tokens.current
        if start.kind is Kind.DOT and tokens.peek(1).kind is not Kind.IDENTIFIER:
            tokens.no_viable_alternative(start, tokens.peek(1))
        prefix = tokens.match(Kind.DOT).text if start.kind is Kind.DOT else ""
        if self._is_message():
            return self._message(prefix)
        name = tokens.match(Kind.IDENTIFIER)
        is_reserved = name.text in _RESERVED
        if is_reserved:
            self._report(start.offset, f"reserved identifier: {name.text}")
        if tokens.current.kind is Kind.LPAREN:
            opening = tokens.match(Kind.LPAREN)
            args = self._arguments()
            tokens.match(Kind.RPAREN)
            if is_reserved:
                return self._invalid()
            return self._expand_or_call(opening, prefix + name.text, args, None)
        if is_reserved:
            return self._invalid()
        return Ident(self._nodes.next_id(), name.offset, prefix + name.text)

    def _is_message(self) -> bool:
        """Returns whether names and dots lead to a brace: a message literal."""
        ahead = 1
        while self._tokens.peek(ahead).kind is Kind.DOT:
            if self._tokens.peek(ahead + 1).kind is not Kind.IDENTIFIER:
                return False
            ahead += 2
        return self._tokens.peek(ahead).kind is Kind.LBRACE

    def _message(self, name: str) -> Node:
        tokens = self._tokens
        name += tokens.match(Kind.IDENTIFIER).text
        while tokens.current.kind is Kind.DOT:
            tokens.match(Kind.DOT)
            name += "." + tokens.match(Kind.IDENTIFIER).text
        opening = tokens.match(Kind.LBRACE)
        fields: list[MessageField] = []
        tokens.sync(_FIELD_START | _MAP_END)
        while tokens.current.kind in _FIELD_START:
            is_optional = tokens.skip(Kind.QUESTION)
            field = tokens.match(Kind.IDENTIFIER)
            colon = tokens.match(Kind.COLON, EXPR_START)
            value = self._expr({Kind.COMMA, Kind.RBRACE})
            part = MessageField(self._nodes.next_id(), colon.offset, field.text, value, is_optional)
            fields.append(part)
            if not tokens.skip(Kind.COMMA):
                break
        tokens.match(Kind.RBRACE)
        height = max((part.value.height for part in fields), default=0)
        return MessageLiteral(self._nodes.next_id(), opening.offset, name, fields, height=height)

    def _list(self) -> Node:
        tokens = self._tokens
        opening = tokens.match(Kind.LBRACKET)
        elements: list[Node] = []
        optional: set[int] = set()
        tokens.sync(OPT_EXPR_START | _LIST_END)
        while tokens.current.kind in OPT_EXPR_START:
            if tokens.current.kind is Kind.QUESTION:
                tokens.match(Kind.QUESTION)
                optional.add(len(elements))
            elements.append(self._expr({Kind.COMMA, Kind.RBRACKET}))
            tokens.sync(_LIST_END)
            if tokens.current.kind is not Kind.COMMA:
                break
            tokens.match(Kind.COMMA)
        if not elements and tokens.current.kind is Kind.COMMA:
            tokens.match(Kind.COMMA)
        tokens.match(Kind.RBRACKET)
        return ListLiteral(
            self._nodes.next_id(),
            opening.offset,
            elements,
            frozenset(optional),
            height=max((element.height for element in elements), default=0),
        )

    def _map(self) -> Node:
        tokens = self._tokens
        opening = tokens.match(Kind.LBRACE)
        entries: list[MapEntry] = []
        tokens.sync(OPT_EXPR_START | _MAP_END)
        while tokens.current.kind in OPT_EXPR_START:
            entries.append(self._map_entry())
            tokens.sync(_MAP_END)
            if tokens.current.kind is not Kind.COMMA:
                break
            tokens.match(Kind.COMMA)
        if not entries and tokens.current.kind is Kind.COMMA:
            tokens.match(Kind.COMMA)
        tokens.match(Kind.RBRACE)
        return MapLiteral(
            self._nodes.next_id(),
            opening.offset,
            entries,
            height=max((entry.height for entry in entries), default=0),
        )

    def _map_entry(self) -> MapEntry:
        tokens = self._tokens
        is_optional = tokens.current.kind is Kind.QUESTION
        if is_optional:
            tokens.match(Kind.QUESTION)
        key = self._expr({Kind.COLON})
        colon = tokens.match(Kind.COLON, EXPR_START)
        value = self._expr({Kind.COMMA, Kind.RBRACE})
        height = max(key.height, value.height)
        return MapEntry(self._nodes.next_id(), colon.offset, key, value, is_optional, height=height)

    def _literal(self) -> Node:
        tokens = self._tokens
        start = tokens.current
        if start.kind is Kind.MINUS and tokens.peek(1).kind not in (Kind.INT, Kind.FLOAT):
            tokens.no_viable_alternative(start, tokens.peek(1))
        sign = "-" if tokens.skip(Kind.MINUS) else ""
        token = tokens.take()
        value = self._literal_value(token, sign, start.offset)
        if value is ABSENT:
            return Invalid(self._nodes.next_id(), start.offset)
        return Literal(self._nodes.next_id(), start.offset, value)

    def _literal_value(self, token: Token, sign: str, offset: int) -> object:
        text = token.text
        match token.kind:
            case Kind.INT:
                number = _integer(sign, text)
                if -(2**63) <= number < 2**63:
                    return number
                return self._report(offset, "invalid int literal")
            case Kind.UINT:
                number = _integer("", text[:-1])
                if number < 2**64:
                    return Uint(number)
                return self._report(offset, "invalid uint literal")
            case Kind.FLOAT:
                amount = float(sign + text)
                if amount not in (float("inf"), float("-inf")):
                    return amount
                return self._report(offset, "invalid double literal")
            case Kind.STRING | Kind.BYTES:
                return self._quoted(token, offset)
        return {Kind.TRUE: True, Kind.FALSE: False, Kind.NULL: None}[token.kind]

    def _quoted(self, token: Token, offset: int) -> object:
        try:
            if token.kind is Kind.STRING:
                return literals.unquote_string(token.text)
            return literals.unquote_bytes(token.text[1:])
        except literals.EscapeError as error:
            return self._report(offset, str(error))

    # ------------------------------------------------------------ nodes

    def _report(self, offset: int, message: str) -> object:
        self._problems.add(self._source.location(offset), message)
        return ABSENT

    def _call(self, token: Token, function: str, args: list[Node], *, counts: bool) -> Call:
        """Returns a call; ``counts`` is True for nodes that upstream's depth limit counts."""
        height = max(arg.height for arg in args) + counts
        return Call(self._nodes.next_id(), token.offset, function, args, height=height)

    def _expand_or_call(
        self, opening: Token, function: str, args: list[Node], target: Node | None
    ) -> Node:
        height = max((arg.height for arg in args), default=0)
        if target is not None:
            height = max(height, target.height) + 1
        expand = find_macro(function, len(args), self._environment, is_method=target is not None)
        if expand is not None:
            try:
                node = expand(self._nodes.at(opening.offset), target, args)
            except MacroError as error:
                self._report(error.offset, error.message)
                return Invalid(self._nodes.next_id(), error.offset, height=height)
            if node is not None:
                node.height = height
                return node
        return Call(self._nodes.next_id(), opening.offset, function, args, target, height=height)


def _integer(sign: str, text: str) -> int:
    """Returns the value of an integer literal; of one with too many digits a value out of range."""
    if text[:2] == "0x":
        return int(sign + text[2:], 16)
    digits = text.lstrip("0") or "0"
    # Python refuses to convert some thousands of digits.
    return int(sign + digits) if len(digits) <= INTEGER_DIGITS_MAX else 1 << 64
