"""Validation of CertificateSigningRequests, with kube-apiserver's messages.

Source: pkg/apis/certificates/validation/validation.go, pkg/apis/core/validation/names.go
(ValidateSignerName). Differs: only the frame of the request is read, not what is inside.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

from mooring.apiserver import names
from mooring.apiserver.errors import Errors, duplicate, invalid, not_supported, required, too_long

if TYPE_CHECKING:
    from collections.abc import Callable

    from mooring.apiserver.types import Object

_USAGES = (
    *("any", "cert sign", "client auth", "code signing", "content commitment", "crl sign"),
    *("data encipherment", "decipher only", "digital signature", "email protection"),
    *("encipher only", "ipsec end system", "ipsec tunnel", "ipsec user", "key agreement"),
    *("key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime"),
    *("server auth", "signing", "timestamping"),
)
_LEGACY_SIGNER = "kubernetes.io/legacy-unknown"
_DOMAIN_MAX = 253
_SECONDS_MIN = 600
_BEGIN = b"-----BEGIN CERTIFICATE REQUEST-----"


def validate_certificate_request(request: Object) -> Errors:
    """Validates a new request."""
    spec = request["spec"]
    pem = spec.get("request", "")
    if _BEGIN not in base64.b64decode(pem):
        yield invalid("spec.request", pem, "PEM block type must be CERTIFICATE REQUEST")
    usages = spec.get("usages") or []
    if not usages:
        yield required("spec.usages")
    for number, usage in enumerate(usages):
        if usage not in _USAGES:
            yield not_supported(f"spec.usages[{number}]", usage, _USAGES)
    for number, usage in enumerate(usages):
        if usage in usages[:number]:
            yield duplicate(f"spec.usages[{number}]", usage)
    signer = spec.get("signerName", "")
    if signer == _LEGACY_SIGNER:
        problem = "the legacy signerName is not allowed via this API version"
        yield invalid("spec.signerName", signer, problem)
    else:
        yield from _validate_signer(signer, "spec.signerName")
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < _SECONDS_MIN:
        problem = "may not specify a duration less than 600 seconds (10 minutes)"
        yield invalid("spec.expirationSeconds", seconds, problem)


def _validate_signer(signer: str, field: str) -> Errors:
    if not signer:
        yield required(field)
        return
    domain, _, path = signer.partition("/")
    if signer.count("/") != 1:
        problem = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        yield invalid(field, signer, problem)
        return
    if len(domain) > _DOMAIN_MAX:
        yield too_long(field, _DOMAIN_MAX)
    yield from _validate_labels(domain, field, names.dns_label)
    if "." not in domain:
        problem = "should be a domain with at least two segments separated by dots"
        yield invalid(field, domain, problem)
    yield from _validate_labels(path, field, names.dns_subdomain)


def _validate_labels(text: str, field: str, check: Callable[[str], names.Problems]) -> Errors:
    """Validates the parts between dots; those after the first invalid part are not read."""
    for label in text.split("."):
        problems = list(check(label))
        for problem in problems:
            yield invalid(field, text, f"validating label {json.dumps(label)}: {problem}")
        if problems:
            return
