"""Validation of ValidatingWebhookConfigurations and MutatingWebhookConfigurations.

Source: pkg/apis/admissionregistration/validation/validation.go, k8s.io/apiserver
pkg/util/webhook/validation.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, urlsplit

from mooring.apiserver import names
from mooring.apiserver.errors import Errors, duplicate, invalid, not_supported, required
from mooring.apiserver.validation.admission.match_rules import (
    FAILURE_POLICIES,
    MATCH_POLICIES,
    REINVOCATION_POLICIES,
    validate_conditions,
    validate_rule,
)
from mooring.apiserver.validation.metadata import validate_label_selector
from mooring.apiserver.validation.rules import one_of

if TYPE_CHECKING:
    from mooring.apiserver.types import Object

_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun")
_REVIEW_VERSIONS: Final = ("v1", "v1beta1")
_TIMEOUT_S_MAX: Final = 30
_SEGMENTS_MIN: Final = 3
_URL_FORM: Final = "; desired format: https://host[/path]"


def validate_configuration(configuration: Object) -> Errors:
    """Validates a new or changed configuration of either kind."""
    is_mutating = configuration["kind"].startswith("Mutating")
    names_before: set[str] = set()
    for number, hook in enumerate(configuration.get("webhooks") or ()):
        field, name = f"webhooks[{number}]", hook.get("name", "")
        yield from _validate_hook(hook, field, is_mutating=is_mutating)
        versions = hook.get("admissionReviewVersions") or []
        yield from _validate_versions(versions, f"{field}.admissionReviewVersions")
        if name and name in names_before:
            yield duplicate(f"{field}.name", name)
        names_before.add(name)


def webhooks_differ(new: Object, old: Object) -> bool:
    """Returns True if the webhooks have changed."""
    return new.get("webhooks") != old.get("webhooks")


def _validate_hook(hook: Object, field: str, *, is_mutating: bool) -> Errors:
    yield from _validate_name(hook.get("name", ""), f"{field}.name")
    for number, rule in enumerate(hook.get("rules") or ()):
        yield from validate_rule(rule, f"{field}.rules[{number}]")
    yield from one_of(f"{field}.failurePolicy", hook.get("failurePolicy"), FAILURE_POLICIES)
    yield from one_of(f"{field}.matchPolicy", hook.get("matchPolicy"), MATCH_POLICIES)
    effects = hook.get("sideEffects")
    if effects is None:
        problem = f"must specify one of {', '.join(_SIDE_EFFECTS)}"
        yield required(f"{field}.sideEffects", problem)
    elif effects not in _SIDE_EFFECTS:
        yield not_supported(f"{field}.sideEffects", effects, _SIDE_EFFECTS)
    timeout_s = hook.get("timeoutSeconds")
    if timeout_s is not None and not 1 <= timeout_s <= _TIMEOUT_S_MAX:
        problem = f"the timeout value must be between 1 and {_TIMEOUT_S_MAX} seconds"
        yield invalid(f"{field}.timeoutSeconds", timeout_s, problem)
    for name in ("namespaceSelector", "objectSelector"):
        yield from validate_label_selector(hook.get(name), f"{field}.{name}")
    if is_mutating:
        policy = hook.get("reinvocationPolicy")
        yield from one_of(f"{field}.reinvocationPolicy", policy, REINVOCATION_POLICIES)
    yield from validate_client(hook.get("clientConfig") or {}, f"{field}.clientConfig")
    yield from validate_conditions(hook.get("matchConditions") or (), f"{field}.matchConditions")


def _validate_name(name: str, field: str) -> Errors:
    problems = names.dns_subdomain(name)
    if not name:
        yield required(field)
    elif problems:
        yield invalid(field, name, ",".join(problems))
    elif name.count(".") < _SEGMENTS_MIN - 1:
        problem = "should be a domain with at least three segments separated by dots"
        yield invalid(field, name, problem)


def _validate_versions(versions: list[str], field: str) -> Errors:
    known_versions = ", ".join(_REVIEW_VERSIONS)
    if not versions:
        yield required(field, f"must specify one of {known_versions}")
        return
    for number, version in enumerate(versions):
        if version in versions[:number]:
            yield invalid(f"{field}[{number}]", version, "duplicate version")
            continue
        yield from (
            invalid(f"{field}[{number}]", version, problem)
            for problem in names.dns_1035_label(version)
        )
    if not set(versions) & set(_REVIEW_VERSIONS):
        yield invalid(field, versions, f"must include at least one of {known_versions}")


def validate_client(client: Object, field: str) -> Errors:
    """Validates the address of a webhook: a URL or a service."""
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        yield required(field, "exactly one of url or service is required")
    elif url is not None:
        yield from _validate_url(url, f"{field}.url")
    else:
        yield from _validate_service(service, f"{field}.service")


def _validate_url(text: str, field: str) -> Errors:
    try:
        url = urlsplit(text)
    except ValueError as error:
        yield required(field, f"url must be a valid URL: {error}{_URL_FORM}")
        return
    if url.scheme != "https":
        yield invalid(field, url.scheme, f"'https' is the only allowed URL scheme{_URL_FORM}")
    user, _, host = url.netloc.rpartition("@")
    if not host:
        yield invalid(field, "", f"host must be specified{_URL_FORM}")
    yield from _validate_extras(url, user, field)


def _validate_extras(url: SplitResult, user: str, field: str) -> Errors:
    if "@" in url.netloc:
        yield invalid(field, user, "user information is not permitted in the URL")
    if url.fragment:
        yield invalid(field, url.fragment, "fragments are not permitted in the URL")
    if url.query:
        yield invalid(field, url.query, "query parameters are not permitted in the URL")


def _validate_service(service: Any, field: str) -> Errors:
    # As upstream, which takes the one for the other.
    for title, name in (("name", "namespace"), ("namespace", "name")):
        if not service.get(name):
            yield required(f"{field}.{title}")
    port, path = service.get("port", 0), service.get("path")
    if problems := names.port_number(port):
        yield invalid(f"{field}.port", port, f"port is not valid: {', '.join(problems)}")
    if not path or path == "/":
        return
    if path == "//":
        yield invalid(f"{field}.path", path, "segment[0] may not be empty")
        return
    if not path.startswith("/"):
        yield invalid(f"{field}.path", path, "must start with a '/'")
    for number, segment in enumerate(path[1:].removesuffix("/").split("/")):
        if not segment:
            yield invalid(f"{field}.path", path, f"segment[{number}] may not be empty")
            continue
        yield from (
            invalid(f"{field}.path", path, f"segment[{number}]: {problem}")
            for problem in names.dns_subdomain(segment)
        )
