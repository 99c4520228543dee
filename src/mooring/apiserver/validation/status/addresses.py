"""Validation of addresses in statuses, with kube-apiserver's messages.

Source: pkg/apis/core/validation/validation.go (validatePodIPs, validateHostIPs,
ValidateLoadBalancerStatus), pkg/apis/networking/validation/validation.go
(ValidateIngressLoadBalancerStatus).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from mooring.apiserver import names
from mooring.apiserver.addresses import is_dual_stack, sloppy_address_of
from mooring.apiserver.errors import (
    Errors,
    forbidden_field,
    internal_field_error,
    invalid,
    not_supported,
    required,
)
from mooring.apiserver.validation.addresses import IS_ADDRESS, validate_ip
from mooring.apiserver.validation.rules import field_errors

if TYPE_CHECKING:
    from mooring.apiserver.types import Object

_IP_MODES: Final = ("Proxy", "VIP")
_ADDRESSES_MAX: Final = 2
_ONE_OF_EACH_FAMILY: Final = "may specify no more than one IP for each IP family"
_LOAD_BALANCER_IPS: Final = "status.loadBalancer.ingress"


class _Address(msgspec.Struct, rename={"ip": "IP"}):
    """An address as Go's errors print it."""

    ip: str


def validate_ips(status: Object, before: Object, name: str) -> Errors:
    """Validates the addresses of a pod or of its host: one of each family."""
    field = f"status.{name}"
    items = [item.get("ip", "") for item in status.get(name) or ()]
    earlier = [item.get("ip", "") for item in before.get(name) or ()]
    for number, text in enumerate(items):
        yield from validate_ip(text, f"{field}[{number}]", earlier)
    if len(items) > 1:
        yield from _validate_families(items, field)


def _validate_families(items: Sequence[str], field: str) -> Errors:
    addresses = []
    for number, text in enumerate(items):
        address = sloppy_address_of(text)
        if address is None:
            detail = f"failed to check for dual stack with error:invalid IP[{number}]: {text}"
            yield internal_field_error(field, detail)
            break
        addresses.append(address)
    else:
        if is_dual_stack(addresses) and len(items) == _ADDRESSES_MAX:
            return
    yield invalid(field, list(map(_Address, items)), _ONE_OF_EACH_FAMILY)


def validate_host_ips(status: Object, before: Object) -> Errors:
    """Validates the addresses of a pod's host."""
    items = status.get("hostIPs") or ()
    if not items:
        return
    first = items[0].get("ip", "")
    if first != status.get("hostIP", ""):
        yield invalid("status.hostIPs[0].ip", first, "must be equal to `hostIP`")
    yield from validate_ips(status, before, "hostIPs")


def validate_service_status(new: Object, old: Object) -> Errors:
    """Validates the load balancer in the status of a Service."""
    items = _load_balancer(new)
    if items and new["spec"].get("type") != "LoadBalancer":
        yield forbidden_field(
            _LOAD_BALANCER_IPS, "may only be used when `spec.type` is 'LoadBalancer'"
        )
        return
    yield from _validate_load_balancer(items, old, has_modes=True)


def validate_ingress_status(new: Object, old: Object) -> Errors:
    """Validates the load balancer in the status of an Ingress."""
    yield from _validate_load_balancer(_load_balancer(new), old, has_modes=False)


def _load_balancer(obj: Object) -> Sequence[Any]:
    status = obj.get("status") or {}
    items: Sequence[Any] = (status.get("loadBalancer") or {}).get("ingress") or ()
    return items


def _validate_load_balancer(items: Sequence[Any], old: Object, *, has_modes: bool) -> Errors:
    earlier = [item["ip"] for item in _load_balancer(old) if item.get("ip")]
    for number, item in enumerate(items):
        field = f"{_LOAD_BALANCER_IPS}[{number}]"
        address = item.get("ip", "")
        if address:
            yield from validate_ip(address, f"{field}.ip", earlier)
        if has_modes:
            yield from _validate_mode(item.get("ipMode"), address, f"{field}.ipMode")
        if host := item.get("hostname", ""):
            yield from field_errors(f"{field}.hostname", host, names.dns_subdomain)
            if sloppy_address_of(host) is not None:
                yield invalid(f"{field}.hostname", host, IS_ADDRESS)


def _validate_mode(mode: str | None, address: str, field: str) -> Errors:
    if mode is None:
        if address:
            yield required(field, "must be specified when `ip` is set")
    elif not address:
        yield forbidden_field(field, "may not be specified when `ip` is not set")
    elif mode not in _IP_MODES:
        yield not_supported(field, mode, _IP_MODES)
