"""Declarations of an expression of a webhook or policy: names and types that it may use."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mooring.cel.types import Type


class Declared:
    """Names that the expressions of an object may use beside the request.

    Attributes:
        has_params: Whether there are parameters: the policy names their kind.
        has_authorizer: Whether they may ask for permissions.
        variables: Name -> the type in CEL of each variable so far; None = there are none at all.
    """

    def __init__(
        self,
        *,
        has_params: bool = False,
        has_authorizer: bool = True,
        variables: dict[str, Type] | None = None,
    ) -> None:
        self.has_params = has_params
        self.has_authorizer = has_authorizer
        self.variables = variables
