"""The requester of a certificate, and the permissions to approve and sign it.

Source: pkg/registry/certificates/certificates/strategy.go (PrepareForCreate),
plugin/pkg/admission/certificates/{approval,signing}, pkg/certauthorization.
Differs: ``extra`` of an identity is not known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.apiserver.auth.authorization import Attributes
from mooring.apiserver.errors import forbidden
from mooring.apiserver.resources import CERTIFICATE_REQUESTS

if TYPE_CHECKING:
    from mooring.apiserver.auth.authentication import UserInfo
    from mooring.apiserver.auth.rbac import Authorizer
    from mooring.apiserver.types import Object


def set_requester(request: Object, identity: UserInfo) -> None:
    """Sets the identity of the client in a new request; its own words for it are dropped."""
    spec = request["spec"]
    for name in ("username", "uid", "groups", "extra"):
        spec.pop(name, None)
    spec["username"] = identity.user
    if identity.uid:
        spec["uid"] = identity.uid
    if identity.groups:
        spec["groups"] = [*identity.groups]


def check_signer(
    authorizer: Authorizer, identity: UserInfo, subresource: str, new: Object, old: Object
) -> None:
    """Checks that a client may approve or sign a request.

    Raises:
        ApiStatusError: 403.
    """
    if subresource == "approval":
        verb = "approve"
    elif subresource == "status" and _is_signed(new, old):
        verb = "sign"
    else:
        return
    signer = old["spec"].get("signerName", "")
    for name in (signer, f"{signer.partition('/')[0]}/*"):
        attributes = Attributes(
            verb, group=CERTIFICATE_REQUESTS.group, resource="signers", name=name
        )
        if authorizer.is_allowed(identity, attributes):
            return
    text = f'user not permitted to {verb} requests with signerName "{signer}"'
    raise forbidden(CERTIFICATE_REQUESTS, old["metadata"]["name"], text)


def _is_signed(new: Object, old: Object) -> bool:
    status, before = new.get("status") or {}, old.get("status") or {}
    is_changed = status.get("certificate") != before.get("certificate")
    return is_changed or (status.get("conditions") or []) != (before.get("conditions") or [])
