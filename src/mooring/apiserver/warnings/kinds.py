"""The warnings of each kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from mooring.apiserver.errors import quoted
from mooring.apiserver.resources import RESOURCES, Resource
from mooring.apiserver.types import Object
from mooring.apiserver.validation.metadata import lacks_domain
from mooring.apiserver.validation.storage import MOUNT_OPTIONS
from mooring.apiserver.warnings.addresses import address_warnings, cidr_warnings
from mooring.apiserver.warnings.node_labels import deprecation_of, key_warning, term_warnings
from mooring.apiserver.warnings.pods import (
    VOLUMES,
    claim_spec_warnings,
    name_warning,
    pod_warnings,
    preparation_warnings,
    template_warnings,
)
from mooring.objects.volume_claims import BETA_CLASS

#: Yields the warnings of a new object (the old one is None) or of a changed one.
Warn = Callable[[Object, Object | None], Iterable[str]]

_POD_NAMES = "Pod names and hostnames"
_COMPLETIONS_MAX, _PARALLELISM_MAX = 100_000, 10_000
_ENFORCED_SECRETS = "kubernetes.io/enforce-mountable-secrets"
_INGRESS_CLASS = "kubernetes.io/ingress.class"
_TOPOLOGY_HINTS = "service.kubernetes.io/topology-aware-hints"
_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
_OWN_CONTROLLERS = ("endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io")
_ENDPOINTS_MANAGED_BY = "endpoints.kubernetes.io/managed-by"
_ENDPOINTS_CONTROLLER = "endpoint-controller"
_STATIC_SUFFIX = ".static.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"
#: The labels of pod security standards, and the level that admits all pods.
_POD_SECURITY: Final = tuple(
    f"pod-security.kubernetes.io/{mode}" for mode in ("enforce", "audit", "warn")
)
_PRIVILEGED: Final = "privileged"
_NOT_CALLED = "{subject} stored and not called: this server admits all objects"


def warnings_of(resource: Resource, new: Object, old: Object | None) -> list[str]:
    """Returns the warnings of a stored object.

    Args:
        resource: Its resource.
        new: As it was stored, with defaults.
        old: What it replaced; None for a new object.
    """
    if resource.custom is not None:
        return list(_of_custom_object(new, old))
    warn = _KINDS.get((resource.group, resource.name))
    return [] if warn is None else list(warn(new, old))


def warnings_before(resource: Resource, new: Object) -> list[str]:
    """Returns the warnings of a new object that are known only before it is prepared."""
    if (resource.group, resource.name) != ("", "pods"):
        return []
    return list(preparation_warnings(new))


def warnings_of_status(resource: Resource, new: Object) -> list[str]:
    """Returns the warnings of an object whose status was written."""
    fields = _STATUSES.get((resource.group, resource.name), ())
    return [
        warning
        for names, suffix in fields
        for number, item in enumerate(_items_of(new.get("status") or {}, names))
        for warning in address_warnings(
            f"status.{'.'.join(names)}[{number}]{suffix}", item.get("ip", "")
        )
    ]


def _items_of(status: Object, names: Sequence[str]) -> Sequence[Object]:
    *parents, last = names
    for name in parents:
        status = status.get(name) or {}
    items: Sequence[Object] = status.get(last) or ()
    return items


def has_status_warnings(resource: Resource) -> bool:
    """Returns True if a written status can have warnings."""
    return (resource.group, resource.name) in _STATUSES


def has_update_warnings(resource: Resource) -> bool:
    """Returns whether a change of an object can have warnings: one of a pod has none."""
    key = (resource.group, resource.name)
    return resource.custom is not None or (key in _KINDS and key != ("", "pods"))


def _of_custom_object(new: Object, old: Object | None) -> Iterator[str]:
    """Yields the warnings about added finalizers."""
    before = set((old or {}).get("metadata", {}).get("finalizers") or ())
    for finalizer in sorted(set(new["metadata"].get("finalizers") or ()) - before):
        if lacks_domain(finalizer):
            path = " including a path (/)" if "." in finalizer else ""
            lead = f"metadata.finalizers: {quoted(finalizer)}: prefer a domain-qualified finalizer"
            yield f"{lead} name{path} to avoid accidental conflicts with other finalizer writers"


def _is_same_generation(new: Object, old: Object | None) -> bool:
    if old is None:
        return False
    return bool(new["metadata"].get("generation") == old["metadata"].get("generation"))


def _of_pod(new: Object, old: Object | None) -> Iterator[str]:
    if old is None:
        yield from pod_warnings(new)


def _of_workload(new: Object, old: Object | None) -> Iterator[str]:
    if old is None:
        yield from name_warning(new["metadata"].get("name", ""), _POD_NAMES)
    yield from _of_template(new, old)


def _of_template(new: Object, old: Object | None) -> Iterator[str]:
    if not _is_same_generation(new, old):
        yield from template_warnings(new["spec"].get("template") or {}, "spec.template")


def _of_stateful_set(new: Object, old: Object | None) -> Iterator[str]:
    spec = new["spec"]
    yield from _of_template(new, old)
    for number, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        field = f"spec.volumeClaimTemplates[{number}]" + (".Spec" if old is not None else "")
        yield from claim_spec_warnings(claim.get("spec") or {}, field)
    if spec.get("revisionHistoryLimit", 0) < 0:
        yield (
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; "
            "a value >= 0 is recommended"
        )


def _job_spec_warnings(spec: Object, field: str) -> Iterator[str]:
    is_large = (
        spec.get("completionMode") == "Indexed"
        and spec.get("completions", 0) > _COMPLETIONS_MAX
        and spec.get("parallelism", 0) > _PARALLELISM_MAX
    )
    if is_large:
        yield (
            f"{field}: In Indexed Jobs with a number of completions higher than 10^5 and a "
            "parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes "
            "when a big number of indexes fail"
        )
    yield from template_warnings(spec.get("template") or {}, f"{field}.template")


def _of_job(new: Object, old: Object | None) -> Iterator[str]:
    if old is None:
        yield from name_warning(new["metadata"].get("name", ""), _POD_NAMES)
    if not _is_same_generation(new, old):
        yield from _job_spec_warnings(new["spec"], "spec")


def _of_cron_job(new: Object, old: Object | None) -> Iterator[str]:
    spec = new["spec"]
    if old is None:
        yield from name_warning(new["metadata"].get("name", ""), _POD_NAMES)
    if not _is_same_generation(new, old):
        job_spec = (spec.get("jobTemplate") or {}).get("spec") or {}
        yield from _job_spec_warnings(job_spec, "spec.jobTemplate.spec")
    if old is not None and "TZ" in spec.get("schedule", ""):
        yield (
            "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "
            "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
        )


def _of_service(new: Object, _old: Object | None) -> Iterator[str]:
    spec, annotations = new["spec"], new["metadata"].get("annotations") or {}
    if _TOPOLOGY_HINTS in annotations:
        mode = "service.kubernetes.io/topology-mode"
        yield f"annotation {_TOPOLOGY_HINTS} is deprecated, please use {mode} instead"
    kind, external = spec.get("type"), spec.get("externalIPs") or ()
    is_headless = kind == "ClusterIP" and spec.get("clusterIP") == "None"
    if spec.get("clusterIP") not in (None, "", "None"):
        for number, address in enumerate(spec.get("clusterIPs") or ()):
            yield from address_warnings(f"spec.clusterIPs[{number}]", address)
    if is_headless:
        if spec.get("loadBalancerIP"):
            yield "spec.loadBalancerIP is ignored for headless services"
        if external:
            yield "spec.externalIPs is ignored for headless services"
        if spec.get("sessionAffinity") != "None":
            yield "spec.SessionAffinity is ignored for headless services"
    for number, address in enumerate(external):
        yield from address_warnings(f"spec.externalIPs[{number}]", address)
    if external and not is_headless and kind != "ExternalName":
        yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
    if address := spec.get("loadBalancerIP"):
        yield from address_warnings("spec.loadBalancerIP", address)
    for number, cidr in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        yield from cidr_warnings(f"spec.loadBalancerSourceRanges[{number}]", cidr)
    if kind == "ExternalName" and external:
        yield 'spec.externalIPs is ignored when spec.type is "ExternalName"'
    if kind != "ExternalName" and spec.get("externalName"):
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'
    if spec.get("trafficDistribution") == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


def _of_node(new: Object, _old: Object | None) -> Iterator[str]:
    spec = new["spec"]
    if "configSource" in spec:
        yield "spec.configSource: the feature is removed"
    if spec.get("externalID"):
        yield "spec.externalID: this field is deprecated, and is unused by Kubernetes"
    for number, cidr in enumerate(spec.get("podCIDRs") or ()):
        yield from cidr_warnings(f"spec.podCIDRs[{number}]", cidr)


def _of_volume(new: Object, _old: Object | None) -> Iterator[str]:
    spec, annotations = new["spec"], new["metadata"].get("annotations") or {}
    replaced = (
        (BETA_CLASS, 'deprecated since v1.8; use "storageClassName" attribute instead'),
        (MOUNT_OPTIONS, 'deprecated since v1.31; use "mountOptions" attribute instead'),
    )
    for key, problem in replaced:
        if key in annotations:
            yield f"metadata.annotations[{key}]: {problem}"
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        yield (
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. "
            "Instead, the recommended approach is to use dynamic provisioning."
        )
    required = (spec.get("nodeAffinity") or {}).get("required") or {}
    for number, term in enumerate(required.get("nodeSelectorTerms") or ()):
        field = f"spec.nodeAffinity.required.nodeSelectorTerms[{number}]"
        yield from term_warnings(term, field, checks_values=False)
    for kind in ("cephfs", "photonPersistentDisk", "scaleIO", "storageOS", "glusterfs", "rbd"):
        if kind in spec:
            yield f"spec.{kind}: {VOLUMES[kind]}"


def _of_claim(new: Object, _old: Object | None) -> Iterator[str]:
    if BETA_CLASS in (new["metadata"].get("annotations") or {}):
        problem = 'deprecated since v1.8; use "storageClassName" attribute instead'
        yield f"metadata.annotations[{BETA_CLASS}]: {problem}"
    yield from claim_spec_warnings(new["spec"], "spec")


def _of_storage_class(new: Object, _old: Object | None) -> Iterator[str]:
    for number, term in enumerate(new.get("allowedTopologies") or ()):
        for position, expression in enumerate(term.get("matchLabelExpressions") or ()):
            if problem := deprecation_of(expression.get("key", "")):
                inner = f"allowedTopologies[{number}].matchLabelExpressions[{position}]"
                yield f"{inner}.key: {problem}"


def _of_capacity(new: Object, _old: Object | None) -> Iterator[str]:
    selector = new.get("nodeTopology") or {}
    for number, expression in enumerate(selector.get("matchExpressions") or ()):
        field = f"nodeTopology.matchExpressions[{number}].key"
        yield from key_warning(field, expression.get("key", ""))
    for label in selector.get("matchLabels") or ():
        if problem := deprecation_of(label):
            yield f"nodeTopology.matchLabels.{label}: {problem}"


def _of_runtime_class(new: Object, _old: Object | None) -> Iterator[str]:
    for label in (new.get("scheduling") or {}).get("nodeSelector") or ():
        if problem := deprecation_of(label):
            yield f"scheduling.nodeSelector: {problem}"


def _of_ingress(new: Object, old: Object | None) -> Iterator[str]:
    annotations = new["metadata"].get("annotations") or {}
    if old is None and _INGRESS_CLASS in annotations and "ingressClassName" not in new["spec"]:
        name = quoted(_INGRESS_CLASS)
        yield f"annotation {name} is deprecated, please use 'spec.ingressClassName' instead"


def _of_policy(new: Object, _old: Object | None) -> Iterator[str]:
    peers = (
        (f"spec.{direction}[{number}].{side}[{position}].ipBlock", peer.get("ipBlock") or {})
        for direction, side in (("ingress", "from"), ("egress", "to"))
        for number, rule in enumerate(new["spec"].get(direction) or ())
        for position, peer in enumerate(rule.get(side) or ())
    )
    for field, block in peers:
        yield from cidr_warnings(f"{field}.cidr", block.get("cidr", ""))
        for number, cidr in enumerate(block.get("except") or ()):
            yield from cidr_warnings(f"{field}.except[{number}]", cidr)


def _of_account(new: Object, old: Object | None) -> Iterator[str]:
    before = {} if old is None else old["metadata"].get("annotations") or {}
    if _ENFORCED_SECRETS in (new["metadata"].get("annotations") or {}).keys() - before.keys():
        yield (
            f"metadata.annotations[{_ENFORCED_SECRETS}]: deprecated in v1.32+; prefer separate "
            "namespaces to isolate access to mounted secrets"
        )


def _of_csi_driver(new: Object, old: Object | None) -> Iterator[str]:
    spec, before = new["spec"], {} if old is None else old["spec"]
    requests = spec.get("tokenRequests")
    is_new = requests != before.get("tokenRequests")
    if requests and is_new and "serviceAccountTokenInSecrets" not in spec:
        yield (
            "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to "
            "true to prevent possible logging of tokens in volume attributes"
        )


def _of_endpoints(new: Object, _old: Object | None) -> Iterator[str]:
    if (new["metadata"].get("labels") or {}).get(_ENDPOINTS_MANAGED_BY) == _ENDPOINTS_CONTROLLER:
        return
    for number, subset in enumerate(new.get("subsets") or ()):
        for name in ("addresses", "notReadyAddresses"):
            for position, address in enumerate(subset.get(name) or ()):
                field = f"subsets[{number}].{name}[{position}].ip"
                yield from address_warnings(field, address.get("ip", ""))


def _of_endpoint_slice(new: Object, old: Object | None) -> Iterator[str]:
    if old is None and new.get("addressType") == "FQDN":
        yield "spec.addressType: FQDN endpoints are deprecated"
    is_own = (new["metadata"].get("labels") or {}).get(_MANAGED_BY) in _OWN_CONTROLLERS
    if is_own or new.get("addressType") == "FQDN":
        return
    for number, endpoint in enumerate(new.get("endpoints") or ()):
        for position, address in enumerate(endpoint.get("addresses") or ()):
            yield from address_warnings(f"endpoints[{number}].addresses[{position}]", address)


def _of_pod_template(new: Object, old: Object | None) -> Iterator[str]:
    if not _is_same_generation(new, old):
        yield from template_warnings(new.get("template") or {}, "template")


def _of_admission(new: Object, _old: Object | None) -> Iterator[str]:
    if new["metadata"].get("name", "").endswith(_STATIC_SUFFIX):
        yield (
            f"metadata.name: names ending with {quoted(_STATIC_SUFFIX)} are reserved for static "
            "manifest-based configurations and cannot be managed via the API"
        )
    if "webhooks" in new:
        yield _NOT_CALLED.format(subject="webhooks are")
    elif new["kind"].endswith("Binding"):
        yield "the binding has no effect: this server evaluates no admission policies"
    else:
        yield _NOT_CALLED.format(subject="the policy is")


def _of_namespace(new: Object, old: Object | None) -> Iterator[str]:
    labels = new["metadata"].get("labels") or {}
    before = {} if old is None else old["metadata"].get("labels") or {}
    for name in _POD_SECURITY:
        level = labels.get(name, _PRIVILEGED)
        if level not in (_PRIVILEGED, before.get(name)):
            yield f"metadata.labels[{name}]: has no effect: this server admits pods of all levels"


#: Resource -> the lists of addresses in its status: their names, and the rest of a field's path.
_LOAD_BALANCER: Final = ((("loadBalancer", "ingress"), ""),)
_STATUSES: Final[Mapping[tuple[str, str], tuple[tuple[tuple[str, ...], str], ...]]] = (
    MappingProxyType(
        {
            ("", "pods"): ((("podIPs",), ".ip"), (("hostIPs",), ".ip")),
            ("", "services"): _LOAD_BALANCER,
            ("networking.k8s.io", "ingresses"): _LOAD_BALANCER,
        }
    )
)
_KINDS: Final[Mapping[tuple[str, str], Warn]] = MappingProxyType(
    {
        ("", "pods"): _of_pod,
        ("", "services"): _of_service,
        ("", "namespaces"): _of_namespace,
        ("", "endpoints"): _of_endpoints,
        ("", "nodes"): _of_node,
        ("", "persistentvolumes"): _of_volume,
        ("", "persistentvolumeclaims"): _of_claim,
        ("", "replicationcontrollers"): _of_workload,
        ("", "serviceaccounts"): _of_account,
        ("", "podtemplates"): _of_pod_template,
        **{
            (resource.group, resource.name): _of_admission
            for resource in RESOURCES
            if resource.group == _ADMISSION
        },
        ("apps", "deployments"): _of_workload,
        ("apps", "replicasets"): _of_workload,
        ("apps", "daemonsets"): _of_template,
        ("apps", "statefulsets"): _of_stateful_set,
        ("batch", "jobs"): _of_job,
        ("batch", "cronjobs"): _of_cron_job,
        ("discovery.k8s.io", "endpointslices"): _of_endpoint_slice,
        ("networking.k8s.io", "ingresses"): _of_ingress,
        ("networking.k8s.io", "networkpolicies"): _of_policy,
        ("node.k8s.io", "runtimeclasses"): _of_runtime_class,
        ("storage.k8s.io", "storageclasses"): _of_storage_class,
        ("storage.k8s.io", "csistoragecapacities"): _of_capacity,
        ("storage.k8s.io", "csidrivers"): _of_csi_driver,
    }
)
