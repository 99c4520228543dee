"""The changes of a module that ``bench/mutants.py`` draws from."""

from __future__ import annotations

import pytest

from bench.mutations import mutants_of


def mutants(source: str) -> set[str]:
    text = source.encode()
    return {mutant.apply(text).decode() for mutant in mutants_of(text)}


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("return a < b", {"return a <= b"}),
        ("return a not in b", {"return a in b"}),
        ("return a + 1", {"return a - 1", "return a + 2"}),
        ("return not a", {"return (a)"}),
        ("return a and b.c", {"return (a)", "return (b.c)"}),
        ("return a if b else 'x'", {"return (a)", "return ('x')"}),
        ("return min(a, b)", {"return max(a, b)"}),
        ("return True", {"return False"}),
        ("a.b = b", {"pass"}),
        ("a[b] = 'é'", {"pass"}),
        ("a += b", {"pass"}),
        ("del a[b]", {"pass"}),
        ("a.call(b)", {"pass"}),
        ("await a.call(b)", {"pass"}),
        ("return (a) < b", set()),
        ("a: int = b", set()),
        ("c = a", set()),
        ("raise ValueError(a + b)", set()),
        ("_log.info('a', extra={'b': 1})", set()),
        ("return f'{a + b}'", set()),
        ("'''A docstring.'''", set()),
    ],
)
def test_a_statement_has_these_mutants(statement: str, expected: set[str]) -> None:
    head = "async def f(a, b):" if statement.startswith("await") else "def f(a, b):"
    source = f"{head}\n    {statement}\n"
    changed = {text.removeprefix(f"{head}\n    ").removesuffix("\n") for text in mutants(source)}
    assert changed == expected


def test_a_loop_ends_where_it_went_on_and_the_other_way_round() -> None:
    source = "def f(a):\n    for b in a:\n        if b:\n            continue\n        break\n"
    assert mutants(source) == {
        source.replace("continue", "break"),
        source.replace("break", "continue"),
    }


def test_code_outside_of_functions_and_in_annotations_stays() -> None:
    source = "LIMIT = 3\nclass A:\n    b = 1\n    def f(self, c: 'x' = 4) -> 5:\n        return c\n"
    assert mutants(source) == set()


def test_places_are_counted_in_bytes() -> None:
    source = "def f(a):\n    return 'é' if a else 'ü', a == 'ö'\n"
    assert "def f(a):\n    return 'é' if a else 'ü', a != 'ö'\n" in mutants(source)


def test_each_mutant_names_its_line() -> None:
    source = b"def f(a):\n    a = [\n        1,\n        2,\n    ]\n"
    assert [mutant.line for mutant in mutants_of(source)] == [3, 4]
