"""YAML and JSON text to plain values: what is read, what is refused, and where."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mooring.errors import ConfigError
from mooring.objects.files.documents import (
    is_shallow,
    json_document,
    line_of,
    path_text,
    yaml_documents,
)
from mooring.objects.files.limits import DEPTH_MAX


def values(text: str | bytes) -> list[Any]:
    return [document.value for document in yaml_documents(text)]


def refusal(text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        values(text)
    return caught.value


def test_documents_are_numbered_and_empty_ones_left_out() -> None:
    text = "# nothing yet\n---\na: 1\n---\n---\n- b\n...\n"
    assert list(yaml_documents(text)) == [(1, {"a": 1}), (3, ["b"])]


def test_flow_block_and_folded_styles_give_the_same() -> None:
    assert values('{a: [x, {b: "1"}], c: ""}') == values("a:\n- x\n- b: '1'\nc: ''\n")
    assert values("a: |\n  one\n  two\nb: >\n  one\n  two\n") == [
        {"a": "one\ntwo\n", "b": "one two\n"}
    ]


def test_quoted_words_stay_strings() -> None:
    assert values("a: 'yes'\nb: \"017\"\nc: '~'\n") == [{"a": "yes", "b": "017", "c": "~"}]


def test_keys_become_strings_as_in_json() -> None:
    assert values("1: a\nyes: b\n1.5: c\n") == [{"1": "a", "true": "b", "1.5": "c"}]


def test_crlf_and_byte_order_mark_are_read() -> None:
    assert values(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n") == [{"a": 1, "b": 2}]


REFUSED = [
    ("a: 1\nb: 2\na: 3\n", 3, "a", None),
    ("x:\n  1: a\n  '1': b\n", 3, "x.1", None),
    ("x: [{k: 1, k: 2}]\n", 1, "x[0].k", None),
    ("a: &here 1\n", 1, "a", "&here"),
    ("a: *there\n", 1, "a", "*there"),
    ("- 1\n- *there\n", 2, "[1]", "*there"),
    ("*there : 1\n", 1, None, "*there"),
    ("a: !!str 1\n", 1, "a", "tag:yaml.org,2002:str"),
    ("a: !python/object:os.system x\n", 1, "a", "!python/object:os.system"),
    ("a: !!binary aGk=\n", 1, "a", "tag:yaml.org,2002:binary"),
    ("a:\n  <<: {b: 1}\n", 2, "a", None),
    ("a:\n  b: .inf\n", 2, "a.b", ".inf"),
    ("a: .nan\n", 1, "a", ".nan"),
    ("~: 1\n", 1, "~", None),
    ("? [a, b]\n: c\n", 1, None, None),
    ("? {a: b}\n: c\n", 1, None, None),
]


@pytest.mark.parametrize(("text", "line", "path", "value"), REFUSED)
def test_what_says_more_than_json_is_refused(
    text: str, line: int, path: str | None, value: Any
) -> None:
    error = refusal(text)
    assert (error.document, error.line, error.path, error.value) == (1, line, path, value)


def test_a_billion_laughs_are_refused_at_the_first() -> None:
    error = refusal("a: &a [x]\nb: [*a, *a]\n")
    assert error.line == 1


@pytest.mark.parametrize(
    ("text", "line"),
    [("a: [1, 2\n", 2), ("a: b: c\n", 1), ("a:\n\t- b\n", 2), ("---\na: 1\n---\nb: }\n", 4)],
)
def test_broken_yaml_tells_its_line(text: str, line: int) -> None:
    error = refusal(text)
    assert error.line == line
    assert error.problem.startswith("is not YAML: ")


def test_a_fault_in_the_second_document_says_so() -> None:
    error = refusal("a: 1\n---\nb: 1\nb: 2\n")
    assert (error.document, error.line) == (2, 4)


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(ConfigError, match="is not text that YAML allows"):
        values(b"a: \xff\xfe\xfa\n")
    with pytest.raises(ConfigError, match="is not text that YAML allows"):
        values("a: \x00\n")


def test_yaml_may_nest_to_the_limit_and_no_deeper() -> None:
    assert values("[" * DEPTH_MAX + "]" * DEPTH_MAX) != []
    error = refusal("[" * (DEPTH_MAX + 1) + "]" * (DEPTH_MAX + 1))
    assert "nests deeper" in error.problem
    assert error.path == "[0]" * 24  # not all 64


def test_json_may_nest_to_the_limit_and_no_deeper() -> None:
    assert json_document("[" * DEPTH_MAX + "]" * DEPTH_MAX).value != []
    for depth in (DEPTH_MAX + 1, 200_000):
        with pytest.raises(ConfigError, match="nests deeper"):
            json_document("[" * depth + "]" * depth)


def test_json_with_a_key_twice_tells_path_and_line() -> None:
    with pytest.raises(ConfigError) as caught:
        json_document('{"a": {\n "b": 1,\n "b": 2}}')
    assert (caught.value.line, caught.value.path) == (3, "a.b")


@pytest.mark.parametrize("text", ['{"a": NaN}', '{"a": Infinity}', '{"a": -1e999}'])
def test_json_with_infinite_numbers_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="not a number that Kubernetes knows"):
        json_document(text)


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999", "7" * 5000])
def test_a_refused_number_of_json_has_its_place(number: str) -> None:
    text = f'{{"a": 1,\n "items": [2.5,\n  {{"b": 1, "c.d": {number}}}, NaN]}}'
    with pytest.raises(ConfigError) as caught:
        json_document(text.encode())
    error = caught.value
    assert (error.line, error.path, error.value) == (3, "items[1][c.d]", number)


def test_a_refused_number_before_broken_json_is_named() -> None:
    with pytest.raises(ConfigError, match="not a number that Kubernetes knows, got 'NaN'"):
        json_document('{"a": NaN, b}')


def test_broken_json_tells_line_and_column() -> None:
    with pytest.raises(ConfigError) as caught:
        json_document('{"a": 1,\n  b: 2}')
    assert caught.value.line == 2
    assert "column 3" in caught.value.problem


@pytest.mark.parametrize(
    ("escapes", "text"),
    [
        (r"\ud800", "\ufffd"),
        (r"a\uDFFFb", "a\ufffdb"),
        (r"\ud83d\ude00", "\U0001f600"),
        (r"\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        (r"\\ud800", r"\ud800"),
        (r"\\\ud800", "\\\ufffd"),
    ],
)
def test_half_a_pair_of_surrogates_in_json_is_the_replacement_character(
    escapes: str, text: str
) -> None:
    assert json_document(f'{{"{escapes}": "{escapes}"}}').value == {text: text}
    assert json_document(f'["{escapes}"]'.encode()).value == [text]


def test_a_text_with_half_a_pair_of_surrogates_is_no_yaml() -> None:
    with pytest.raises(ConfigError, match="is not text that YAML allows: surrogates not allowed"):
        list(yaml_documents("a: \ud800"))


def test_json_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        json_document(b'{"a": "\xff"}')


TEXT = """\
# a comment
spec:
  containers:
  - name: a
    image: x
  - name: b

    ports: [{hostPort: 1},
            {hostPort: 2}]
---
spec: {}
"""


@pytest.mark.parametrize(
    ("number", "path", "line"),
    [
        (1, ("spec",), 2),
        (1, ("spec", "containers", 0, "image"), 5),
        (1, ("spec", "containers", 1), 6),
        (1, ("spec", "containers", 1, "name"), 6),
        (1, ("spec", "containers", 1, "ports", 1, "hostPort"), 9),
        (1, ("spec", "containers", 1, "resources"), 6),
        (1, ("status",), 2),
        (2, ("spec",), 11),
        (3, ("spec",), None),
    ],
)
def test_line_of_a_path(number: int, path: tuple[str | int, ...], line: int | None) -> None:
    assert line_of(TEXT, number, path) == line


def test_line_of_unreadable_text_is_unknown() -> None:
    assert line_of("[", 1, ("a",)) in (None, 1, 2)
    assert line_of(b"\xff", 1, ("a",)) is None


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), ""),
        (("a", 0, "b"), "a[0].b"),
        ((0, "a"), "[0].a"),
        (("limits", "nvidia.com/gpu"), "limits[nvidia.com/gpu]"),
    ],
)
def test_path_text(path: tuple[str | int, ...], text: str) -> None:
    assert path_text(path) == text


# Control and format characters have YAML rules of their own; they are not the point here.
LETTERS = st.characters(codec="utf-8", exclude_categories=("C", "Zl", "Zp"))
JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(LETTERS, max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(LETTERS, min_size=1, max_size=5), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(JSON_VALUES)
def test_what_json_wrote_reads_back(value: Any) -> None:
    assert json_document(json.dumps(value)).value == value


@given(JSON_VALUES.filter(lambda value: value is not None))
def test_what_another_yaml_writer_wrote_reads_back(value: Any) -> None:
    # PyYAML quotes by its own rules of YAML 1.1; "y" and "n" it leaves bare, which Go reads as
    # booleans, so strings are quoted throughout here.
    text = yaml.safe_dump(value, default_style='"') if _has_only_strings(value) else None
    assert values(text if text is not None else json.dumps(value, ensure_ascii=False)) == [value]


def _has_only_strings(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_has_only_strings, value.values()))
    if isinstance(value, list):
        return all(map(_has_only_strings, value))
    return isinstance(value, str)


@given(JSON_VALUES)
def test_is_shallow_agrees_with_counting_down(value: Any) -> None:
    for _ in range(DEPTH_MAX - 2):
        value = [value]
    assert is_shallow(value) == (_depth(value) <= DEPTH_MAX)


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(_depth, value), default=0)
    return 0
