"""Validation of requests and limits, with kube-apiserver's messages.

Source: pkg/apis/core/validation/validation.go (validateResourceRequirements and what it calls),
pkg/apis/core/helper/helpers.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from mooring.apiserver import names as name_checks
from mooring.apiserver.errors import (
    Errors,
    duplicate,
    forbidden_field,
    invalid,
    not_found_value,
    required,
)
from mooring.apiserver.validation.rules import NOT_NEGATIVE, field_errors
from mooring.objects.quantity import Quantity

_HUGE_PAGES = "hugepages-"
_STANDARD_FOR_CONTAINERS = frozenset(("cpu", "memory", "ephemeral-storage"))
_INTEGERS = frozenset(
    (
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    )
)
_STANDARD = _STANDARD_FOR_CONTAINERS | _INTEGERS | {"storage", "requests.cpu", "requests.memory"}
_STANDARD |= {"requests.storage", "requests.ephemeral-storage", "limits.cpu", "limits.memory"}
_STANDARD |= {"limits.ephemeral-storage"}
#: The standard resources that a quota can limit.
QUOTA_RESOURCES = _STANDARD - {"storage"}
_MILLI_NANOS = 10**6
_CACHE_SIZE = 16384
#: Errors that list the claims of a pod; both may be many.
_NAMES_LISTED_MAX = 32
#: Amounts with a longer name and text are validated each time.
_CACHED_CHARS_MAX = 512

Object = Mapping[str, Any]


def is_native(name: str) -> bool:
    """Returns True for native Kubernetes resources."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Returns True for extended resources, which device plugins and administrators define."""
    if is_native(name) or name.startswith("requests."):
        return False
    return not name_checks.qualified_name(f"requests.{name}")


def is_overcommittable(name: str) -> bool:
    """Returns True if limits may exceed requests."""
    return is_native(name) and not name.startswith(_HUGE_PAGES)


def validate_quantity(name: str, text: str, field: str) -> Errors:
    """Validates an amount of a resource."""
    amount = Quantity.from_wire(text)
    if amount.nanos < 0:
        yield invalid(field, text, NOT_NEGATIVE)
    if name in _INTEGERS or is_extended(name):
        milli = -(-amount.nanos // _MILLI_NANOS)
        if milli % 1000:
            yield invalid(field, text, "must be an integer")


def validate_node_resources(resources: Object, field: str) -> Errors:
    """Validates the capacity or the allocatable resources of a node."""
    return [
        error
        for name, text in resources.items()
        # As upstream prints the path of a field without a name.
        for error in validate_quantity(name, text, f"{field}.{name}" if name else f"{field}[]")
    ]


def validate_requirements(
    requirements: Object,
    field: str,
    claims: frozenset[str] = frozenset(),
    *,
    validate_name: Callable[[str, str], Errors] | None = None,
) -> Errors:
    """Validates requests and limits.

    Args:
        requirements: The requests, limits and claims.
        field: Their path.
        claims: The names of the pod's claims.
        validate_name: Validates the name of a resource; None = as that of a container.
    """
    if not requirements:
        return
    limits = requirements.get("limits", {})
    requests = requirements.get("requests", {})
    for name, text in limits.items():
        yield from _validate_amount(name, text, f"{field}.limits[{name}]", validate_name)
    for name, text in requests.items():
        yield from _validate_amount(name, text, f"{field}.requests[{name}]", validate_name)
        if limits.get(name) != text:
            yield from _validate_against_limit(name, text, limits, field)
    names = {*limits, *requests}
    if any(name.startswith(_HUGE_PAGES) for name in names) and not names & {"cpu", "memory"}:
        yield forbidden_field(field, "HugePages require cpu or memory")
    yield from _validate_claims(requirements.get("claims", ()), field, claims)


@lru_cache(maxsize=_CACHE_SIZE)
def _is_valid(name: str, text: str) -> bool:
    """Returns True if an amount of a resource is valid; cached, as few different ones occur."""
    return not (
        any(_validate_name(name, ""))
        or any(validate_quantity(name, text, ""))
        or any(_validate_huge_pages(name, text, ""))
    )


def _validate_amount(
    name: str, text: str, field: str, validate_name: Callable[[str, str], Errors] | None
) -> Errors:
    is_short = len(name) + len(text) <= _CACHED_CHARS_MAX
    if validate_name is None and is_short and _is_valid(name, text):
        return []
    return [
        *(validate_name or _validate_name)(name, field),
        *validate_quantity(name, text, field),
        *_validate_huge_pages(name, text, field),
    ]


def validate_resource_name(name: str, field: str, *, is_of_container: bool = False) -> Errors:
    """Validates the name of a resource in a quota or a limit range."""
    if is_of_container:
        yield from _validate_name(name, field)
    elif name_checks.qualified_name(name):
        yield from field_errors(field, name, name_checks.qualified_name)
    elif "/" not in name and name not in _STANDARD and _HUGE_PAGES not in name:
        yield invalid(field, name, "must be a standard resource type or fully qualified")


def _validate_name(name: str, field: str) -> Errors:
    is_qualified = not name_checks.qualified_name(name)
    yield from field_errors(field, name, name_checks.qualified_name)
    if "/" not in name:
        is_huge = name.startswith(_HUGE_PAGES)
        if is_qualified and name not in _STANDARD and not is_huge:
            problem = "must be a standard resource type or fully qualified"
            yield invalid(field, name, problem)
        if name not in _STANDARD_FOR_CONTAINERS and not is_huge:
            yield invalid(field, name, "must be a standard resource for containers")
    elif not is_native(name) and not is_extended(name):
        yield invalid(field, name, "doesn't follow extended resource name standard")


def _validate_against_limit(name: str, text: str, limits: Object, field: str) -> Errors:
    limit = limits.get(name)
    if limit is None:
        if not is_overcommittable(name):
            problem = "Limit must be set for non overcommitable resources"
            yield required(f"{field}.limits", problem)
        return
    request_nanos, limit_nanos = Quantity.from_wire(text).nanos, Quantity.from_wire(limit).nanos
    if request_nanos != limit_nanos and not is_overcommittable(name):
        yield invalid(f"{field}.requests", text, f"must be equal to {name} limit of {limit}")
    elif request_nanos > limit_nanos:
        problem = f"must be less than or equal to {name} limit of {limit}"
        yield invalid(f"{field}.requests", text, problem)


def _validate_huge_pages(name: str, text: str, field: str) -> Errors:
    if not name.startswith(_HUGE_PAGES):
        return
    try:
        page = Quantity.from_wire(name.removeprefix(_HUGE_PAGES)).nanos
    except ValueError:
        return
    if page <= 0 or Quantity.from_wire(text).nanos % page:
        problem = f"{text} is not positive integer multiple of {name}"
        yield invalid(field, text, problem)


def _validate_claims(claims: list[Any], field: str, pod_claims: frozenset[str]) -> Errors:
    claim_keys: set[str] = set()
    names: set[str] = set()
    missing = 0
    for number, claim in enumerate(claims):
        item_field, name = f"{field}.claims[{number}]", claim["name"]
        request = claim.get("request", "")
        key = f"{name}/{request}" if request else name
        if not name:
            yield required(item_field)
            continue
        if request:
            yield from field_errors(f"{item_field}.request", request, name_checks.dns_label)
        if key in claim_keys or name in claim_keys or (not request and name in names):
            yield duplicate(item_field, key)
        claim_keys.add(key)
        names.add(name)
        if name not in pod_claims:
            missing += 1
            names_text = "" if pod_claims else " which is empty"
            if pod_claims and missing <= _NAMES_LISTED_MAX:
                names_text = f": {', '.join(sorted(pod_claims))}"
            detail = f"must be one of the names in pod.spec.resourceClaims{names_text}"
            yield not_found_value(item_field, name, detail)
