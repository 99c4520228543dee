"""Validates label keys, label values and resource names.

Source: apimachinery v0.36.3, pkg/api/validate/content/kube.go and dns.go.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mooring.objects.text_cache import text_cache

NAME_LENGTH_MAX = 63
PREFIX_LENGTH_MAX = 253

_NAME = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_VALUE = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"
#: Label values, one a line.
_VALUES = re.compile(rf"{_VALUE}(?:\n{_VALUE})*")
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")

#: Keys and resource names come from a small vocabulary; a hostile one must not fill the memory.
_CACHE_SIZE = 8192


@text_cache(_CACHE_SIZE)
def label_key_problem(key: str) -> str:
    """Returns the error of a label key ("" = valid): an optional DNS prefix, "/", and a name."""
    prefix, slash, name = key.rpartition("/")
    if slash and not (len(prefix) <= PREFIX_LENGTH_MAX and _SUBDOMAIN.fullmatch(prefix)):
        return f"its prefix must be a DNS name of at most {PREFIX_LENGTH_MAX} lowercase characters"
    if len(name) > NAME_LENGTH_MAX or not _NAME.fullmatch(name):
        return (
            f"its name must have 1 to {NAME_LENGTH_MAX} letters, digits, '-', '_' or '.', "
            "with a letter or digit at both ends"
        )
    return ""


def label_value_problem(value: str) -> str:
    """Returns the error of a label value ("" = valid); the empty value is valid."""
    if value and (len(value) > NAME_LENGTH_MAX or not _NAME.fullmatch(value)):
        return (
            f"it must have at most {NAME_LENGTH_MAX} letters, digits, '-', '_' or '.', "
            "with a letter or digit at both ends"
        )
    return ""


def are_label_values(values: Sequence[str]) -> bool:
    """Returns whether all texts are label values, ten times as fast as one by one."""
    together = "\n".join(values)
    return together.count("\n") < max(1, len(values)) and bool(_VALUES.fullmatch(together))
