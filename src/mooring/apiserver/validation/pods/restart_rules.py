"""Validation of restart policies of containers, with kube-apiserver's messages.

Source: pkg/apis/core/validation/validation.go (validateContainerRestartPolicy,
validateInitContainerRestartPolicy), with the gates that are on by default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mooring.apiserver.errors import Errors, not_supported, required, too_many
from mooring.apiserver.validation.rules import one_of

Object = Mapping[str, Any]

_POLICIES = ("Always", "Never", "OnFailure")
_ACTIONS = ("Restart", "RestartAllContainers")
_OPERATORS = ("In", "NotIn")
_NO_POLICY = "must specify restartPolicy when restart rules are used"
_RULES_MAX = 20
_EXIT_CODES_MAX = 255


def validate_restart_policy(container: Object, field: str) -> Errors:
    """Validates ``restartPolicy`` and ``restartPolicyRules`` of a container."""
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    yield from one_of(f"{field}.restartPolicy", policy, _POLICIES)
    if policy is None and rules:
        yield required(f"{field}.restartPolicy", _NO_POLICY)
    if len(rules) > _RULES_MAX:
        yield too_many(f"{field}.restartPolicyRules", len(rules), _RULES_MAX)
    for number, rule in enumerate(rules):
        yield from _validate_rule(rule, f"{field}.restartPolicyRules[{number}]")


def validate_restart_policy_of_init(container: Object, field: str) -> Errors:
    """Validates the same of an init container, whose rules count only with a policy."""
    if container.get("restartPolicy") is not None:
        yield from validate_restart_policy(container, field)
    elif container.get("restartPolicyRules"):
        yield required(f"{field}.restartPolicy", _NO_POLICY)


def _validate_rule(rule: Object, field: str) -> Errors:
    action = rule.get("action", "")
    if action not in _ACTIONS:
        yield not_supported(f"{field}.action", action, _ACTIONS)
    codes = rule.get("exitCodes")
    if codes is None:
        yield required(f"{field}.exitCodes", "must be specified")
        return
    operator, values = codes.get("operator", ""), codes.get("values") or ()
    if operator not in _OPERATORS:
        yield not_supported(f"{field}.exitCodes.operator", operator, _OPERATORS)
    if len(values) > _EXIT_CODES_MAX:
        yield too_many(f"{field}.exitCodes.values", len(values), _EXIT_CODES_MAX)
