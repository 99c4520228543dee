"""Validation of the options of Windows in security contexts, with kube-apiserver's messages.

Source: pkg/apis/core/validation/validation.go (validateWindowsSecurityContextOptions).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from mooring.apiserver import names
from mooring.apiserver.errors import Errors, invalid
from mooring.apiserver.validation.rules import field_errors

Object = Mapping[str, Any]

_SPEC_KIB_MAX = 64
_DOMAIN_CHARACTERS_MAX = 256
_USER_CHARACTERS_MAX = 104
_control = re.compile(r"[\x00-\x1f\x7f]")
_net_bios = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_label = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_dns = re.compile(rf"{_label}(?:\.{_label})*")
_not_in_user = re.compile(r'["/\\:;|=,+*?<>@\[\]]')
_dots_and_spaces = re.compile(r"[. ]+")


def validate_windows_options(options: Object | None, field: str) -> Errors:
    """Validates ``windowsOptions``, but for those about host processes."""
    if not options:
        return
    name = options.get("gmsaCredentialSpecName")
    if name is not None:
        yield from field_errors(f"{field}.gmsaCredentialSpecName", name, names.dns_subdomain)
    spec = options.get("gmsaCredentialSpec")
    if spec == "":
        problem = "gmsaCredentialSpec cannot be an empty string"
        yield invalid(f"{field}.gmsaCredentialSpec", spec, problem)
    elif spec is not None and len(spec.encode()) > _SPEC_KIB_MAX << 10:
        problem = f"gmsaCredentialSpec size must be under {_SPEC_KIB_MAX} KiB"
        yield invalid(f"{field}.gmsaCredentialSpec", spec, problem)
    user = options.get("runAsUserName")
    if user is not None:
        for problem in _user_problems(user):
            yield invalid(f"{field}.runAsUserName", user, f"runAsUserName{problem}")


def _user_problems(text: str) -> Iterator[str]:
    r"""Yields what is wrong with ``USER`` or ``DOMAIN\\USER``."""
    parts = text.split("\\")
    if not text:
        yield " cannot be an empty string"
    elif _control.search(text):
        yield " cannot contain control characters"
    elif len(parts) > 2:
        yield " cannot contain more than one backslash"
    else:
        if len(parts) == 2:
            yield from _domain_problems(parts[0])
        yield from _name_problems(parts[-1])


def _domain_problems(domain: str) -> Iterator[str]:
    if len(domain.encode()) >= _DOMAIN_CHARACTERS_MAX:
        yield f"'s Domain length must be under {_DOMAIN_CHARACTERS_MAX} characters"
    if not _net_bios.fullmatch(domain) and not _dns.fullmatch(domain):
        yield "'s Domain doesn't match the NetBios nor the DNS format"


def _name_problems(name: str) -> Iterator[str]:
    if not name:
        yield "'s User cannot be empty"
    elif len(name.encode()) > _USER_CHARACTERS_MAX:
        yield f"'s User length must not be longer than {_USER_CHARACTERS_MAX} characters"
    if _dots_and_spaces.fullmatch(name):
        yield "'s User cannot contain only periods or spaces"
    if _not_in_user.search(name):
        yield "'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]"
