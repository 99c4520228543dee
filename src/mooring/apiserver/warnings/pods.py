"""Warnings about pods and the templates of pods.

Source: pkg/api/pod/warnings.go (warningsForPodSpecAndMeta), in its order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from mooring.apiserver import names
from mooring.apiserver.errors import quoted
from mooring.apiserver.types import Object
from mooring.apiserver.warnings.addresses import address_warnings
from mooring.apiserver.warnings.containers import (
    containers_of,
    fraction_warning,
    port_warnings,
    resource_warnings,
    variable_warnings,
)
from mooring.apiserver.warnings.node_labels import deprecation_of, key_warning, term_warnings
from mooring.apiserver.warnings.virtual_paths import overlap_warnings
from mooring.objects.defaulting.app_armor import (
    APP_ARMOR_PREFIX,
    annotated_profiles,
    profile_of_annotation,
)

_ANNOTATIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "scheduler.alpha.kubernetes.io/critical-pod": (
            'non-functional in v1.16+; use the "priorityClassName" field instead'
        ),
        "security.alpha.kubernetes.io/sysctls": (
            'non-functional in v1.11+; use the "sysctls" field instead'
        ),
        "security.alpha.kubernetes.io/unsafe-sysctls": (
            'non-functional in v1.11+; use the "sysctls" field instead'
        ),
    }
)
#: Kind of a volume -> what became of it.
VOLUMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
        "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
        "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
        "flocker": "deprecated in v1.22, non-functional in v1.25+",
        "storageOS": "deprecated in v1.22, non-functional in v1.25+",
        "quobyte": "deprecated in v1.22, non-functional in v1.25+",
        "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
        "cephfs": "deprecated in v1.28, non-functional in v1.31+",
        "rbd": "deprecated in v1.28, non-functional in v1.31+",
    }
)
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_NO_SELECTOR = "a null labelSelector results in matching no pod"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def name_warning(name: str, use: str) -> Iterator[str]:
    """Yields the warning of a name that is no DNS label, though it is ``use``."""
    if problems := names.dns_label(name):
        yield (
            f"metadata.name: this is used in {use}, which can result in surprising behavior; "
            f"a DNS label is recommended: [{' '.join(problems)}]"
        )


def pod_warnings(pod: Object) -> Iterator[str]:
    """Yields the warnings of a new pod."""
    yield from name_warning(pod["metadata"].get("name", ""), "the Pod's hostname")
    yield from _warnings(pod, "")


def preparation_warnings(pod: Object) -> Iterator[str]:
    """Yields the warnings of annotations that become fields of a pod: before it is prepared."""
    for key, _, _ in annotated_profiles(pod):
        yield app_armor_warning("metadata.annotations", key)


def template_warnings(template: Object, field: str) -> Iterator[str]:
    """Yields the warnings of a template of pods."""
    yield from _warnings(template, f"{field}.")


def claim_spec_warnings(spec: Object, field: str) -> Iterator[str]:
    """Yields the warnings of the spec of a claim."""
    resources = spec.get("resources") or {}
    for kind in ("requests", "limits"):
        amounts = resources.get(kind) or {}
        yield from fraction_warning(amounts, "storage", f"{field}.resources.{kind}")


def _warnings(obj: Object, prefix: str) -> Iterator[str]:
    spec, field = obj.get("spec") or {}, f"{prefix}spec"
    metadata = obj.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    annotations_field = f"{prefix}metadata.annotations"
    yield from _node_warnings(spec, field)
    for key in _ANNOTATIONS.keys() & annotations.keys() if annotations else ():
        yield f"{annotations_field}[{key}]: {_ANNOTATIONS[key]}"
    if volumes := spec.get("volumes"):
        yield from _volume_warnings(volumes, f"{field}.volumes")
    if "hostAliases" in spec or "imagePullSecrets" in spec:
        yield from _list_warnings(spec, field)
    if overhead := spec.get("overhead"):
        for resource in ("memory", "ephemeral-storage"):
            yield from fraction_warning(overhead, resource, f"{field}.overhead")
    containers = containers_of(spec, field)
    if annotations:
        yield from _seccomp_warning(spec, annotations, annotations_field)
    for container_field, container in containers:
        if annotations:
            yield from _profile_warnings(spec, container, annotations, annotations_field, prefix)
        yield from resource_warnings(container, container_field)
        yield from variable_warnings(container, container_field)
    yield from port_warnings(containers)
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        problem = "must be >= 0; negative values are invalid and will be treated as 1"
        yield f"{field}.terminationGracePeriodSeconds: {problem}"
    if affinity := spec.get("affinity"):
        yield from _affinity_warnings(affinity, f"{field}.affinity")
    if dns := spec.get("dnsConfig"):
        for number, server in enumerate(dns.get("nameservers") or ()):
            yield from address_warnings(f"{field}.dnsConfig.nameservers[{number}]", server)
    for number, alias in enumerate(spec.get("hostAliases") or ()):
        yield from address_warnings(f"{field}.hostAliases[{number}].ip", alias.get("ip", ""))


def _node_warnings(spec: Object, field: str) -> Iterator[str]:
    """Yields the warnings of what selects nodes."""
    for label in spec.get("nodeSelector") or ():
        if problem := deprecation_of(label):
            yield f"{field}.nodeSelector[{label}]: {problem}"
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    inner = f"{field}.affinity.nodeAffinity"
    for number, term in enumerate((affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()):
        term_field = f"{inner}.{_REQUIRED}.nodeSelectorTerms[{number}]"
        yield from term_warnings(term, term_field, checks_values=False)
    for number, term in enumerate(affinity.get(_PREFERRED) or ()):
        term_field = f"{inner}.{_PREFERRED}[{number}].preference"
        yield from term_warnings(term.get("preference") or {}, term_field, checks_values=True)
    for number, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        inner = f"{field}.topologySpreadConstraints[{number}]"
        yield from key_warning(f"{inner}.topologyKey", constraint.get("topologyKey", ""))
        if constraint.get("labelSelector") is None:
            yield f"{inner}.labelSelector: {_NO_SELECTOR}"


def _volume_warnings(volumes: Any, field: str) -> Iterator[str]:
    for number, volume in enumerate(volumes):
        for kind in VOLUMES.keys() & volume.keys():
            yield f"{field}[{number}].{kind}: {VOLUMES[kind]}"
        template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if template:
            inner = f"{field}[{number}].ephemeral.volumeClaimTemplate.spec"
            yield from claim_spec_warnings(template.get("spec") or {}, inner)
    yield from overlap_warnings(volumes)


def _list_warnings(spec: Object, field: str) -> Iterator[str]:
    """Yields the warnings of lists with items that are there twice."""
    for kind, key in (("hostAliases", "ip"), ("imagePullSecrets", "name")):
        values: set[str] = set()
        for number, item in enumerate(spec.get(kind) or ()):
            value = item.get(key, "")
            if value in values:
                yield f"{field}.{kind}[{number}].{key}: duplicate {key} {quoted(value)}"
            values.add(value)
    for number, item in enumerate(spec.get("imagePullSecrets") or ()):
        if not item.get("name"):
            yield f'{field}.imagePullSecrets[{number}].name: invalid empty name ""'


def _seccomp_warning(spec: Object, annotations: Object, field: str) -> Iterator[str]:
    has_profile = "seccompProfile" in (spec.get("securityContext") or {})
    if _SECCOMP_POD in annotations and not has_profile:
        yield _non_functional(f"{field}[{_SECCOMP_POD}]")


def _profile_warnings(
    spec: Object, container: Object, annotations: Object, field: str, prefix: str
) -> Iterator[str]:
    """Yields the warnings of annotations that stand for a security profile of a container."""
    context = container.get("securityContext") or {}
    key = f"{_SECCOMP_CONTAINER}{container.get('name', '')}"
    if key in annotations and "seccompProfile" not in context:
        yield _non_functional(f"{field}[{key}]")
    # Those of a pod have become fields when it was prepared.
    key = f"{APP_ARMOR_PREFIX}{container.get('name', '')}"
    if prefix and key in annotations and "appArmorProfile" not in context:
        of_pod = (spec.get("securityContext") or {}).get("appArmorProfile")
        if of_pod is None or of_pod != profile_of_annotation(annotations[key]):
            yield app_armor_warning(field, key)


def app_armor_warning(field: str, key: str) -> str:
    """Returns the warning of an annotation that stands for an AppArmor profile."""
    return f'{field}[{key}]: deprecated since v1.30; use the "appArmorProfile" field instead'


def _non_functional(field: str) -> str:
    return f'{field}: non-functional in v1.27+; use the "seccompProfile" field instead'


def _affinity_warnings(affinity: Object, field: str) -> Iterator[str]:
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(kind) or {}
        for number, term in enumerate(terms.get(_REQUIRED) or ()):
            if term.get("labelSelector") is None:
                yield f"{field}.{kind}.{_REQUIRED}[{number}].labelSelector: {_NO_SELECTOR}"
        for number, weighted in enumerate(terms.get(_PREFERRED) or ()):
            term = weighted.get("podAffinityTerm") or {}
            if term.get("labelSelector") is None:
                inner = f"{field}.{kind}.{_PREFERRED}[{number}].podAffinityTerm"
                yield f"{inner}.labelSelector: {_NO_SELECTOR}"
