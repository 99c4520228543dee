"""JSON paths of selectable fields and the scale subresource; printer columns: ``jsonpath``.

Child names, ``['name']``, indexes, ``[*]`` and filters such as ``[?(@.type=="Ready")]`` are read.

Source: k8s.io/client-go util/jsonpath.
"""

from __future__ import annotations

import re
from typing import Any

from mooring.objects.text_cache import text_cache

#: One step: a name, an index, "*", or a filter as (path, value).
Step = str | int | tuple[str, str]
_ALL = "*"
_CACHE_SIZE = 512
#: Longer paths are parsed each time.
_CACHED_CHARS_MAX = 1024
_STEP = re.compile(
    r"""\.(?P<name>(?:[^.\[\]\\]|\\.)+)
    |\[['"](?P<quoted>[^'"]+)['"]\]
    |\[(?P<index>-?[0-9]{1,18})\]
    |(?P<all>\[\*\])
    |\[\?\(@\.?(?P<path>[^=<>!]*?)\s*==\s*(?P<value>[^)]*)\)\]
    """,
    re.VERBOSE,
)


@text_cache(_CACHE_SIZE, chars_max=_CACHED_CHARS_MAX)
def parse_path(text: str) -> tuple[Step, ...] | None:
    """Returns the steps of a path; None if it cannot be read.

    Example:
        >>> parse_path('.status.conditions[?(@.type=="Ready")].status')
        ('status', 'conditions', ('type', 'Ready'), 'status')
    """
    text = text.removeprefix("$")
    steps: list[Step] = []
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            return None
        position = match.end()
        if match["name"] or match["quoted"]:
            name = (match["name"] or match["quoted"]).replace("\\", "")
            steps.append(name)
        elif match["index"]:
            steps.append(int(match["index"]))
        elif match["all"]:
            steps.append(_ALL)
        else:
            steps.append((match["path"].strip(), match["value"].strip().strip("'\"")))
    return tuple(steps)


def find(obj: Any, text: str) -> list[Any]:
    """Returns the values at a path; none if a part is absent."""
    values = [obj]
    for step in parse_path(text) or (None,):
        values = [item for value in values for item in _below(value, step)]
    return values


def _below(value: Any, step: Step | None) -> list[Any]:
    if isinstance(value, dict):
        if step == _ALL:
            return list(value.values())
        return [value[step]] if isinstance(step, str) and step in value else []
    if not isinstance(value, list):
        return []
    if step == _ALL:
        return value
    if isinstance(step, int):
        return [value[step]] if -len(value) <= step < len(value) else []
    if isinstance(step, tuple):
        path, text = step
        return [item for item in value if _text(find(item, f".{path}") if path else [item]) == text]
    return []


def _text(values: list[Any]) -> str:
    value = values[0] if values else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
