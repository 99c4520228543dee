"""Validation of what completes a Job, with kube-apiserver's messages.

Source: pkg/apis/batch/validation/validation.go (validateSuccessPolicy, validateIndexesFormat,
validatePodReplacementPolicy) and IsDomainPrefixedPath of k8s.io/apimachinery.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mooring.apiserver import names
from mooring.apiserver.errors import Errors, invalid, not_supported, required, too_long, too_many
from mooring.apiserver.validation.rules import field_errors, not_negative
from mooring.objects.go_text import go_quote
from mooring.objects.selectors import parse_int64

if TYPE_CHECKING:
    from mooring.apiserver.types import Object

_MANAGED_BY_MAX = 63
_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_path = re.compile(_PATH)
_RULES_MAX = 20
_INDEXES_MAX = 64 * 1024
_REPLACEMENT_POLICIES = ("Failed", "TerminatingOrFailed")


def validate_managed_by(spec: Object, field: str) -> Errors:
    """Validates ``managedBy``, the name of the controller of a job."""
    text = spec.get("managedBy")
    if text is None:
        return
    host, _, path = text.partition("/")
    if not text:
        yield required(field)
    elif not host or not path:
        problem = 'must be a domain-prefixed path (such as "acme.io/foo")'
        yield invalid(field, text, problem)
    else:
        yield from field_errors(field, host, names.dns_subdomain)
        if not _path.fullmatch(path):
            problem = f"Invalid path (regex used for validation is '{_PATH}')"
            yield invalid(field, path, problem)
    if len(text.encode()) > _MANAGED_BY_MAX:
        yield too_long(field, _MANAGED_BY_MAX)


def validate_replacement_policy(spec: Object, field: str) -> Errors:
    """Validates when pods of a job are replaced."""
    policy = spec.get("podReplacementPolicy")
    supported = ("Failed",) if spec.get("podFailurePolicy") is not None else _REPLACEMENT_POLICIES
    if policy is not None and policy not in supported:
        yield not_supported(field, policy, supported)


def validate_success_policy(spec: Object, field: str) -> Errors:
    """Validates the policy of a job's spec; ``field`` is the path of the policy."""
    policy = spec.get("successPolicy")
    if policy is None:
        return
    rules = policy.get("rules") or []
    if spec.get("completionMode") != "Indexed":
        internal = [
            {
                "SucceededIndexes": rule.get("succeededIndexes"),
                "SucceededCount": rule.get("succeededCount"),
            }
            for rule in rules
        ]
        yield invalid(field, {"Rules": internal}, "requires indexed completion mode")
        return
    if not rules:
        problem = "at least one rules must be specified when the successPolicy is specified"
        yield required(f"{field}.rules", problem)
    if len(rules) > _RULES_MAX:
        yield too_many(f"{field}.rules", len(rules), _RULES_MAX)
    for number, rule in enumerate(rules):
        yield from _validate_rule(rule, f"{field}.rules[{number}]", spec.get("completions") or 0)


def _validate_rule(rule: Object, field: str, completions: int) -> Errors:
    indexes, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    if count is None and indexes is None:
        problem = "at least one of succeededCount or succeededIndexes must be specified"
        yield required(field, problem)
    total = 0
    if indexes is not None:
        inner = f"{field}.succeededIndexes"
        if len(indexes.encode()) > _INDEXES_MAX:
            yield too_long(inner, _INDEXES_MAX)
        try:
            total = _count(indexes, completions)
        except ValueError as error:
            yield invalid(inner, indexes, f"error parsing succeededIndexes: {error}")
    if count is None:
        return
    yield from not_negative(rule, field, "succeededCount")
    limits = [(completions, "specified completions")]
    if indexes is not None:
        limits.append((total, "indexes in the specified succeededIndexes field"))
    for limit, what in limits:
        if count > limit:
            problem = f"must be less than or equal to {limit} (the number of {what})"
            yield invalid(f"{field}.succeededCount", count, problem)


def _count(text: str, completions: int) -> int:
    """Returns the number of indexes in a list such as ``0,2-4``.

    Raises:
        ValueError: the list is invalid.
    """
    last: int | None = None
    total = 0
    for part in text.split(",") if text else ():
        limits = part.split("-")
        if len(limits) > 2:
            raise ValueError(
                f"the fragment {go_quote(part)} violates the requirement that an index interval "
                "can have at most two parts separated by '-'"
            )
        first = _index(limits[0], completions)
        end = _index(limits[-1], completions) if len(limits) == 2 else first
        if len(limits) == 2 and first >= end:
            raise ValueError(f"non-increasing order, previous: {first}, current: {end}")
        if last is not None and last >= first:
            raise ValueError(f"non-increasing order, previous: {last}, current: {first}")
        total, last = total + end - first + 1, end
    return total


def _index(text: str, completions: int) -> int:
    number = parse_int64(text)
    if number is None:
        raise ValueError(f"cannot convert string to integer for index: {go_quote(text)}")
    if number >= completions:
        raise ValueError(f"too large index: {go_quote(text)}")
    return number
