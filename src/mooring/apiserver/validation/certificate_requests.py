"""Validation of CertificateSigningRequests, with kube-apiserver's messages.

Source: pkg/apis/certificates/validation/validation.go, pkg/apis/core/validation/names.go
(ValidateSignerName), pkg/apis/certificates/helpers.go (ParseCSR).
Differs: the texts about the content of a request or a certificate are our own.
"""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING

from mooring.apiserver import names
from mooring.apiserver.errors import (
    Errors,
    duplicate,
    forbidden_field,
    invalid,
    not_supported,
    required,
    too_long,
)

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
_CONDITIONS = "status.conditions"
_DECISIONS = ("Approved", "Denied")
#: Conditions that are true or absent, and stay.
_TRUE_ONLY = (*_DECISIONS, "Failed")
#: A block of PEM: its type and its content, with headers.
_PEM_BLOCK = re.compile(
    rb"^-----BEGIN ([^\n]*?)-----[ \t\r]*\n([^-]*)^-----END \1-----", re.MULTILINE
)


def validate_certificate_request(request: Object) -> Errors:
    """Validates a new request."""
    spec = request["spec"]
    pem = spec.get("request", "")
    problem = _request_problem(base64.b64decode(pem))
    if problem:
        yield invalid("spec.request", pem, problem)
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


def validate_approval(new: Object, old: Object) -> Errors:
    """Validates a change of the conditions through the subresource "approval"."""
    yield from _validate_conditions(new, old)
    yield from _validate_removals(new, old)


def validate_request_status(new: Object, old: Object) -> Errors:
    """Validates a change of the status: a certificate, or conditions that decide nothing."""
    yield from _validate_conditions(new, old)
    certificate = _certificate_of(new)
    before = _certificate_of(old)
    problem = "" if certificate == before else _certificate_problem(certificate)
    if problem and not _certificate_problem(before):
        yield invalid("status.certificate", "<certificate data>", problem)
    yield from _validate_removals(new, old)
    for decision in _DECISIONS:
        if _types_of(new).count(decision) > _types_of(old).count(decision):
            text = f'updates may not add a condition of type "{decision}"'
            yield forbidden_field(_CONDITIONS, text)
    if before and certificate != before:
        text = "updates may not modify existing certificate content"
        yield forbidden_field("status.certificate", text)


def _validate_conditions(new: Object, old: Object) -> Errors:
    """Validates conditions; what is wrong in the stored ones already is tolerated."""
    before = _types_of(old)
    is_both_allowed = {*_DECISIONS} <= {*before}
    types: list[str] = []
    for number, condition in enumerate((new.get("status") or {}).get("conditions") or ()):
        field, kind = f"{_CONDITIONS}[{number}]", condition.get("type", "")
        if not kind and "" not in before:
            yield required(f"{field}.type")
        statuses = ("True",) if kind in _TRUE_ONLY else ("False", "True", "Unknown")
        if not condition.get("status"):
            yield required(f"{field}.status")
        elif condition["status"] not in statuses:
            yield not_supported(f"{field}.status", condition["status"], statuses)
        others = {*_DECISIONS} - {kind}
        if kind in _DECISIONS and not is_both_allowed and others & {*types}:
            text = "Approved and Denied conditions are mutually exclusive"
            yield invalid(_CONDITIONS, kind, text)
        if kind in types and len({*before}) == len(before):
            yield duplicate(f"{field}.type", kind)
        types.append(kind)


def _validate_removals(new: Object, old: Object) -> Errors:
    for kind in _TRUE_ONLY:
        if _types_of(new).count(kind) < _types_of(old).count(kind):
            text = f'updates may not remove a condition of type "{kind}"'
            yield forbidden_field(_CONDITIONS, text)


def _types_of(request: Object) -> list[str]:
    conditions = (request.get("status") or {}).get("conditions") or ()
    return [condition.get("type", "") for condition in conditions]


def _certificate_of(request: Object) -> bytes:
    return base64.b64decode((request.get("status") or {}).get("certificate") or "")


def _request_problem(pem: bytes) -> str:
    """Returns what is wrong with the encoded request and its signature; "" = nothing."""
    # Imported late: few requests need it.
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm

    block = _PEM_BLOCK.search(pem)
    if block is None or block[1] != b"CERTIFICATE REQUEST":
        return "PEM block type must be CERTIFICATE REQUEST"
    try:
        is_signed = x509.load_pem_x509_csr(block[0].strip() + b"\n").is_signature_valid
    except (ValueError, UnsupportedAlgorithm) as error:
        return f"not a certificate request: {error}"
    return "" if is_signed else "x509: the signature of the request is wrong"


def _certificate_problem(pem: bytes) -> str:
    """Returns what is wrong with encoded certificates; "" = nothing, or there are none."""
    from cryptography import x509

    if not pem:
        return ""
    blocks = list(_PEM_BLOCK.finditer(pem))
    for block in blocks:
        if block[1] != b"CERTIFICATE":
            title = json.dumps(block[1].decode("utf-8", "replace"))
            return f"only CERTIFICATE PEM blocks are allowed, found {title}"
        if b":" in block[2]:
            return "no PEM block headers are permitted"
        try:
            x509.load_pem_x509_certificate(block[0].strip() + b"\n")
        except ValueError:
            return "x509: malformed certificate"
    return "" if blocks else "must contain at least one CERTIFICATE PEM block"


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
