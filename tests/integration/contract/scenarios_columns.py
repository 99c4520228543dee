"""Columns of custom resources: any JSON path, and the cells of values of any type."""

from __future__ import annotations

from typing import Any

from tests.integration.contract.api import TABLE, Api
from tests.integration.contract.scenario import path, scenario
from tests.integration.contract.scenarios_customs import (
    GROUP,
    custom,
    definition,
    install,
    remove,
)

#: Type, and path of a column.
_COLUMNS = [
    *(("string", f".spec.free.{name}") for name in ("i", "f", "b", "big", "tiny", "html", "none")),
    *(("number", f".spec.free.{name}") for name in ("i", "whole", "f", "b", "text")),
    *(("integer", f".spec.free.{name}") for name in ("f", "i", "text")),
    *(("boolean", f".spec.free.{name}") for name in ("b", "text")),
    *(("date", f".spec.free.{name}") for name in ("date", "text", "empty", "i")),
    ("string", ".spec.tags[0]"),
    ("string", ".spec.tags[-1]"),
    ("string", ".spec.tags[5]"),
    ("string", ".spec.tags[0:1]"),
    ("string", ".spec.tags[*]"),
    ("string", ".spec.size[0]"),
    ("string", ".spec.free['text']"),
    ("string", ".spec.free.dotted\\.key"),
    ("string", ".spec.parts[?(@.count>1)].name"),
    ("string", ".spec.parts[?(@.count!=7)].name"),
    ("string", ".spec.parts[?(@.name=='a')].count"),
    ("string", ".spec.parts[?(@.count=='a')].name"),
    ("string", ".spec.parts[?(@.absent)].name"),
    ("string", ".spec.parts[?(@.count)].name"),
    ("string", ".spec.parts[0,1].name"),
    ("string", ".spec..count"),
    ("string", ".spec.parts"),
    ("string", ".spec.free.nested"),
    ("string", ".spec.absent.more"),
    ("string", "."),
    ("string", ".metadata.name"),
]


@scenario
def columns_have_any_json_path(api: Api, namespace: str) -> None:
    columns = [
        {"name": f"c{number}", "type": kind, "jsonPath": text}
        for number, (kind, text) in enumerate(_COLUMNS)
    ]
    install(api, definition("patheds", additionalPrinterColumns=columns))
    try:
        patheds = path(f"apis/{GROUP}/v1", namespace, "patheds")
        free: dict[str, Any] = {"i": 5, "whole": 3.0, "f": 1.5, "b": True, "big": 1e22}
        free |= {"tiny": 0.00001234, "html": {"a": "<&>"}, "none": None, "text": "hello"}
        free |= {"empty": "", "date": "2020-01-01T00:00:00Z", "dotted.key": "d"}
        free |= {"nested": {"b": [1], "a": 2}}
        parts = [{"name": "a"}, {"name": "b", "count": 7}]
        spec = {"size": 1, "tags": ["x", "y"], "parts": parts, "free": free}
        api.post(patheds, custom("Pathed", "a", spec))
        [row] = api.ask("GET", patheds, accept=TABLE).body["rows"]
        assert len(row["cells"]) == 1 + len(columns)
    finally:
        remove(api, "patheds")


@scenario
def columns_end_at_the_first_path_that_cannot_be_read(api: Api, namespace: str) -> None:
    paths = [".spec.size", ".spec[abc]", ".spec.color"]
    columns = [
        {"name": f"c{number}", "type": "string", "jsonPath": text}
        for number, text in enumerate(paths)
    ]
    install(api, definition("brokens", additionalPrinterColumns=columns))
    try:
        brokens = path(f"apis/{GROUP}/v1", namespace, "brokens")
        api.post(brokens, custom("Broken", "a", {"size": 1}))
        answer = api.ask("GET", brokens, accept=TABLE)
        assert [column["name"] for column in answer.body["columnDefinitions"]] == ["Name", "c0"]
    finally:
        remove(api, "brokens")
