"""Refuses words that are not the field's: in names, docstrings, comments, messages and pages.

Three rules, for ``src``, ``tests`` and the pages under ``docs``:

- A variable is named for what it holds (``pod``, ``statuses``), not for what happened to it
  (``found``): ``NAMES``.
- Texts use the terms of Kubernetes and Python (requeue, retry, unschedulable): ``PHRASES``.
- The docstring of a function begins with a verb in the third person ("Returns the feasible nodes"),
  that of a property, a class or a module with a noun or a verb: none begins with a pronoun.

In tests, strings are data: only comments and docstrings are checked for phrases. Names are checked
in ``TEST_HELPERS``, and the docstrings of test functions and fixtures are free.

``python tools/check_words.py --count`` prints how often each rule is broken, by folder.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

#: Names of variables and parameters that say nothing about the value.
NAMES = frozenset(
    {
        *("anyone", "asked", "each", "found", "given", "gone", "held", "itself", "kept"),
        *("known", "one", "said", "seen", "shown", "told", "wanted"),
    }
)

#: Pattern -> what to write instead.
PHRASES = {
    r"nobody|no one": "name the thing that is absent",
    r"somebody|someone|anybody|anyone|everybody|everyone|whoever": "name who or what it is",
    r"tr(?:y|ied|ies|ying) again": "retry, requeue",
    r"park(?:ed|s|ing)?": "unschedulable, add to the unschedulable pods",
    r"worlds?": "hypothetical node, cluster",
    r"told|tells? of|is to be told": "report, log, message",
    r"in vain|comes? about|came about": "fails, happens",
    r"living (?:scheduler|cluster|pods?)": "running",
    r"makes? up its mind|has in mind": "nominated, chosen",
    r"goes its way|on (?:its|their) way": "is being bound, in progress",
    r"puts? up with": "tolerates",
    r"(?:is|are|was|were) held against": "is compared with",
    r"plays? dice|coins?": "random",
    r"wishe?s?": "spec, request",
    r"faces? of": "read-only view of",
    r"gives? (?:it|them|everything|all|room|back)? ?back": "release, roll back",
    r"looks? on": "watch",
}
_PHRASE = re.compile(
    r"\b(?:" + "|".join(f"(?:{pattern})" for pattern in PHRASES) + r")\b", re.IGNORECASE
)

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef

#: Code within a line of text: other people's names and messages.
_CODE = re.compile(r"``.*?``|`.*?`")

#: Names and messages of Kubernetes that contain one of the phrases.
UPSTREAM = (
    "please apply your changes to the latest version and try again",
    '"nobody"',
)

#: First words that leave open what the docstring is about.
PRONOUNS = frozenset(
    {
        *("How", "It", "Of", "That", "These", "They", "This", "Those", "What", "When", "Where"),
        *("Whether", "Which", "Who", "Whose", "Why"),
    }
)
#: Singular nouns, so not verbs in the third person.
_NOT_VERBS = frozenset(
    {
        *("Always", "As", "Class", "Its", "Less", "Plus", "Pods", "Status", "This", "Thus"),
        *("Us"),
    }
)


#: Tokens of texts; since Python 3.12 those of an f-string have types of their own.
TEXTS = (tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING))
#: The folders under ``tests`` whose names of variables are checked.
TEST_HELPERS = ("tests/faults/", "tests/helpers/")


class Finding(NamedTuple):
    """One break of a rule."""

    path: Path
    line: int
    rule: str
    text: str


def findings(path: Path, source: str) -> Iterator[Finding]:
    """Yields each break of a rule in one file, Python or Markdown."""
    if path.suffix != ".py":
        yield from _phrases(path, _prose(source))
        return
    tree = ast.parse(source, filename=str(path))
    is_test = path.parts[0] == "tests"
    if not is_test or path.as_posix().startswith(TEST_HELPERS):
        yield from _names(path, tree)
    yield from _docstrings(path, tree, is_test=is_test)
    docstrings = {node.body[0].lineno for node in _documented(tree)}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        is_text = token.type in TEXTS and (not is_test or token.start[0] in docstrings)
        if is_text or token.type == tokenize.COMMENT:
            yield from _phrases(path, enumerate(token.string.splitlines(), token.start[0]))


def suggestion(phrase: str) -> str:
    """Returns what to write instead of a phrase."""
    return next(
        term for pattern, term in PHRASES.items() if re.fullmatch(pattern, phrase, re.IGNORECASE)
    )


def _prose(page: str) -> Iterator[tuple[int, str]]:
    """Yields the lines of a page with their numbers, without fenced blocks (code, output)."""
    is_fenced = False
    for number, line in enumerate(page.splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_fenced = not is_fenced
        elif not is_fenced:
            yield number, line


def _phrases(path: Path, lines: Iterator[tuple[int, str]]) -> Iterator[Finding]:
    for number, line in lines:
        text = _CODE.sub("", line)
        for upstream in UPSTREAM:
            text = text.replace(upstream, "")
        for match in _PHRASE.finditer(text):
            yield Finding(path, number, "phrase", match.group(0).lower())


def _names(path: Path, tree: ast.AST) -> Iterator[Finding]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in NAMES:
            yield Finding(path, node.lineno, "name", node.id)
        elif isinstance(node, ast.arg) and node.arg in NAMES:
            yield Finding(path, node.lineno, "name", node.arg)


def _documented(tree: ast.AST) -> Iterator[Documented]:
    """Yields modules, classes and functions with a docstring."""
    for node in ast.walk(tree):
        if isinstance(node, Documented) and ast.get_docstring(node):
            yield node


def _docstrings(path: Path, tree: ast.AST, *, is_test: bool) -> Iterator[Finding]:
    for node in _documented(tree):
        if is_test and _is_test_function(node):
            continue
        first = (ast.get_docstring(node) or "").split()[0].rstrip(",:;.")
        line = getattr(node, "lineno", 1)
        if first in PRONOUNS:
            yield Finding(path, line, "docstring", f"begins with {first}")
        elif _needs_verb(node) and not _is_verb(first):
            yield Finding(path, line, "docstring", f"begins with {first}, not with a verb")


def _is_test_function(node: ast.AST) -> bool:
    """Returns whether a definition is a test function or a fixture."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
    return node.name.startswith("test_") or any("fixture" in text for text in decorators)


def _needs_verb(node: ast.AST) -> bool:
    """Returns whether a docstring must begin with a verb: not for properties and commands."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    decorators = {ast.unparse(decorator).split("(")[0] for decorator in node.decorator_list}
    last = {name.rsplit(".", 1)[-1] for name in decorators}
    return not last & {"property", "cached_property", "setter", "command", "group"}


def _is_verb(word: str) -> bool:
    """Returns whether a word may be a verb in the third person: "Returns", "Does"."""
    return bool(re.fullmatch(r"[A-Z][a-z-]*s|See|As", word)) and word not in _NOT_VERBS


def files(root: Path) -> Iterator[Path]:
    """Yields the files that are checked, below ``root``."""
    yield from sorted((root / "src").rglob("*.py"))
    yield from sorted((root / "tests").rglob("*.py"))
    yield from sorted((root / "docs").rglob("*.md"))
    yield from sorted(root.glob("*.md"))


def main(root: Path, arguments: list[str]) -> int:
    """Checks the tree; returns 1 if a rule is broken."""
    broken = [
        finding
        for path in files(root)
        if path.name != "CHANGELOG.md"
        for finding in findings(path.relative_to(root), path.read_text(encoding="utf-8"))
    ]
    if "--count" in arguments:
        by_folder = Counter(("/".join(finding.path.parts[:3]), finding.rule) for finding in broken)
        for (folder, rule), count in sorted(by_folder.items()):
            print(f"{count:5} {rule:10} {folder}")
        return 0
    chosen = [argument for argument in arguments if not argument.startswith("-")]
    if chosen:
        broken = [f for f in broken if any(str(f.path).startswith(prefix) for prefix in chosen)]
    for finding in broken:
        advice = f" (write: {suggestion(finding.text)})" if finding.rule == "phrase" else ""
        print(f"{finding.path}:{finding.line}: {finding.rule}: {finding.text}{advice}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent.parent, sys.argv[1:]))
