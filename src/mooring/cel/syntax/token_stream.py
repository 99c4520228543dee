"""The tokens that the parser reads, and its recovery from errors.

Source: antlr4-go v4.13, error_strategy.go; cel-go v0.26.0, parser/parser.go (limits).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

from mooring.cel.syntax.tokens import DISPLAY, Kind, Token, display, tokenize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mooring.cel.syntax.source import Problems, Source

_T = TypeVar("_T")

#: More errors than these end the parsing.
_MAX_ERRORS: Final = 100
_MAX_RECOVERIES: Final = 30
_MAX_SKIPPED: Final = 256

#: A rule that one of these follows cannot end without it.
_CLOSING: Final = frozenset({Kind.RPAREN, Kind.RBRACKET, Kind.RBRACE, Kind.COLON, Kind.EOF})

#: A value that could not be read (None is a value of the language).
ABSENT: Final = object()


class Mismatch(Exception):
    """A token that no rule allows: the innermost rule reports it and recovers."""

    def __init__(self, message: str, token: Token) -> None:
        super().__init__(message)
        self.message = message
        self.token = token


class Giveup(Exception):
    """The end of the parsing; ``message`` is empty if everything is reported already."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class TokenStream:
    """Tokens, the nesting of rules, and what may follow them."""

    def __init__(self, source: Source, problems: Problems, max_depth: int) -> None:
        self._source = source
        self._problems = problems
        self._max_depth = max_depth
        self._n_errors = 0
        self._n_recoveries = 0
        self._tokens = tokenize(source.text, self._report)
        self._position = 0
        self._depths: dict[str, int] = {}
        self._follows: list[frozenset[Kind]] = []
        self._is_recovering = False
        self._last_recovery = -1
        self.current = self._tokens[0]

    def peek(self, ahead: int) -> Token:
        """Returns the token ``ahead`` of the current one; EOF beyond the end."""
        return self._tokens[min(self._position + ahead, len(self._tokens) - 1)]

    def take(self) -> Token:
        """Returns the current token and moves on; it is known to be right."""
        token = self.current
        self._is_recovering = False
        self._advance()
        return token

    def skip(self, kind: Kind) -> bool:
        """Moves on if the current token is of a kind; returns whether it was."""
        is_there = self.current.kind is kind
        if is_there:
            self.take()
        return is_there

    def match(self, kind: Kind, after: Iterable[Kind] = ()) -> Token:
        """Returns the current token if it is of a kind; else recovers.

        Args:
            kind: The kind that must come.
            after: What may follow it, if only one kind of token can come here.

        Raises:
            Mismatch: Neither deleting nor inserting one token helps.
        """
        if self.current.kind is kind:
            return self.take()
        if kind is Kind.IDENTIFIER and self.current.kind is Kind.ESC_IDENTIFIER:
            return self.take()
        self._count_recovery()
        expected = self._expected({kind})
        if self.peek(1).kind is kind:
            self._report_unwanted(expected)
            self._advance()
            return self.take()
        follow = set(after) or self._after(kind)
        if self.current.kind in follow:
            self._error(self.current, f"missing {DISPLAY[kind]} at {self._show(self.current)}")
            return Token(kind, f"<missing {DISPLAY[kind]}>", self.current.offset)
        raise self._mismatch(expected)

    def sync(self, allowed: frozenset[Kind]) -> None:
        """Makes sure that a rule begins with an allowed token, deleting one if that helps.

        Raises:
            Mismatch: The current token and the next one are not allowed.
        """
        if self._is_recovering or self.current.kind in allowed:
            return
        if self.peek(1).kind in allowed:
            self._report_unwanted(allowed)
            self._advance()
            self._is_recovering = False
            return
        raise self._mismatch(allowed)

    def sync_loop(self, allowed: frozenset[Kind]) -> None:
        """Skips what can neither continue nor end a repetition."""
        if self._is_recovering or self.current.kind in allowed:
            return
        self._report_unwanted(allowed)
        self._skip(allowed)

    def mismatch(self, allowed: frozenset[Kind]) -> NoReturn:
        """Raises for a current token that no rule allows.

        Raises:
            Mismatch: Always.
        """
        raise self._mismatch(allowed)

    def no_viable_alternative(self, start: Token, offending: Token) -> NoReturn:
        """Raises for tokens that no alternative of a rule allows.

        Raises:
            Mismatch: Always.
        """
        end = offending.offset + (0 if offending.kind is Kind.EOF else len(offending.text))
        text = self._source.text[start.offset : end]
        message = f"no viable alternative at input '{text}'"
        if offending.kind in (Kind.TRUE, Kind.FALSE, Kind.NULL) and text == "." + offending.text:
            message = f"mismatched input '{offending.text}' expecting IDENTIFIER"
        raise Mismatch(message, offending)

    def rule(
        self,
        name: str,
        follow: Iterable[Kind],
        body: Callable[[], _T],
        replacement: Callable[[], _T],
    ) -> _T:
        """Runs a rule; after an error in it, skips to a token that may follow.

        Args:
            name: Name of the rule: each may nest ``max_depth`` deep.
            follow: Kinds of tokens that may follow in the calling rule.
            body: The rule.
            replacement: Makes the result of a rule that failed.

        Raises:
            Giveup: A limit is exceeded.
        """
        self._nest(name)
        self._follows.append(frozenset(follow))
        try:
            return body()
        except Mismatch as mismatch:
            self._error(mismatch.token, mismatch.message)
            self._recover()
            return replacement()
        finally:
            self._follows.pop()
            self._depths[name] -= 1

    def _nest(self, name: str) -> None:
        depth = self._depths.get(name, 0) + 1
        self._depths[name] = depth
        if depth > self._max_depth:
            raise Giveup(f"expression recursion limit exceeded: {self._max_depth}")

    def _advance(self) -> None:
        if self._position < len(self._tokens) - 1:
            self._position += 1
            self.current = self._tokens[self._position]

    def _after(self, kind: Kind) -> set[Kind]:
        """Returns what may follow the closing token of a rule."""
        if kind not in (Kind.RPAREN, Kind.RBRACKET, Kind.RBRACE):
            return set()
        following = {Kind.DOT, Kind.LBRACKET}
        for follow in reversed(self._follows[:-1]):
            following |= follow
            if follow & _CLOSING:
                break
        return following

    @staticmethod
    def _expected(kinds: set[Kind]) -> frozenset[Kind]:
        return frozenset(kinds)

    def _recover(self) -> None:
        self._count_recovery()
        if self._last_recovery == self._position:
            self._advance()
        self._last_recovery = self._position
        self._skip(frozenset())

    def _skip(self, allowed: frozenset[Kind]) -> None:
        """Skips tokens up to one that is allowed, or may follow a rule."""
        allowed = allowed.union(*self._follows) | {Kind.EOF}
        n_skipped = 0
        while self.current.kind not in allowed:
            if n_skipped == _MAX_SKIPPED:
                raise Giveup(f"error recovery token lookahead limit exceeded: {_MAX_SKIPPED}")
            self._advance()
            n_skipped += 1

    def _count_recovery(self) -> None:
        if self._n_recoveries == _MAX_RECOVERIES:
            message = f"error recovery attempt limit exceeded: {_MAX_RECOVERIES}"
            self._report(self.current.offset, message)
            raise Giveup("")
        self._n_recoveries += 1

    def _mismatch(self, expected: Iterable[Kind]) -> Mismatch:
        message = f"mismatched input {self._show(self.current)} expecting {_show_set(expected)}"
        return Mismatch(message, self.current)

    def _report_unwanted(self, expected: Iterable[Kind]) -> None:
        message = f"extraneous input {self._show(self.current)} expecting {_show_set(expected)}"
        self._error(self.current, message)

    def _error(self, token: Token, message: str) -> None:
        if not self._is_recovering:
            self._is_recovering = True
            self._report(token.offset, message)

    def _report(self, offset: int, message: str) -> None:
        location = self._source.location(offset)
        if not self._source.text:
            location = location._replace(column=-1)
        if self._n_errors == _MAX_ERRORS:
            self._problems.add(location, f"Syntax error: More than {_MAX_ERRORS} syntax errors")
            raise Giveup("")
        self._n_errors += 1
        self._problems.add(location, f"Syntax error: {message}")

    @staticmethod
    def _show(token: Token) -> str:
        return display(token)


def _show_set(kinds: Iterable[Kind]) -> str:
    names = [DISPLAY[kind] for kind in sorted(kinds)]
    return names[0] if len(names) == 1 else "{" + ", ".join(names) + "}"
