"""Warnings of valid requests: deprecated fields, and values that rarely are what was meant.

kubectl prints them. They are those of kube-apiserver, in its words.

Source: the WarningsOnCreate and WarningsOnUpdate of the strategies below pkg/registry.
"""

from mooring.apiserver.warnings.kinds import (
    has_status_warnings,
    has_update_warnings,
    warnings_before,
    warnings_of,
    warnings_of_status,
)

__all__ = [
    "has_status_warnings",
    "has_update_warnings",
    "warnings_before",
    "warnings_of",
    "warnings_of_status",
]
