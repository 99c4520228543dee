"""Parses an expression into a syntax tree, and expands macros.

A recursive descent, one method for each rule of the grammar. After an error it recovers as
ANTLR's generated parsers do (delete a token, insert one, or skip to one that may follow), so that
problems and their texts are kube-scheduler's.

Source: cel-go v0.26.0, parser/parser.go and parser/gen/CEL.g4; antlr4-go v4.13,
error_strategy.go.
Differs: where several errors stand together, ANTLR's lookahead can report fewer or other ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mooring.cel.environment import Environment
from mooring.cel.syntax.primaries import (
    EXPR_START,
    MAX_DEPTH,
    MEMBER_START,
    NAMES,
    OPT_EXPR_START,
    PrimaryParser,
)
from mooring.cel.syntax.source import NO_LOCATION, Problems, Source
from mooring.cel.syntax.token_stream import Giveup
from mooring.cel.syntax.tokens import Kind, Token
from mooring.cel.syntax.tree import (
    Invalid,
    Literal,
    Node,
    Select,
)

if TYPE_CHECKING:
    pass

_RELATIONS: Final = {
    Kind.EQUALS: "_==_",
    Kind.NOT_EQUALS: "_!=_",
    Kind.IN: "@in",
    Kind.LESS: "_<_",
    Kind.LESS_EQUALS: "_<=_",
    Kind.GREATER_EQUALS: "_>=_",
    Kind.GREATER: "_>_",
}
_PRODUCTS: Final = {Kind.STAR: "_*_", Kind.SLASH: "_/_", Kind.PERCENT: "_%_"}
_SUMS: Final = {Kind.PLUS: "_+_", Kind.MINUS: "_-_"}
_AFTER_MEMBER: Final = frozenset({Kind.DOT, Kind.LBRACKET})


def parse(
    source: Source, problems: Problems, environment: Environment = Environment.SELECTOR
) -> Node:
    """Returns the syntax tree of an expression; adds what is wrong with it to ``problems``.

    Args:
        source: The text.
        problems: Problems are added.
        environment: What the expression is for.

    Complexity: linear in the number of tokens.
    """
    try:
        root = _Parser(source, problems, environment).start()
    except Giveup as giveup:
        if giveup.message:
            problems.add(NO_LOCATION, giveup.message)
        return Invalid(0, 0)
    if root.height > MAX_DEPTH:
        problems.add(NO_LOCATION, "max recursion depth exceeded")
    return root


class _Parser(PrimaryParser):
    """Rules of operators and members."""

    def start(self) -> Node:
        tokens = self._tokens
        root = tokens.rule("start", frozenset(), self._start_body, self._invalid)
        assert isinstance(root, Node)
        return root

    def _start_body(self) -> Node:
        root = self._expr({Kind.EOF})
        self._tokens.match(Kind.EOF)
        return root

    # ------------------------------------------------------------ operators

    def _expr(self, follow: set[Kind]) -> Node:
        return self._rule("expr", follow, self._expr_body)

    def _expr_body(self) -> Node:
        tokens = self._tokens
        condition = self._logical({Kind.QUESTION}, Kind.OR)
        if tokens.current.kind is not Kind.QUESTION:
            return condition
        operator = tokens.match(Kind.QUESTION)
        if_true = self._logical({Kind.COLON}, Kind.OR)
        tokens.match(Kind.COLON, EXPR_START)
        if_false = self._expr(set())
        return self._call(operator, "_?_:_", [condition, if_true, if_false], counts=True)

    def _logical(self, follow: set[Kind], kind: Kind) -> Node:
        """Parses a chain of ``||``, or of ``&&``."""
        name = "conditionalOr" if kind is Kind.OR else "conditionalAnd"

        def body() -> Node:
            terms = [self._logical_operand(kind)]
            operators: list[Token] = []
            while self._tokens.current.kind is kind:
                operators.append(self._tokens.match(kind))
                terms.append(self._logical_operand(kind))
            function = "_||_" if kind is Kind.OR else "_&&_"
            return self._balanced(function, terms, operators, 0, len(operators) - 1)

        return self._rule(name, follow, body)

    def _logical_operand(self, kind: Kind) -> Node:
        if kind is Kind.OR:
            return self._logical({Kind.OR}, Kind.AND)
        return self._relation({Kind.AND})

    def _balanced(
        self, function: str, terms: list[Node], operators: list[Token], low: int, high: int
    ) -> Node:
        """Returns a balanced tree of a chain: it nests as little as possible."""
        if not operators:
            return terms[0]
        middle = (low + high + 1) // 2
        left = (
            terms[middle]
            if middle == low
            else self._balanced(function, terms, operators, low, middle - 1)
        )
        right = (
            terms[middle + 1]
            if middle == high
            else self._balanced(function, terms, operators, middle + 1, high)
        )
        return self._call(operators[middle], function, [left, right], counts=False)

    def _relation(self, follow: set[Kind]) -> Node:
        return self._rule("relation", follow, lambda: self._relation_chain(once=False))

    def _relation_chain(self, *, once: bool) -> Node:
        left = self._calc(set(_RELATIONS), 1)
        if once:
            return left
        while self._tokens.current.kind in _RELATIONS:
            operator = self._tokens.take()
            right = self._rule("relation", set(_RELATIONS), lambda: self._relation_chain(once=True))
            left = self._call(operator, _RELATIONS[operator.kind], [left, right], counts=True)
        return left

    def _calc(self, follow: set[Kind], level: int) -> Node:
        """Parses sums (``level`` 1), products (2) or an operand of them (3)."""
        return self._rule("calc", follow, lambda: self._calc_chain(level))

    def _calc_chain(self, level: int) -> Node:
        operators = _PRODUCTS | _SUMS
        left = self._rule("unary", set(operators), self._unary_body)
        while True:
            kind = self._tokens.current.kind
            if not ((kind in _PRODUCTS and level <= 2) or (kind in _SUMS and level <= 1)):
                break
            operator = self._tokens.take()
            right = self._calc(set(operators), 3 if kind in _PRODUCTS else 2)
            left = self._call(operator, operators[kind], [left, right], counts=True)
        return left

    def _unary_body(self) -> Node:
        tokens = self._tokens
        tokens.sync(EXPR_START)
        operators: list[Token] = []
        kind = tokens.current.kind
        if kind is Kind.NOT:
            while tokens.current.kind is Kind.NOT:
                operators.append(tokens.match(Kind.NOT))
                tokens.sync_loop(EXPR_START)
        elif kind is Kind.MINUS and tokens.peek(1).kind not in (Kind.INT, Kind.FLOAT):
            # One minus before a number belongs to the number; of several ones, none does.
            self._check_negation()
            while tokens.current.kind is Kind.MINUS:
                operators.append(tokens.match(Kind.MINUS))
        operand = self._member(set())
        if len(operators) % 2 == 0:
            return operand
        return self._call(operators[0], "!_" if kind is Kind.NOT else "-_", [operand], counts=False)

    def _check_negation(self) -> None:
        """Reports what no alternative of a negation allows after the dashes."""
        n_dashes = 1
        while self._tokens.peek(n_dashes).kind is Kind.MINUS:
            n_dashes += 1
        ahead = self._tokens.peek(n_dashes)
        if ahead.kind not in MEMBER_START:
            self._tokens.no_viable_alternative(self._tokens.current, ahead)

    # ------------------------------------------------------------ members

    def _member(self, follow: set[Kind]) -> Node:
        return self._rule("member", follow, self._member_body)

    def _member_body(self) -> Node:
        tokens = self._tokens
        node = self._rule("primary", _AFTER_MEMBER, self._primary_body)
        while tokens.current.kind in _AFTER_MEMBER:
            node = (
                self._index(node)
                if tokens.current.kind is Kind.LBRACKET
                else self._select_or_call(node)
            )
        return node

    def _select_or_call(self, operand: Node) -> Node:
        tokens = self._tokens
        self._check_selection()
        dot = tokens.match(Kind.DOT)
        is_optional = tokens.skip(Kind.QUESTION)
        is_call = tokens.peek(1).kind is Kind.LPAREN and tokens.current.kind is Kind.IDENTIFIER
        if is_call and not is_optional:
            return self._method(operand)
        offset = tokens.current.offset
        name = tokens.rule("escapeIdent", _AFTER_MEMBER, self._field_name, lambda: None)
        if name is None:
            self._report(offset, "unsupported ident kind")
            return Invalid(self._nodes.next_id(), offset, height=operand.height + 1)
        if name.kind is Kind.ESC_IDENTIFIER:
            self._report(name.offset, "unsupported syntax: '`'")
        if is_optional:
            field = Literal(self._nodes.next_id(), name.offset, name.text)
            return self._call(dot, "_?._", [operand, field], counts=True)
        return Select(
            self._nodes.next_id(), dot.offset, operand, name.text, height=operand.height + 1
        )

    def _field_name(self) -> Token | None:
        if self._tokens.current.kind not in NAMES:
            self._tokens.mismatch(NAMES)
        return self._tokens.take()

    def _check_selection(self) -> None:
        """Reports what no alternative of a selection allows after the dot."""
        tokens = self._tokens
        ahead = tokens.peek(1)
        if ahead.kind is Kind.QUESTION:
            return
        if ahead.kind not in NAMES:
            tokens.no_viable_alternative(tokens.current, ahead)

    def _method(self, target: Node) -> Node:
        tokens = self._tokens
        name = tokens.match(Kind.IDENTIFIER)
        opening = tokens.match(Kind.LPAREN)
        args = self._arguments()
        tokens.match(Kind.RPAREN)
        return self._expand_or_call(opening, name.text, args, target)

    def _index(self, operand: Node) -> Node:
        tokens = self._tokens
        opening = tokens.match(Kind.LBRACKET)
        tokens.sync(OPT_EXPR_START)
        is_optional = tokens.current.kind is Kind.QUESTION
        if is_optional:
            tokens.match(Kind.QUESTION)
        index = self._expr({Kind.RBRACKET})
        tokens.match(Kind.RBRACKET)
        function = "_[?_]" if is_optional else "_[_]"
        return self._call(opening, function, [operand, index], counts=True)
