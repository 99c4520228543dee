"""Reads the output of Go tests, and prints a table of results."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

#: The end of a test, as in "    --- PASS: TestX/y (1.23s)".
_END = re.compile(r"^\s*--- (PASS|FAIL|SKIP): (\S+) \(([\d.]+)s\)", re.MULTILINE)
_REASON = re.compile(r"does not apply: (.*)")


class Result(NamedTuple):
    """The result of one test without subtests."""

    test: str
    outcome: str
    seconds: float


class Outcome(NamedTuple):
    """The results of a package.

    Attributes:
        results: In the order of the output.
        reasons: Why tests of the package skipped themselves.
        ended: Whether the program ran to its end: all tests have a result.
    """

    results: list[Result]
    reasons: list[str]
    ended: bool

    def count(self, outcome: str) -> int:
        """Returns the number of tests with an outcome: PASS, FAIL or SKIP."""
        return sum(result.outcome == outcome for result in self.results)


def read_output(output: str) -> Outcome:
    """Returns the results in the output of ``go test -v``; a test with subtests is not counted."""
    ends = [Result(match[2], match[1], float(match[3])) for match in _END.finditer(output)]
    parents = {name.rpartition("/")[0] for name, _, _ in ends}
    results = [result for result in ends if result.test not in parents]
    reasons = sorted(set(_REASON.findall(output)))
    ended = re.search(r"^(PASS|FAIL)$", output, re.MULTILINE) is not None
    return Outcome(results, reasons, ended)


def table(rows: Iterable[tuple[str, ...]]) -> str:
    """Returns rows as a Markdown table; the first one is the head."""
    head, *body = rows
    lines = [head, tuple("---" for _ in head), *body]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
