"""Warnings of valid requests: deprecated fields, and values that rarely are what was meant.

kubectl prints them. They are those of kube-apiserver, in its words.

Source: the WarningsOnCreate and WarningsOnUpdate of the strategies below pkg/registry.
"""

from mooring.apiserver.warnings.kinds import has_update_warnings, warnings_before, warnings_of

__all__ = ["has_update_warnings", "warnings_before", "warnings_of"]
