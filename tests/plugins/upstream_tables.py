"""The tables of kube-scheduler's own tests, read from ``data/upstream_tables.json.gz``."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mooring.framework import Status
from mooring.objects.codec.decode import convert
from mooring.objects.defaulting.admission import with_defaults
from mooring.objects.kinds import kind_named
from mooring.objects.node import Node
from mooring.objects.pod import Pod

FILE = Path(__file__).with_name("data") / "upstream_tables.json.gz"

Row = dict[str, Any]
#: Code and sorted reasons; None = nothing against it.
Told = tuple[str, list[str]] | None

CODES = {
    "UNSCHEDULABLE": "Unschedulable",
    "UNSCHEDULABLE_AND_UNRESOLVABLE": "UnschedulableAndUnresolvable",
    "ERROR": "Error",
}


@cache
def tables() -> dict[str, list[Row]]:
    """Returns list name -> rows."""
    found: dict[str, list[Row]] = json.loads(gzip.decompress(FILE.read_bytes()))
    return found


def rows(table: str, *having: str) -> list[Any]:
    """Returns the rows of a list that have these fields, as parameters of a test."""
    found = [row for row in tables()[table] if all(row.get(field) is not None for field in having)]
    return [pytest.param(row, id=row["test"]) for row in found]


def read(raw: Row | None, kind: str) -> Any:
    """Returns the object; None if there is none."""
    if raw is None:
        return None
    if kind == "Pod":
        raw = with_defaults(raw, kind_named(kind))
    return convert(raw, kind)


def read_all(raw: Iterable[Row], kind: str) -> list[Any]:
    """Returns the objects; pods without a UID get their names."""
    if kind == "Pod":
        raw = [with_uid(each) for each in raw]
    return [read(each, kind) for each in raw]


def with_uid(raw: Row) -> Row:
    metadata = raw["metadata"]
    return {**raw, "metadata": {"uid": metadata["name"], **metadata}}


def cluster(row: Row) -> list[Node | Pod]:
    """Returns the nodes of a row and the pods on them."""
    return [*read_all(row["nodes"], "Node"), *read_all(row["pods"], "Pod")]


def told(status: Status | None) -> Told:
    """Returns what a plugin said, as the tables have it."""
    return None if status is None else (CODES[status.code.name], sorted(status.reasons))


def expected(status: Row | None) -> Told:
    return None if status is None else (status["code"], status["reasons"])
