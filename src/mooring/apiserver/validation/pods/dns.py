"""Validation of a pod's DNS settings and host names, with kube-apiserver's messages.

Source: pkg/apis/core/validation/validation.go (validatePodDNSConfig, ValidateHostAliases,
validatePodHostName).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mooring.apiserver import names
from mooring.apiserver.errors import Errors, forbidden_field, invalid, required, too_long
from mooring.apiserver.validation.addresses import validate_ip
from mooring.apiserver.validation.rules import field_errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Object = Mapping[str, Any]

_SERVERS_MAX = 3
_SEARCHES_MAX = 32
_SEARCH_CHARACTERS_MAX = 2048
_HOST_NAME_CHARACTERS_MAX = 64


def validate_dns_config(spec: Object, field: str) -> Errors:
    """Validates the DNS settings of a pod."""
    config: Object | None = spec.get("dnsConfig")
    field = f"{field}.dnsConfig"
    if spec.get("dnsPolicy") == "None":
        if config is None:
            yield required(field, "must provide `dnsConfig` when `dnsPolicy` is None")
            return
        if not config.get("nameservers"):
            problem = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            yield required(f"{field}.nameservers", problem)
            return
    if config is None:
        return
    servers: Sequence[str] = config.get("nameservers") or ()
    if len(servers) > _SERVERS_MAX:
        problem = f"must not have more than {_SERVERS_MAX} nameservers"
        yield invalid(f"{field}.nameservers", servers, problem)
    for number, server in enumerate(servers):
        yield from validate_ip(server, f"{field}.nameservers[{number}]")
    yield from _validate_searches(config.get("searches") or (), f"{field}.searches")
    for number, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            yield required(f"{field}.options[{number}]", "must not be empty")


def _validate_searches(searches: Sequence[str], field: str) -> Errors:
    if len(searches) > _SEARCHES_MAX:
        problem = f"must not have more than {_SEARCHES_MAX} search paths"
        yield invalid(field, searches, problem)
    if len(" ".join(searches)) > _SEARCH_CHARACTERS_MAX:
        problem = (
            f"must not have more than {_SEARCH_CHARACTERS_MAX} characters (including spaces) in "
            "the search list"
        )
        yield invalid(field, searches, problem)
    for number, search in enumerate(searches):
        if search != ".":
            check = names.dns_subdomain_with_underscore
            yield from field_errors(f"{field}[{number}]", search.removesuffix("."), check)


def validate_host_aliases(aliases: Sequence[Object], field: str) -> Errors:
    """Validates the entries for the hosts file of a pod."""
    for number, alias in enumerate(aliases):
        yield from validate_ip(alias.get("ip", ""), f"{field}[{number}].ip")
        for position, name in enumerate(alias.get("hostnames") or ()):
            child_field = f"{field}[{number}].hostnames[{position}]"
            yield from field_errors(child_field, name, names.dns_subdomain)


def validate_host_name(spec: Object, field: str) -> Errors:
    """Validates the host name that replaces all other settings of it."""
    name: str | None = spec.get("hostnameOverride")
    if name is None:
        return
    field = f"{field}.hostnameOverride"
    if spec.get("setHostnameAsFQDN"):
        yield forbidden_field(field, "may not be specified when setHostnameAsFQDN is true")
    if spec.get("hostNetwork"):
        yield forbidden_field(field, "may not be specified when hostNetwork is true")
    if len(name) > _HOST_NAME_CHARACTERS_MAX:
        yield too_long(field, _HOST_NAME_CHARACTERS_MAX)
    yield from field_errors(field, name, names.dns_subdomain)
