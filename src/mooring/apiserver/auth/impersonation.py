"""Impersonation: a client acts as another user if its rules allow the verb ``impersonate``.

Source: k8s.io/apiserver pkg/endpoints/filters/impersonation/impersonation.go.
Differs: UIDs and extra fields are ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.apiserver.auth.authentication import (
    ANONYMOUS,
    AUTHENTICATED,
    SERVICE_ACCOUNT_PREFIX,
    UNAUTHENTICATED,
    UserInfo,
    service_account_groups,
)
from mooring.apiserver.auth.authorization import Attributes
from mooring.apiserver.errors import bad_request

#: Headers that say more about the user of ``Impersonate-User``.
_PARTS = ("impersonate-group", "impersonate-uid")
_EXTRA = "impersonate-extra-"

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mooring.apiserver.auth.rbac import Authorizer


def check_is_complete(headers: Iterable[str]) -> None:
    """Refuses a request that asks for groups or a UID to act with, but names no user.

    Raises:
        ApiStatusError: 400.
    """
    names = sorted(name for name in map(str.lower, headers) if _is_part(name))
    if names:
        problem = f"requested {', '.join(names)} without impersonating a user"
        raise bad_request(problem)


def _is_part(name: str) -> bool:
    return name in _PARTS or name.startswith(_EXTRA)


def impersonated(
    authorizer: Authorizer, identity: UserInfo, user: str, groups: tuple[str, ...]
) -> UserInfo:
    """Returns the identity that a client may act as.

    Raises:
        ApiStatusError: 403.
    """
    account = user.removeprefix(SERVICE_ACCOUNT_PREFIX).split(":")
    if user.startswith(SERVICE_ACCOUNT_PREFIX) and len(account) == 2:
        namespace, name = account
        resource = "serviceaccounts"
        all_groups = groups or service_account_groups(namespace)
    else:
        namespace, name, resource, all_groups = "", user, "users", groups
    authorizer.check(identity, Attributes("impersonate", "", "", resource, "", namespace, name))
    for group in groups:
        authorizer.check(identity, Attributes("impersonate", "", "", "groups", "", "", group))
    if user == ANONYMOUS.user:
        extra = () if UNAUTHENTICATED in all_groups else (UNAUTHENTICATED,)
    else:
        has_either = AUTHENTICATED in all_groups or UNAUTHENTICATED in all_groups
        extra = () if has_either else (AUTHENTICATED,)
    return UserInfo(user, (*all_groups, *extra))
