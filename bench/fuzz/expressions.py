"""Mutations of CEL expressions that leave most of them expressions.

Of mutated bytes of an expression one in a hundred is still compiled. Here tokens are changed
instead: for others of their kind, for values at limits, and by operators and calls around them.
"""

from __future__ import annotations

import re
from typing import Final

from bench.fuzz.mutation import mutated
from mooring.clock import Rng

_TOKEN: Final = re.compile(
    r"""[rRbB]?"(?:\\.|[^"\\])*" | \d+\.\d+ | \d+u? | \w+ | && | \|\| | [=!<>]= | \s+ | .""",
    re.VERBOSE | re.DOTALL,
)
_OPERATORS: Final = (
    *("==", "!=", "<", "<=", ">", ">=", "&&", "||", "+", "-", "*", "/", "%", " in "),
)
_VALUES: Final = (
    *("0", "1", "-1", "1u", "0.5", "-0.0", "1e308", "9223372036854775807", "0x7f", "true", "null"),
    *("-9223372036854775808", "18446744073709551615u", '""', '"a"', '"1Gi"', '"\\u00e4"', 'b"x"'),
    *("[]", "{}", "[1, 2]", '{"a": 1}', "[[]]", "device", "device.driver", "device.attributes"),
    *('device.attributes["gpu.example.com"]', 'device.capacity["x"].memory', 'quantity("1Gi")'),
    *('semver("1.2.3")', 'duration("1h")', 'timestamp("2026-01-01T00:00:00Z")', "self", "oldSelf"),
    *('"a,b".split(",")', '"aXb".replace("X", "%s")', 'type(1)', "optional.none()", "int"),
    *('url("https://a/b?c")', 'ip("1.2.3.4")', 'cidr("10.0.0.0/8")', '"(a+)+$"', "dyn(1)", "x"),
)  # fmt: skip
#: How a part becomes another expression.
_AROUND: Final = (
    *("({})", "!{}", "-{}", "[{}]", '{{"a": {}}}', "size({})", "has({})", "string({})", "int({})"),
    *("double({})", "uint({})", "dyn({})", "type({})", "bytes({})", "duration({})"),
    *("timestamp({})", "{}.size()", "{}.isSorted()", "{}.sum()", "{}.min()"),
    *("{}.a", "{}[0]", '{}["a"]', '{}.matches("^a")', '{}.startsWith("a")'),
    *("{}.exists(i, i == 1)", "{}.all(i, i != 1)", "{}.map(i, i + 1)", "{}.filter(i, i > 0)"),
    *("{}.exists_one(i, true)", "{}.map(i, [i, i])", "{}.map(i, i, i)", "{} ? 1 : 2"),
    *("cel.bind(x, {}, x)", "quantity({})", "semver({})", "true ? {} : 0"),
    *("{}.orValue(1)", "{}.?a", "{}[?0]", "optional.of({})", "{}.lowerAscii()", "{}.find('a')"),
    *("{}.join()", "{}.compareTo(quantity('1'))", "{}.asInteger()", "sets.contains({}, [1])"),
)  # fmt: skip
_OPEN: Final = {"(": ")", "[": "]", "{": "}"}
_BYTES: Final = 0.2
_TOKENS_MAX: Final = 400
#: How often the result may have any type; that of a selector is a boolean.
_ANY_TYPE: Final = 0.4


def mutated_expression(rng: Rng, corpus: list[bytes]) -> bytes:
    """Returns a mutation of one of the expressions: of its tokens, or of its bytes."""
    if rng.random() < _BYTES:
        return mutated(rng, corpus)
    texts = [data.decode("utf-8", "replace") for data in corpus]
    text = mutated_text(rng, rng.choice(texts), texts)
    if rng.random() < _ANY_TYPE:
        text = f"type({text}) != type"
    return text.encode("utf-8", "replace")


def mutated_text(rng: Rng, text: str, others: list[str]) -> str:
    """Returns an expression with some tokens changed; the new ones may be of ``others``."""
    tokens = _TOKEN.findall(text)
    for _ in range(rng.randrange(1, 4)):
        _change(rng, tokens, others)
        del tokens[_TOKENS_MAX:]
    return "".join(tokens)


def _change(rng: Rng, tokens: list[str], others: list[str]) -> None:
    if not tokens:
        tokens.append(rng.choice(_VALUES))
    start = rng.randrange(len(tokens))
    end = _end(tokens, start)
    match rng.randrange(9):
        case 0 | 1:
            other = _TOKEN.findall(rng.choice(others))
            same = [token for token in other if _kind(token) == _kind(tokens[start])]
            if same:
                tokens[start] = rng.choice(same)
        case 2 | 3:
            tokens[start:end] = [rng.choice(_VALUES)]
        case 4:
            text = rng.choice(_AROUND).format("".join(tokens[start:end]))
            tokens[start:end] = _TOKEN.findall(text)
        case 5:
            text = rng.choice(_AROUND).format("".join(tokens))
            tokens[:] = _TOKEN.findall(text)
        case 6:
            tokens += [rng.choice(_OPERATORS), *_TOKEN.findall(rng.choice((*others, *_VALUES)))]
        case 7:
            del tokens[start:end]
        case _:
            if _kind(tokens[start]) == "operator":
                tokens[start] = rng.choice(_OPERATORS)
            else:
                tokens[end:end] = [rng.choice(_OPERATORS), *tokens[start:end]]


def _end(tokens: list[str], start: int) -> int:
    """Returns where the part that begins at a token ends: after its closing bracket."""
    closing, depth = _OPEN.get(tokens[start]), 0
    if closing is None:
        return start + 1
    for at in range(start, len(tokens)):
        depth += (tokens[at] == tokens[start]) - (tokens[at] == closing)
        if not depth:
            return at + 1
    return start + 1


def _kind(token: str) -> str:
    if token.strip() in _OPERATORS:
        return "operator"
    if token[-1] == '"' or token[0].isdigit():
        return "literal"
    return "name" if token[0].isalpha() else token
