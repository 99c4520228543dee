"""Names what an expression is for, which decides the macros and functions that it may use."""

from __future__ import annotations

from enum import Enum


class Environment(Enum):
    """Kinds of expressions.

    Source: apiserver v0.36.3, pkg/cel/environment/base.go, which all have;
    dynamic-resource-allocation v0.36.3, cel/compile.go, and apiserver v0.36.3,
    pkg/admission/plugin/policy/mutating/compilation.go, for what is added.
    """

    #: A selector of devices: with ``cel.bind`` and ``includes``.
    SELECTOR = "selector"
    #: A rule of a definition, or an expression of a policy or a webhook.
    RULE = "rule"
    #: An expression of a policy that makes patches: with ``jsonpatch``.
    PATCH = "patch"
