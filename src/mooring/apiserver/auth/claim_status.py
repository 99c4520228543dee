"""Authorization of changes to the status of a ResourceClaim, beyond that of the request.

::

    status.allocation, reservedFor   VERB on resourceclaims/binding, cluster-wide
    status.devices of a driver       arbitrary-node:VERB on resourceclaims/driver of that name

The subresources exist for these checks only. A failed check is an error of the field.

Source: k8s.io/kubernetes pkg/registry/resource/utils.go (AuthorizedForBinding,
AuthorizedForDeviceStatus), with the gate DRAResourceClaimGranularStatusAuthorization, which is on
by default. *Differs:* the verb ``associated-node:VERB`` is for service accounts of a node, which
this server does not have.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from mooring.apiserver.auth.authentication import UserInfo
from mooring.apiserver.auth.authorization import Attributes, forbidden
from mooring.apiserver.auth.rbac import Authorizer
from mooring.apiserver.errors import FieldError, forbidden_field
from mooring.apiserver.types import Object

_GROUP: Final = "resource.k8s.io"
_RESOURCE: Final = "resourceclaims"
_ARBITRARY_NODE: Final = "arbitrary-node:"


def claim_status_errors(
    authorizer: Authorizer,
    identity: UserInfo,
    verb: str,
    namespace: str,
    new: Object,
    old: Object,
) -> Iterator[FieldError]:
    """Yields an error for each part of the status that the identity may not change.

    Args:
        authorizer: Finds the rules of clients.
        identity: The client.
        verb: "update" or "patch".
        namespace: That of the claim.
        new: The claim with the change.
        old: The claim before.
    """
    status, before = new.get("status") or {}, old.get("status") or {}
    is_bound_alike = status.get("allocation") == before.get("allocation") and (
        status.get("reservedFor") or []
    ) == (before.get("reservedFor") or [])
    if not is_bound_alike:
        binding = Attributes(verb, group=_GROUP, resource=_RESOURCE, subresource="binding")
        if not authorizer.is_allowed(identity, binding):
            yield forbidden_field(
                "status.allocation",
                "changing status.allocation or status.reservedFor requires "
                f'resource="resourceclaims/binding", verb="{verb}" permission: '
                f"{forbidden(identity, binding).message}",
            )
    # The statuses of a deallocated claim are dropped.
    for driver in _changed_drivers(status, before) if status.get("allocation") else ():
        attributes = Attributes(
            _ARBITRARY_NODE + verb,
            group=_GROUP,
            resource=_RESOURCE,
            subresource="driver",
            namespace=namespace,
            name=driver,
        )
        if not authorizer.is_allowed(identity, attributes):
            yield forbidden_field(
                "status.devices",
                'changing status.devices requires resource="resourceclaims/driver", '
                f'verb="[{attributes.verb}]" permission: '
                f"{forbidden(identity, attributes).message}",
            )


def _changed_drivers(status: dict[str, Any], before: dict[str, Any]) -> list[str]:
    """Returns the drivers whose statuses were added, changed or removed, by name."""
    new, old = _statuses(status), _statuses(before)
    changed = [key for key in new.keys() | old.keys() if new.get(key) != old.get(key)]
    return sorted({driver for driver, *_ in changed})


def _statuses(status: dict[str, Any]) -> dict[tuple[str, str, str, str], Any]:
    """Returns the statuses by driver, pool, device and share."""
    return {
        (
            device.get("driver", ""),
            device.get("pool", ""),
            device.get("device", ""),
            device.get("shareID", ""),
        ): device
        for device in status.get("devices") or ()
    }
