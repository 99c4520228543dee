"""YAML to the byte as Kubernetes writes it. Expected texts are those of kube-scheduler v1.36.3.

They were taken from what it wrote of schedulerNames and numbers (``data/configs.jsonl.gz`` holds
the files whole).
"""

from __future__ import annotations

import pytest

from mooring.objects.files.documents import yaml_documents
from mooring.objects.files.yaml_text import yaml_text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("plain", "plain"),
        ("", '""'),
        ("yes", '"yes"'),
        ("~", '"~"'),
        ("1e3", '"1e3"'),
        ("0x1F", '"0x1F"'),
        ("12:30", '"12:30"'),
        ("2026-01-02", '"2026-01-02"'),
        ("a: b", "'a: b'"),
        (" x ", "' x '"),
        ('it\'s "x"', 'it\'s "x"'),
        ("#x", "'#x'"),
        (50.0, "50"),
        (-1.0, "-1"),
        (0.1, "0.1"),
        (1234567.5, "1.2345675e+06"),
        (1e30, "1e+30"),
        (1e-07, "1e-07"),
        (7, "7"),
        (True, "true"),
        ([], "[]"),
        ({}, "{}"),
    ],
)
def test_scalars(value: object, expected: str) -> None:
    assert yaml_text({"a": value}) == f"a: {expected}\n"


def test_lists_are_not_indented_and_keys_are_sorted() -> None:
    assert yaml_text({"b": [{"z": 1, "y": ["p"]}], "a": None}) == (
        'a: null\nb:\n- "y":\n  - p\n  z: 1\n'
    )


def test_the_same_list_twice_is_written_twice() -> None:
    shared = ["x"]
    assert "&" not in yaml_text({"a": shared, "b": shared})


def test_our_reader_reads_it_back() -> None:
    value = {"text": ["on", "1", "a\nb\n", "ü", "- x"], "number": [1, 2.5], "none": None}
    ((_, found),) = yaml_documents(yaml_text(value))
    assert found == value
