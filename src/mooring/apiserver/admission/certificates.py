"""Refuses certificates for clients of the API server in the group of its masters.

Source: plugin/pkg/admission/certificates/subjectrestriction.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final

from mooring.apiserver.errors import forbidden
from mooring.apiserver.resources import CERTIFICATE_REQUESTS

if TYPE_CHECKING:
    from mooring.apiserver.types import Object

_SIGNER: Final = "kubernetes.io/kube-apiserver-client"
_MASTERS: Final = "system:masters"


def check_subject(request: Object) -> None:
    """Checks the groups of a valid new request.

    Raises:
        ApiStatusError: 403.
    """
    spec = request["spec"]
    if spec.get("signerName") != _SIGNER:
        return
    # Imported late: few requests need it.
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    subject = x509.load_pem_x509_csr(base64.b64decode(spec["request"])).subject
    if _MASTERS in [a.value for a in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]:
        text = f"use of {_SIGNER} signer with {_MASTERS} group is not allowed"
        raise forbidden(CERTIFICATE_REQUESTS, request["metadata"]["name"], text)
