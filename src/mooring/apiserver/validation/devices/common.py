"""Rules that the kinds of resource.k8s.io share, with kube-apiserver's messages.

Source: pkg/apis/resource/validation/validation.go, k8s.io/api resource/v1/types.go (limits).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from mooring import cel
from mooring.apiserver import names
from mooring.apiserver.errors import (
    Errors,
    FieldError,
    duplicate,
    forbidden_field,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from mooring.apiserver.validation.rules import field_errors, required_value

Object = Mapping[str, Any]

SELECTORS_MAX: Final = 32
CONFIGS_MAX: Final = 32
REQUESTS_MAX: Final = 32
_EXPRESSION_BYTES_MAX: Final = 10 * 1024
_PARAMETERS_BYTES_MAX: Final = 10 * 1024
_DRIVER_LENGTH_MAX: Final = 63
_POOL_LENGTH_MAX: Final = 253
_ID_LENGTH_MAX: Final = 32
_CONDITIONS_MAX: Final = 4
_COMPILED_CACHE_SIZE: Final = 1024

EFFECTS: Final = ("NoExecute", "NoSchedule", "None")
_OPERATORS: Final = ("Equal", "Exists")
_C_IDENTIFIER: Final = "[A-Za-z_][A-Za-z0-9_]*"
_C_IDENTIFIER_PROBLEM: Final = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of "
    "alphanumeric characters or '_'"
)
_UUID: Final = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
#: Also without hyphens, in braces, and as a URN.
_UUID_LENGTHS: Final = (32, 36, 38, 45)
_UUID_PROBLEM: Final = (
    "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with "
    "lowercase hexadecimal characters"
)


def validate_items(
    items: Sequence[Any],
    field: str,
    count_max: int | None,
    validate: Callable[[Any, str], Errors],
    key: Callable[[Any], Hashable] | None = None,
) -> Iterator[FieldError]:
    """Validates a list; with ``key``, its items must differ. Too long a list is not read.

    Args:
        items: The list.
        field: Its path.
        count_max: Limit of items; None = no limit.
        validate: Validates an item at a path.
        key: Returns what must differ, as it appears in the error.
    """
    if count_max is not None and len(items) > count_max:
        yield too_many(field, len(items), count_max)
        return
    for number, item in enumerate(items):
        yield from validate(item, f"{field}[{number}]")
    earlier = set()
    for number, item in enumerate(items if key is not None else ()):
        value = key(item) if key is not None else None
        if value in earlier:
            yield duplicate(f"{field}[{number}]", value)
        earlier.add(value)


def same(item: str) -> str:
    """Returns the item: the key of a list of texts."""
    return item


def name_of(item: Object) -> str:
    """Returns the name: the key of a list of objects."""
    return str(item.get("name", ""))


def validate_driver_name(name: str, field: str) -> Errors:
    """Validates the name of a driver."""
    if not name:
        yield required(field)
        return
    if len(name) > _DRIVER_LENGTH_MAX:
        yield too_long(field, _DRIVER_LENGTH_MAX)
    yield from field_errors(field, name, lambda text: names.dns_subdomain(text.lower()))


def validate_pool_name(name: str, field: str) -> Errors:
    """Validates the name of a pool: DNS subdomains between slashes."""
    if not name:
        yield required(field)
        return
    if len(name) > _POOL_LENGTH_MAX:
        yield too_long(field, _POOL_LENGTH_MAX)
    for part in name.split("/"):
        yield from field_errors(field, part, names.dns_subdomain)


def validate_share_id(uid: str, field: str) -> Errors:
    """Validates the UID of a share of a device."""
    if len(uid) not in _UUID_LENGTHS:
        yield invalid(field, uid, f"error validating uid: invalid UUID length: {len(uid)}")
    elif not _UUID.fullmatch(uid):
        yield invalid(field, uid, _UUID_PROBLEM)


def validate_qualified_name(name: str, field: str) -> Errors:
    """Validates the name of an attribute or a capacity: ``id`` or ``domain/id``."""
    parts = name.split("/")
    if len(parts) == 1:
        yield from _validate_id(name, field)
    elif len(parts) == 2:
        if parts[0]:
            yield from validate_driver_name(parts[0], field)
        else:
            yield invalid(field, "", "the domain must not be empty")
        if parts[1]:
            yield from _validate_id(parts[1], field)
        else:
            yield invalid(field, "", "the name must not be empty")


def validate_full_name(name: str, field: str) -> Errors:
    """Validates the name of an attribute that must have its domain."""
    yield from validate_qualified_name(name, field)
    if "/" not in name:
        problem = "a fully qualified name must be a domain and a name separated by a slash"
        yield invalid(field, name, problem)


def _validate_id(text: str, field: str) -> Errors:
    if len(text) > _ID_LENGTH_MAX:
        yield too_long(field, _ID_LENGTH_MAX)
    if not re.fullmatch(_C_IDENTIFIER, text):
        problem = names.pattern_problem(
            _C_IDENTIFIER_PROBLEM, _C_IDENTIFIER, "my_name", "MY_NAME", "MyName"
        )
        yield invalid(field, text, problem)


def validate_label_key(key: str, field: str) -> Errors:
    """Validates a text with the form of a label key."""
    return field_errors(field, key, names.qualified_name)


# ------------------------------------------------------------------- selectors, configuration


def validate_selectors(selectors: Sequence[Object], field: str) -> Errors:
    """Validates selectors; their expressions are compiled."""
    return validate_items(selectors, field, SELECTORS_MAX, _validate_selector)


def _validate_selector(selector: Object, field: str) -> Errors:
    cel_selector = selector.get("cel")
    if cel_selector is None:
        return [required(f"{field}.cel")]
    expression = cel_selector.get("expression", "")
    field = f"{field}.cel.expression"
    if len(expression.encode(errors="surrogatepass")) > _EXPRESSION_BYTES_MAX:
        return [too_long(field, _EXPRESSION_BYTES_MAX)]
    problem, cost = _compiled(expression)
    if problem:
        return [invalid(field, expression, problem)]
    if cost > cel.COST_LIMIT:
        return [forbidden_field(field, "too complex, exceeds cost limit")]
    return []


@lru_cache(maxsize=_COMPILED_CACHE_SIZE)
def _compiled(expression: str) -> tuple[str, int]:
    """Returns why an expression does not compile, "" if it does; and its worst-case cost."""
    try:
        selector = cel.compile_selector(expression)
    except cel.CompileError as error:
        return str(error), 0
    return "", selector.estimate_cost().most


def validate_configuration(config: Object, field: str) -> Errors:
    """Validates parameters for a driver."""
    opaque = config.get("opaque")
    field = f"{field}.opaque"
    if opaque is None:
        yield required(field)
        return
    yield from validate_driver_name(opaque.get("driver", ""), f"{field}.driver")
    yield from validate_raw(opaque.get("parameters"), f"{field}.parameters", _PARAMETERS_BYTES_MAX)


def validate_raw(value: Any, field: str, bytes_max: int) -> Errors:
    """Validates a JSON object without a schema."""
    if value is None:
        yield required(field)
    elif len(msgspec.json.encode(value)) > bytes_max:
        yield too_long(field, bytes_max)
    elif not isinstance(value, Mapping):
        yield invalid(field, "<value omitted>", "must be a valid JSON object")


# -------------------------------------------------------------------- tolerations, conditions


def validate_toleration(toleration: Object, field: str) -> Errors:
    """Validates a toleration of device taints."""
    key, value = toleration.get("key", ""), toleration.get("value", "")
    if key:
        yield from validate_label_key(key, f"{field}.key")
    operator = toleration.get("operator", "")
    if operator == "Exists":
        if value:
            yield invalid(f"{field}.value", value, "must be empty for operator `Exists`")
    elif operator == "Equal":
        yield from field_errors(f"{field}.value", value, names.label_value)
    elif operator:
        yield not_supported(f"{field}.operator", operator, _OPERATORS)
    else:
        yield required(f"{field}.operator")
    effect = toleration.get("effect", "")
    if effect and effect not in EFFECTS:
        yield not_supported(f"{field}.effect", effect, EFFECTS)


def validate_taint(taint: Object, field: str) -> Errors:
    """Validates a taint of a device."""
    yield from validate_label_key(taint.get("key", ""), f"{field}.key")
    if value := taint.get("value"):
        yield from field_errors(f"{field}.value", value, names.label_value)
    effect = taint.get("effect", "")
    if not effect:
        yield required(f"{field}.effect")
    elif effect not in EFFECTS:
        yield not_supported(f"{field}.effect", effect, EFFECTS)


def validate_binding_conditions(obj: Object, field: str) -> Errors:
    """Validates the conditions of a device or a result on which a binding depends."""
    conditions = obj.get("bindingConditions") or ()
    failures = obj.get("bindingFailureConditions") or ()
    paths = (f"{field}.bindingConditions", f"{field}.bindingFailureConditions")
    for items, path in zip((conditions, failures), paths, strict=True):
        yield from validate_items(items, path, _CONDITIONS_MAX, validate_label_key)
    yield from _duplicates(conditions, paths[0])
    for number, condition in enumerate(failures):
        if condition in failures[:number]:
            yield duplicate(f"{paths[1]}[{number}]", condition)
        if condition in conditions:
            problem = "bindingFailureConditions must not overlap with bindingConditions"
            yield invalid(f"{paths[1]}[{number}]", condition, problem)
    if failures and not conditions:
        problem = "bindingConditions are required to use bindingFailureConditions"
        yield invalid(paths[0], None, problem)
    if conditions and not failures:
        problem = "bindingFailureConditions are required to use bindingConditions"
        yield invalid(paths[1], None, problem)


def _duplicates(items: Sequence[str], field: str) -> Errors:
    for number, item in enumerate(items):
        if item in items[:number]:
            yield duplicate(f"{field}[{number}]", item)


def validate_class_name(name: str, field: str) -> Errors:
    """Validates a reference to a device class."""
    return required_value(field, name, names.dns_subdomain)
