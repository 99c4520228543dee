"""Anchors, aliases and merge keys of YAML files, and JSON objects one after another.

The reference for values is PyYAML's own loader, which resolves all three, and ``json``.
"""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mooring.errors import ConfigError
from mooring.objects.files.documents import (
    aliased_max_of,
    is_json_stream,
    json_documents,
    lines_of,
    yaml_documents,
)
from mooring.objects.files.sources import iter_values

FILES_OF_PEOPLE = [
    "a: &a {x: 1, w: [2, 3]}\nb: *a\nc: [*a, *a]\n",
    "base: &base\n  cpu: 1\n  memory: 2Gi\nsmall:\n  <<: *base\nbig:\n  <<: *base\n  cpu: 8\n",
    "a: &a {x: 1}\nb: &b {x: 2, w: 3}\nc:\n  <<: [*a, *b]\n  z: 4\n",
    "c: {<<: {a: 1, b: {c: 2}}, b: 3}\n",
    "- &one {name: c, image: i}\n- <<: *one\n  name: d\n- <<: [*one, {more: true}]\n",
    "a: &a {b: &b {c: 1}}\nd:\n  <<: *a\n  e: *b\nf: {<<: *b}\n",
    "a: &s text\nb: *s\n",
    "a: &a 1\n---\na: &a 2\nb: *a\n",
]


def values(text: str) -> list[Any]:
    return [document.value for document in yaml_documents(text, aliased_max=aliased_max_of(text))]


@pytest.mark.parametrize("text", FILES_OF_PEOPLE)
def test_aliases_and_merge_keys_mean_what_they_mean_elsewhere(text: str) -> None:
    assert values(text) == list(yaml.safe_load_all(text))


def test_copies_are_independent() -> None:
    (value,) = values("a: &a {x: [1]}\nb: *a\nc: {<<: *a}\n")
    value["a"]["x"].append(2)
    assert value["b"] == value["c"] == {"x": [1]}


@pytest.mark.parametrize(
    ("text", "line", "path", "problem"),
    [
        ("a: *b\n", 1, "a", "no such anchor"),
        ("a: &a [1, *a]\n", 1, "a[1]", "in its own value"),
        ("a: 1\n<<: 3\n", 2, None, "needs a mapping or a list of mappings"),
        ("x:\n  <<: [1]\n", 2, "x", "needs a mapping or a list of mappings"),
        ("x: {w: 1, <<: {w: 2}}\n", 1, "x", "must stand after the merge key that also has it"),
        ("x:\n  <<: {a: 1}\n  <<: {b: 1}\n", 3, "x.<<", "duplicate key"),
        ("a: &a b\n*a : 1\n", 2, None, "YAML aliases are not supported"),
        ("name: {{ .Values.name }}\n", 1, "name", "helm template renders a chart"),
        ("a: &a !!set {b}\n", 1, "a", "YAML tags are not supported"),
    ],
)
def test_what_has_no_clear_meaning_is_refused_with_its_place(
    text: str, line: int, path: str | None, problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        values(text)
    assert (caught.value.line, caught.value.path) == (line, path)


def test_without_permission_they_are_errors() -> None:
    for text in ("a: &a 1\n", "a: *a\n", "<<: {a: 1}\n"):
        with pytest.raises(ConfigError, match="are not supported"):
            list(yaml_documents(text))


def test_a_file_cannot_stand_for_much_more_than_its_size() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(ConfigError, match="aliases stand for more than 10000 values"):
        values("\n".join(lines))
    merged = ["a0: &a0 {" + ", ".join(f"k{n}: [x, x, x]" for n in range(500)) + "}"]
    merged += [f"b{n}: {{<<: *a0}}" for n in range(500)]
    text = "\n".join(merged)
    with pytest.raises(ConfigError, match=f"aliases stand for more than {len(text)} values"):
        values(text)


def test_a_manifest_of_many_equal_containers_is_read(tmp_path: Path) -> None:
    """Aliases may stand for as many values as a file has bytes, so long lists of pods work."""
    pods = [
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p{n}}}\nspec:\n  containers:\n"
        "  - &c {name: c, image: i, resources: {requests: {cpu: 1, memory: 1Gi}}}\n"
        "  - {<<: *c, name: d}\n"
        for n in range(2000)
    ]
    file = tmp_path / "pods.yaml"
    file.write_text("---\n".join(pods))
    found = [raw["spec"]["containers"][1] for _, raw in iter_values([file])]
    assert len(found) == 2000
    assert found[0] == {
        "name": "d",
        "image": "i",
        "resources": {"requests": {"cpu": 1, "memory": "1Gi"}},
    }


# ---- streams of JSON ----

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}


@given(st.lists(st.dictionaries(st.text(max_size=3), st.integers() | st.text(), max_size=3)))
def test_a_stream_gives_its_objects_with_any_space_between(objects: list[dict[str, Any]]) -> None:
    for separator in ("", "\n", " \r\n\t"):
        text = separator.join(json.dumps(value) for value in objects)
        assert [document.value for document in json_documents(text)] == objects
        assert is_json_stream(text) == (len(objects) > 1)


@pytest.mark.parametrize("name", ["pods.json", "pods.yaml", "pods"])
def test_kubectl_prints_objects_one_after_another(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_text("\n".join(json.dumps(POD, indent=4) for _ in range(3)) + "\n")
    found = list(iter_values([file]))
    assert [raw for _, raw in found] == [POD, POD, POD]
    assert [source.document for source, _ in found] == [1, 2, 3]


@pytest.mark.parametrize(
    ("second", "problem", "line"),
    [
        ('{"a": 1, "a": 2}', "duplicate key", 4),
        ('{"a": }', "is not JSON", 4),
        ('{"a": NaN}', "not a number that Kubernetes knows", 4),
        ('{\n"a": ' + "[" * 100_000, "nests deeper", 4),
        ("]", "is not JSON", 4),
    ],
)
def test_an_error_in_a_later_object_has_its_place(
    tmp_path: Path, second: str, problem: str, line: int
) -> None:
    file = tmp_path / "pods.json"
    file.write_text(f"{json.dumps(POD)}\n\n{json.dumps(POD)}\n" + second)
    with pytest.raises(ConfigError, match=problem) as caught:
        list(iter_values([file]))
    assert caught.value.line == line


def test_a_single_value_is_not_decoded_to_see_that_it_is_no_stream() -> None:
    text = json.dumps({"items": [{"name": str(number)} for number in range(5000)]})

    tracemalloc.start()
    try:
        assert not is_json_stream(text)
        allocated = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert allocated < len(text) / 10


def test_objects_after_another_in_a_string_are_no_stream() -> None:
    assert not is_json_stream('{"a": "{} {}"}')
    assert is_json_stream('{"a": "}{"} {}')


def test_places_in_a_stream_have_lines() -> None:
    text = '{\n"a": 1}\n\n{"b": {\n"c": 2}}'
    assert lines_of(text, [(1, ("a",)), (2, ("b", "c")), (2, ("x",)), (3, ())]) == [2, 5, 4, None]
