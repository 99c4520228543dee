"""Text formats of tables: ages, labels, selectors, access modes.

Source: k8s.io/apimachinery pkg/util/duration/duration.go, pkg/labels;
k8s.io/kubernetes pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mooring.apiserver.schema.times import seconds_of
from mooring.objects.types import Json
from mooring.objects.volume_claims import BETA_CLASS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NONE, UNSET, UNKNOWN = "<none>", "<unset>", "<unknown>"

_DAY_H, _YEAR_H = 24, 24 * 365
_ACCESS_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
#: Entries of a list of addresses; further ones are only counted.
_LIST_ITEMS_MAX = 3


def human_duration(duration_s: float) -> str:
    """Returns a duration with two or three significant figures.

    Example:
        >>> [human_duration(seconds) for seconds in (119, 125, 600, 7 * 3600 + 60, 8 * 86400)]
        ['119s', '2m5s', '10m', '7h1m', '8d']
    """
    seconds = math.trunc(duration_s)
    if seconds < -1:
        return "<invalid>"
    if seconds < 120:
        return f"{max(seconds, 0)}s"
    minutes, hours = seconds // 60, seconds // 3600
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 2 * _DAY_H:
        return f"{hours}h"
    if hours < 8 * _DAY_H:
        return _two(hours // 24, "d", hours % 24, "h")
    if hours < 2 * _YEAR_H:
        return f"{hours // 24}d"
    if hours < 8 * _YEAR_H:
        return _two(hours // _YEAR_H, "y", hours // 24 % 365, "d")
    return f"{hours // _YEAR_H}y"


def _two(big: int, big_unit: str, small: int, small_unit: str) -> str:
    return f"{big}{big_unit}{small}{small_unit}" if small else f"{big}{big_unit}"


def since(timestamp: str | None, now_s: float) -> str:
    """Returns the time since a timestamp, as text."""
    try:
        return human_duration(now_s - seconds_of(timestamp)) if timestamp else UNKNOWN
    except ValueError:
        return UNKNOWN


def labels(pairs: Mapping[str, str] | None) -> str:
    """Returns labels as one text, sorted."""
    return ",".join(f"{key}={value}" for key, value in sorted((pairs or {}).items())) or NONE


def selector(label_selector: Json) -> str:
    """Returns a LabelSelector in kubectl's format; "" if it selects nothing or everything."""
    if not label_selector:
        return ""
    texts = [
        (key, f"{key}={value}") for key, value in (label_selector.get("matchLabels") or {}).items()
    ]
    texts += [
        (term["key"], _expression(term)) for term in label_selector.get("matchExpressions") or ()
    ]
    return ",".join(text for _, text in sorted(texts, key=lambda pair: pair[0]))


def _expression(term: Json) -> str:
    key, values = term["key"], ",".join(sorted(term.get("values") or ()))
    texts = {
        "In": f"{key} in ({values})",
        "NotIn": f"{key} notin ({values})",
        "Exists": key,
        "DoesNotExist": f"!{key}",
    }
    return str(texts.get(term.get("operator", ""), key))


def access_modes(modes: Sequence[str] | None) -> str:
    """Returns access modes, abbreviated, in a fixed order."""
    return ",".join(short for mode, short in _ACCESS_MODES.items() if mode in (modes or ()))


def volume_class(obj: Json, _now_s: float) -> str:
    """Returns the storage class of a volume or a claim, from its beta annotation or its field."""
    annotations = obj["metadata"].get("annotations") or {}
    beta_class = annotations.get(BETA_CLASS)
    if beta_class is not None:
        return str(beta_class)
    return str((obj.get("spec") or {}).get("storageClassName") or "")


def first_few(texts: Sequence[str], empty: str) -> str:
    """Returns the first three texts and the number of the others."""
    first = ",".join(texts[:_LIST_ITEMS_MAX])
    if len(texts) > _LIST_ITEMS_MAX:
        return f"{first} + {len(texts) - _LIST_ITEMS_MAX} more..."
    return first or empty
