"""Normalizes the responses of two API servers: UIDs, versions and times become placeholders."""

from __future__ import annotations

import json
import re
from typing import Any

_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_MESSAGE_VERSION = re.compile(r"(in object meta: |in record \()(\d+)\b")
_GENERATED = re.compile(r"(ge-|A_)[bcdfghjklmnpqrstvwxz2456789]{5}")
#: Times that requests of the scenarios contain.
_FIXED_YEARS = ("2026-01-01T", "2020-01-01T")
Answer = dict[str, Any]


class Normalizer:
    """Names UIDs and versions in the order in which one scenario meets them."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._names: dict[str, str] = {}

    def answer(self, status: int, body: bytes, warning: str | None) -> Answer:
        """Returns a response without the parts that differ between servers."""
        text = body.decode().replace(self._namespace, "NS")
        try:
            content = json.loads(text)
        except ValueError:
            content = text
        return {"status": status, "warning": warning or "", "body": self._clean(content)}

    def _clean(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            items = {name: item for name, item in value.items() if name != "managedFields"}
            if key == "metadata" and "continue" in items:
                items["continue"] = "CONTINUE"
            return {name: self._clean(item, name) for name, item in sorted(items.items())}
        if isinstance(value, list):
            cleaned = [self._clean(item) for item in value]
            return _unique(cleaned) if key == "causes" else cleaned
        return self._text(value, key) if isinstance(value, str) else value

    def _text(self, text: str, key: str) -> str:
        if key == "resourceVersion" and text.isdecimal():
            return self._named(text, "VERSION")
        text = _UID.sub(lambda match: self._named(match[0], "UID"), text)
        text = _TIME.sub(
            lambda match: match[0] if match[0].startswith(_FIXED_YEARS) else "TIME", text
        )
        text = _GENERATED.sub(r"\1NAME", text)
        return _MESSAGE_VERSION.sub(lambda match: match[1] + self._named(match[2], "VERSION"), text)

    def _named(self, value: str, kind: str) -> str:
        return self._names.setdefault(f"{kind} {value}", f"{kind}-{len(self._names)}")


def _unique(causes: list[Any]) -> list[Any]:
    """Returns the causes without duplicates: upstream runs some checks twice."""
    unique: list[Any] = []
    for cause in causes:
        if cause not in unique:
            unique.append(cause)
    return unique


def reduced(answer: Answer) -> tuple[Any, ...]:
    """Returns the parts of a response that must agree even where others differ on purpose."""
    body = answer["body"]
    return (answer["status"], body.get("reason") if isinstance(body, dict) else None)
