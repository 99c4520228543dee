"""Functions of the expressions that make patches.

Source: apiserver v0.36.3, pkg/cel/library/jsonpatch.go.
"""

from __future__ import annotations

from typing import Final

from mooring.cel.declarations import Function, Overload, function
from mooring.cel.types import STRING


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


LIBRARY: Final[dict[str, Function | list[Overload]]] = {
    "jsonpatch.escapeKey": [
        function("string_jsonpatch_escapeKey_string", (STRING,), STRING, _escape)
    ]
}
