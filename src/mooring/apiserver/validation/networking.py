"""Validation of Ingresses, IngressClasses and NetworkPolicies, with kube-apiserver's messages.

Source: pkg/apis/networking/validation/validation.go.
Differs: warnings about annotations are not covered. The status of an Ingress:
``status/addresses.py``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from mooring.apiserver import names
from mooring.apiserver.addresses import is_strict_subset, network_of, sloppy_address_of
from mooring.apiserver.errors import (
    Errors,
    forbidden_field,
    invalid,
    not_supported,
    required,
    too_long,
)
from mooring.apiserver.validation.addresses import IS_ADDRESS, validate_cidr
from mooring.apiserver.validation.metadata import validate_label_selector
from mooring.apiserver.validation.rules import field_errors, immutable, required_value

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from mooring.apiserver.types import Object

_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_PATH_SEQUENCES = ("//", "/./", "/../", "%2f", "%2F")
_PATH_SUFFIXES = ("/..", "/.")
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_DIRECTIONS = ("Ingress", "Egress")
_PEERS = (("ingress", "from"), ("egress", "to"))
_CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_CONTROLLER_LENGTH_MAX = 250
_WILDCARD = r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_WILDCARD_PROBLEM = names.pattern_problem(
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which "
    "must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric "
    "character",
    _WILDCARD,
    "*.example.com",
)


def validate_ingress(ingress: Object) -> Errors:
    """Validates a new Ingress."""
    yield from validate_ingress_update(ingress, ingress)
    annotation = ingress["metadata"].get("annotations", {}).get(_CLASS_ANNOTATION)
    name = ingress["spec"].get("ingressClassName")
    if None not in (annotation, name) and annotation != name:
        problem = "must match `ingressClassName` when both are specified"
        yield invalid(f"annotations.{_CLASS_ANNOTATION}", annotation, problem)


def validate_ingress_update(ingress: Object, _old: Object) -> Errors:
    """Validates a changed Ingress."""
    spec = ingress["spec"]
    backend, rules = spec.get("defaultBackend"), spec.get("rules") or ()
    if not rules and backend is None:
        yield invalid("spec", None, "either `defaultBackend` or `rules` must be specified")
    if backend is not None:
        yield from _validate_backend(backend, "spec.defaultBackend")
    for number, rule in enumerate(rules):
        yield from _validate_rule(rule, f"spec.rules[{number}]")
    for number, entry in enumerate(spec.get("tls") or ()):
        for index, host in enumerate(entry.get("hosts") or ()):
            yield from _validate_host(host, f"spec.tls[{number}].hosts[{index}]")
        if entry.get("secretName"):
            field = f"spec.tls[{number}].secretName"
            yield from field_errors(field, entry["secretName"], names.dns_subdomain)
    if "ingressClassName" in spec:
        name = spec["ingressClassName"]
        yield from field_errors("spec.ingressClassName", name, names.dns_subdomain)


def _validate_host(host: str, field: str) -> Errors:
    if "*" not in host:
        yield from field_errors(field, host, names.dns_subdomain)
    elif not re.fullmatch(_WILDCARD, host):
        yield invalid(field, host, _WILDCARD_PROBLEM)


def _validate_rule(rule: Mapping[str, Any], field: str) -> Errors:
    host = rule.get("host")
    if host:
        if sloppy_address_of(host) is not None:
            yield invalid(f"{field}.host", host, IS_ADDRESS)
        yield from _validate_host(host, f"{field}.host")
    http = rule.get("http")
    if http is None:
        return
    if not http.get("paths"):
        yield required(f"{field}.http.paths")
    for number, path in enumerate(http.get("paths") or ()):
        yield from _validate_path(path, f"{field}.http.paths[{number}]")


def _validate_path(path: Mapping[str, Any], field: str) -> Errors:
    kind, text = path.get("pathType"), path.get("path", "")
    if kind is None:
        yield required(f"{field}.pathType", "pathType must be specified")
        return
    if kind not in _PATH_TYPES:
        yield not_supported(f"{field}.pathType", kind, _PATH_TYPES)
    elif not text.startswith("/") and (text or kind != "ImplementationSpecific"):
        yield invalid(f"{field}.path", text, "must be an absolute path")
    if kind in ("Exact", "Prefix"):
        for sequence in _PATH_SEQUENCES:
            if sequence in text:
                yield invalid(f"{field}.path", text, f"must not contain '{sequence}'")
        for suffix in _PATH_SUFFIXES:
            if text.endswith(suffix):
                yield invalid(f"{field}.path", text, f"cannot end with '{suffix}'")
    yield from _validate_backend(path["backend"], f"{field}.backend")


def _validate_backend(backend: Mapping[str, Any], field: str) -> Errors:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        yield invalid(field, "", "cannot set both resource and service backends")
    elif resource is not None:
        yield from _validate_reference(resource, f"{field}.resource")
    elif service is None:
        yield invalid(field, "", "resource or service backend is required")
    else:
        yield from required_value(f"{field}.service.name", service["name"], names.dns_label)
        yield from _validate_backend_port(service.get("port") or {}, field)


def _validate_backend_port(port: Mapping[str, Any], field: str) -> Errors:
    name, number = port.get("name"), port.get("number")
    if name and number:
        yield invalid(field, "", "cannot set both port name & port number")
    elif name:
        yield from field_errors(f"{field}.service.port.name", name, names.port_name)
    elif number:
        yield from field_errors(f"{field}.service.port.number", number, names.port_number)
    else:
        yield required(field, "port name or number is required")


def _validate_reference(reference: Mapping[str, Any], field: str) -> Errors:
    if reference.get("apiGroup") is not None:
        yield from field_errors(f"{field}.apiGroup", reference["apiGroup"], names.dns_subdomain)
    for name in ("kind", "name"):
        yield from required_value(f"{field}.{name}", reference[name], names.path_segment)


def validate_ingress_class(ingress_class: Object) -> Errors:
    """Validates an IngressClass."""
    spec = ingress_class["spec"]
    controller = spec.get("controller", "")
    if len(controller) > _CONTROLLER_LENGTH_MAX:
        yield too_long("spec.controller", _CONTROLLER_LENGTH_MAX)
    host, slash, path = controller.partition("/")
    if not controller:
        yield required("spec.controller")
    elif not slash or not host or not path:
        problem = 'must be a domain-prefixed path (such as "acme.io/foo")'
        yield invalid("spec.controller", controller, problem)
    else:
        yield from field_errors("spec.controller", host, names.dns_subdomain)
    parameters = spec.get("parameters")
    if parameters is None:
        return
    yield from _validate_reference(parameters, "spec.parameters")
    scope, field = parameters.get("scope"), "spec.parameters"
    if scope not in ("Cluster", "Namespace"):
        yield not_supported(f"{field}.scope", scope, ("Cluster", "Namespace"))
    elif scope == "Namespace" and not parameters.get("namespace"):
        yield required(f"{field}.namespace", "`parameters.scope` is set to 'Namespace'")
    elif scope == "Cluster" and parameters.get("namespace") is not None:
        problem = "`parameters.scope` is set to 'Cluster'"
        yield forbidden_field(f"{field}.namespace", problem)


def validate_ingress_class_update(new: Object, old: Object) -> Errors:
    """Validates a changed IngressClass; its controller is immutable."""
    yield from validate_ingress_class(new)
    yield from immutable(new["spec"], old["spec"], "controller", parent="spec.")


def validate_network_policy(policy: Object, earlier: Container[str] = ()) -> Errors:
    """Validates a NetworkPolicy; ``earlier`` ranges stay valid."""
    spec = policy["spec"]
    yield from validate_label_selector(spec.get("podSelector"), "spec.podSelector")
    for direction, peers in _PEERS:
        for number, rule in enumerate(spec.get(direction) or ()):
            field = f"spec.{direction}[{number}]"
            for index, port in enumerate(rule.get("ports") or ()):
                yield from _validate_port(port, f"{field}.ports[{index}]")
            for index, peer in enumerate(rule.get(peers) or ()):
                yield from _validate_peer(peer, f"{field}.{peers}[{index}]", earlier)
    types = spec.get("policyTypes") or ()
    if len(types) > len(_DIRECTIONS):
        yield invalid("spec.policyTypes", types, "may not specify more than two policyTypes")
        return
    for number, name in enumerate(types):
        if name not in _DIRECTIONS:
            yield not_supported(f"spec.policyTypes[{number}]", name, _DIRECTIONS)


def validate_network_policy_update(new: Object, old: Object) -> Errors:
    """Validates a changed NetworkPolicy: the ranges that it has already stay valid."""
    blocks = [
        peer["ipBlock"]
        for direction, peers in _PEERS
        for rule in old["spec"].get(direction) or ()
        for peer in rule.get(peers) or ()
        if "ipBlock" in peer
    ]
    texts = {text for block in blocks for text in (block.get("cidr"), *(block.get("except") or ()))}
    yield from validate_network_policy(new, texts)


def _validate_port(port: Mapping[str, Any], field: str) -> Errors:
    if port.get("protocol") not in (None, *_PROTOCOLS):
        yield not_supported(f"{field}.protocol", port["protocol"], _PROTOCOLS)
    number, end = port.get("port"), port.get("endPort")
    if isinstance(number, int):
        yield from field_errors(f"{field}.port", number, names.port_number)
        if end is not None:
            if end < number:
                problem = "must be greater than or equal to `port`"
                yield invalid(f"{field}.endPort", number, problem)
            yield from field_errors(f"{field}.endPort", end, names.port_number)
    elif end is not None:
        state = "non-numeric" if number is not None else "not specified"
        yield invalid(f"{field}.endPort", end, f"may not be specified when `port` is {state}")
    if isinstance(number, str):
        yield from field_errors(f"{field}.port", number, names.port_name)


def _validate_peer(peer: Mapping[str, Any], field: str, earlier: Container[str]) -> Errors:
    selectors = [name for name in ("podSelector", "namespaceSelector") if name in peer]
    for name in selectors:
        yield from validate_label_selector(peer[name], f"{field}.{name}")
    if "ipBlock" in peer:
        yield from _validate_block(peer["ipBlock"], f"{field}.ipBlock", earlier)
        if selectors:
            yield forbidden_field(field, "may not specify both ipBlock and another peer")
    elif not selectors:
        yield required(field, "must specify a peer")


def _validate_block(block: Mapping[str, Any], field: str, earlier: Container[str]) -> Errors:
    text = block.get("cidr", "")
    if not text:
        yield required(f"{field}.cidr")
        return
    yield from validate_cidr(text, f"{field}.cidr", earlier)
    network = network_of(text)
    if network is None:
        return
    for number, inner_text in enumerate(block.get("except") or ()):
        inner, inner_field = network_of(inner_text), f"{field}.except[{number}]"
        yield from validate_cidr(inner_text, inner_field, earlier)
        if inner is not None and not is_strict_subset(inner, network):
            yield invalid(inner_field, inner_text, "must be a strict subset of `cidr`")
