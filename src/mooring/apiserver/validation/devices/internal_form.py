"""Objects as kube-apiserver prints its internal types in errors: all fields, in upper case.

The internal types of resource.k8s.io have the fields of the external ones in the same order,
without names for JSON.

Source: pkg/apis/resource/types.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from mooring.objects.schema.types import Field, is_struct, structs

_NAMES: Mapping[str, str] = MappingProxyType({"cel": "CEL"})
_ZEROS: Mapping[str, Any] = MappingProxyType({"string": "", "bool": False, "int64": 0})


def internal_form(value: Mapping[str, Any], type_name: str) -> dict[str, Any]:
    """Returns a value of a struct such as "resource.ResourceClaimSpec" in its internal form.

    Example:
        >>> internal_form({"cel": {"expression": "true"}}, "resource.DeviceSelector")
        {'CEL': {'Expression': 'true'}}
    """
    form: dict[str, Any] = {}
    for name, field in structs()[type_name].items():
        if field.type_name == "meta.ObjectMeta":  # embedded, and with names for JSON
            form.update(value.get(name) or {})
            continue
        form[_NAMES.get(name, name[0].upper() + name[1:])] = _field_form(value.get(name), field)
    return form


def _field_form(value: Any, field: Field) -> Any:
    if value is None:
        return _absent(field)
    if field.is_list:
        return [_field_form(item, field.inner) for item in value] or None
    if field.is_map:
        return {key: _field_form(item, field.inner) for key, item in sorted(value.items())} or None
    return internal_form(value, field.type_name) if is_struct(field.type_name) else value


def _absent(field: Field) -> Any:
    if field.presence == "pointer" or field.is_list or field.is_map:
        return None
    if is_struct(field.type_name):
        return internal_form({}, field.type_name)
    return _ZEROS.get(field.type_name)
