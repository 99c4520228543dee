"""The strategy of every resource.

Source: the strategy.go files below pkg/registry, one for each resource.
"""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from mooring.apiserver import names
from mooring.apiserver.object_fields import restore_fields
from mooring.apiserver.registry import pod_strategy
from mooring.apiserver.registry.custom_strategy import DEFINITION, strategy_of_custom
from mooring.apiserver.registry.service_addresses import keep_addresses, validate_addresses
from mooring.apiserver.registry.strategy import (
    STATUS,
    Strategy,
    SubresourceStrategy,
    keep_spec,
    keep_spec_and_metadata,
    keep_status,
    nothing,
    spec_differs,
    spec_or_annotations_differ,
    valid_update,
)
from mooring.apiserver.validation import (
    autoscalers,
    certificate_requests,
    endpoint_slices,
    endpoints,
    events,
    limits,
    networking,
    other_kinds,
    pod,
    pod_subresources,
    rbac,
    service_ranges,
    services,
    storage,
    storage_kinds,
    volume_claims,
    workloads,
)
from mooring.apiserver.validation.admission import policies, webhooks
from mooring.apiserver.validation.batch import cron_jobs, jobs
from mooring.apiserver.validation.devices import claims, slices, taint_rules
from mooring.objects.defaulting.storage import prepare_claim_spec
from mooring.objects.schema.defaults import TEMPLATE_GENERATION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mooring.apiserver.errors import Errors
    from mooring.apiserver.registry.strategy import (
        Prepare,
        PrepareUpdate,
        Validate,
        ValidateUpdate,
    )
    from mooring.apiserver.resources import Resource
    from mooring.apiserver.types import Object


def _prepare_namespace(obj: Object, _now: str) -> None:
    obj["status"] = {"phase": "Active"}
    finalizers = obj["spec"].setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")


def _name_limit_range(obj: Object, _now: str) -> None:
    """Gives a LimitRange without a name a random one: a UUID, as upstream."""
    metadata = obj["metadata"]
    metadata["name"] = metadata.get("name") or metadata["uid"]


def _prepare_claim(obj: Object, _now: str) -> None:
    obj["status"] = {"phase": "Pending"}
    prepare_claim_spec(obj)


def _prepare_volume(obj: Object, now: str) -> None:
    obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": now}


def _prepare_service(obj: Object, _now: str) -> None:
    """Sets the fields of a headless service."""
    spec = obj["spec"]
    if spec.get("clusterIP") != "None":
        return
    spec.setdefault("clusterIPs", ["None"])
    has_pods = bool(spec.get("selector"))
    spec.setdefault("ipFamilies", ["IPv4"] if has_pods else ["IPv4", "IPv6"])
    spec.setdefault("ipFamilyPolicy", "SingleStack" if has_pods else "RequireDualStack")


def _prepare_slice(obj: Object, _now: str) -> None:
    slices.drop_lists(obj, None)


def _prepare_node(obj: Object, _now: str) -> None:
    """Drops the fields of a removed feature, dynamic configuration of kubelets."""
    obj["spec"].pop("configSource", None)
    obj.get("status", {}).pop("config", None)


def _prepare_node_update(new: Object, old: Object) -> None:
    keep_status(new, old)
    if "configSource" not in old["spec"]:
        new["spec"].pop("configSource", None)


def _prepare_stateful_set(obj: Object, _now: str) -> None:
    """Drops a field whose feature gate, MaxUnavailableStatefulSet, is off by default."""
    rolling = (obj["spec"].get("updateStrategy") or {}).get("rollingUpdate")
    if rolling is not None:
        rolling.pop("maxUnavailable", None)


def _prepare_daemon_set(obj: Object, _now: str) -> None:
    annotations = obj["metadata"]["annotations"]
    if annotations[TEMPLATE_GENERATION] == "0":
        annotations[TEMPLATE_GENERATION] = "1"


def _prepare_daemon_set_update(new: Object, old: Object) -> None:
    """Increments the generation of a DaemonSet's template; clients cannot set it."""
    keep_status(new, old)
    text = old["metadata"].get("annotations", {}).get(TEMPLATE_GENERATION, "0")
    is_new = new["spec"]["template"] != old["spec"]["template"]
    generation = int(text) + is_new if text.isdecimal() else is_new
    new["metadata"].setdefault("annotations", {})[TEMPLATE_GENERATION] = str(int(generation))


def _keep_spec_and_status(new: Object, old: Object) -> None:
    restore_fields(new, old, "spec", "status")


def _prepare_approval(new: Object, old: Object) -> None:
    """Restores all fields except the status conditions."""
    conditions = new.get("status", {}).get("conditions", [])
    keep_spec(new, old)
    new["status"] = {**old.get("status", {}), "conditions": conditions}


def _prepare_claim_status(new: Object, old: Object) -> None:
    keep_spec_and_metadata(new, old)
    claims.drop_deallocated_devices(new, old)


def _set_taint_times(obj: Object, now: str) -> None:
    """Sets the time of device taints without one."""
    for device in obj["spec"].get("devices") or ():
        for taint in device.get("taints") or ():
            taint.setdefault("timeAdded", now)


def _set_rule_time(obj: Object, now: str) -> None:
    """Sets the time of the taint of a rule without one."""
    obj["spec"]["taint"].setdefault("timeAdded", now)


def _prepare_rule(new: Object, old: Object) -> None:
    """Restores the status, and drops the time of a taint whose effect changes: it is a new one."""
    keep_status(new, old)
    taint, before = new["spec"]["taint"], old["spec"]["taint"]
    has_changed = taint.get("effect") != before.get("effect")
    if has_changed and taint.get("timeAdded") == before.get("timeAdded"):
        taint.pop("timeAdded", None)


def _slice_differs(new: Object, old: Object) -> bool:
    def content(obj: Object) -> Object:
        return {key: value for key, value in obj.items() if key != "metadata"}

    labels = (new["metadata"].get("labels"), old["metadata"].get("labels"))
    return content(new) != content(old) or labels[0] != labels[1]


def _keep_spec_and_labels(new: Object, old: Object) -> None:
    keep_spec(new, old)
    restore_fields(new["metadata"], old["metadata"], "labels")


def _subresources(
    validate_update: ValidateUpdate = valid_update,
    *,
    prepare_update: PrepareUpdate = keep_status,
    set_times: Prepare = nothing,
    **others: SubresourceStrategy,
) -> Mapping[str, SubresourceStrategy]:
    """Returns the rules for changes of the main resource, the status and other subresources."""
    main_resource = SubresourceStrategy(
        prepare_update, validate_update, raises_generation=True, set_times=set_times
    )
    return MappingProxyType({**STATUS, "": main_resource, **others})


def _as_new(validate: Validate) -> ValidateUpdate:
    """Returns the validation of changes by the rules for new objects."""
    return lambda new, _old: validate(new)


def _validate_service_update(new: Object, old: Object) -> Errors:
    yield from validate_addresses(new, old)
    yield from services.validate_service(new)


#: A resource with generations, which changes of the spec increment.
_with_generation = partial(Strategy, starts_generation=True, is_new_generation=spec_differs)

_WORKLOAD_SUBRESOURCES = _subresources(workloads.validate_workload_update)
_WORKLOAD = _with_generation(
    validate=workloads.validate_workload, subresources=_WORKLOAD_SUBRESOURCES
)
_CONFIG_MAP = Strategy(
    validate=other_kinds.validate_config_map,
    subresources=_subresources(other_kinds.validate_immutable_data),
)

_ROLE = Strategy(
    check_name=names.path_segment,
    creates_on_update=True,
    validate=rbac.validate_role,
    subresources=_subresources(_as_new(rbac.validate_role)),
)
_ROLE_BINDING = Strategy(
    check_name=names.path_segment,
    creates_on_update=True,
    validate=rbac.validate_binding,
    subresources=_subresources(rbac.validate_binding_update),
)

_ADMISSION = "admissionregistration.k8s.io"
_admission = partial(_with_generation, updates_unconditionally=False)
_WEBHOOKS = _admission(
    is_new_generation=webhooks.webhooks_differ,
    validate=webhooks.validate_configuration,
    subresources=_subresources(_as_new(webhooks.validate_configuration)),
)
_POLICY_BINDING = _admission(
    validate=policies.validate_binding,
    subresources=_subresources(_as_new(policies.validate_binding)),
)

_STRATEGIES: Mapping[tuple[str, str], Strategy] = MappingProxyType(
    {
        (_ADMISSION, "mutatingadmissionpolicies"): _admission(
            validate=policies.validate_mutating,
            subresources=_subresources(_as_new(policies.validate_mutating)),
        ),
        (_ADMISSION, "mutatingadmissionpolicybindings"): _POLICY_BINDING,
        (_ADMISSION, "mutatingwebhookconfigurations"): _WEBHOOKS,
        (_ADMISSION, "validatingadmissionpolicies"): _admission(
            validate=policies.validate_validating,
            subresources=_subresources(
                _as_new(policies.validate_validating),
                status=SubresourceStrategy(keep_spec_and_metadata),
            ),
        ),
        (_ADMISSION, "validatingadmissionpolicybindings"): _POLICY_BINDING,
        (_ADMISSION, "validatingwebhookconfigurations"): _WEBHOOKS,
        ("", "configmaps"): _CONFIG_MAP,
        ("", "endpoints"): Strategy(
            creates_on_update=True,
            validate=endpoints.validate_endpoints,
            subresources=_subresources(_as_new(endpoints.validate_endpoints)),
        ),
        ("", "events"): Strategy(
            creates_on_update=True,
            validate=events.validate_event,
            subresources=_subresources(_as_new(events.validate_event)),
        ),
        ("events.k8s.io", "events"): Strategy(
            creates_on_update=True,
            validate=events.validate_new_event,
            subresources=_subresources(events.validate_new_event_update),
        ),
        ("", "namespaces"): Strategy(
            check_name=names.dns_label,
            prepare_create=_prepare_namespace,
            validate=other_kinds.validate_namespace,
            subresources=_subresources(
                prepare_update=_keep_spec_and_status, finalize=SubresourceStrategy(keep_status)
            ),
            returns_deleted=True,
        ),
        ("", "nodes"): Strategy(
            empties_status=False,
            prepare_create=_prepare_node,
            validate=other_kinds.validate_node,
            subresources=_subresources(
                other_kinds.validate_node_update,
                prepare_update=_prepare_node_update,
                status=SubresourceStrategy(keep_spec, other_kinds.validate_node_update),
            ),
        ),
        ("", "persistentvolumeclaims"): Strategy(
            prepare_create=_prepare_claim,
            validate=volume_claims.validate_claim,
            subresources=_subresources(volume_claims.validate_claim_update),
            returns_deleted=True,
        ),
        ("", "persistentvolumes"): Strategy(
            prepare_create=_prepare_volume,
            validate=storage.validate_volume,
            subresources=_subresources(storage.validate_volume_update),
            returns_deleted=True,
        ),
        ("", "pods"): _with_generation(
            prepare_create=pod_strategy.prepare_create,
            empties_status=False,  # prepare_create sets it
            validate=pod.validate_pod,
            subresources=_subresources(
                pod.validate_update,
                status=SubresourceStrategy(
                    pod_strategy.prepare_status, pod_subresources.validate_status
                ),
                ephemeralcontainers=SubresourceStrategy(
                    pod_strategy.prepare_ephemeral,
                    pod_subresources.validate_ephemeral,
                    raises_generation=True,
                ),
                resize=SubresourceStrategy(
                    pod_strategy.prepare_resize,
                    pod_subresources.validate_resize,
                    raises_generation=True,
                ),
            ),
            returns_deleted=True,
        ),
        ("", "podtemplates"): _with_generation(
            is_new_generation=workloads.templates_differ,
            validate=workloads.validate_pod_template,
            subresources=_subresources(_as_new(workloads.validate_pod_template)),
            returns_deleted=True,
        ),
        ("", "replicationcontrollers"): _with_generation(
            validate=workloads.validate_controller,
            subresources=_subresources(_as_new(workloads.validate_controller)),
            orphans_dependents=True,
        ),
        ("", "secrets"): Strategy(
            validate=other_kinds.validate_secret,
            subresources=_subresources(other_kinds.validate_secret_update),
        ),
        ("", "serviceaccounts"): Strategy(returns_deleted=True),
        ("", "services"): Strategy(
            check_name=names.dns_label,
            prepare_create=_prepare_service,
            creates_on_update=True,
            validate=services.validate_service,
            subresources=_subresources(_validate_service_update, prepare_update=keep_addresses),
            returns_deleted=True,
        ),
        ("apps", "controllerrevisions"): Strategy(
            validate=workloads.validate_revision,
            subresources=_subresources(workloads.validate_revision_update),
        ),
        ("apps", "daemonsets"): _with_generation(
            prepare_create=_prepare_daemon_set,
            validate=workloads.validate_workload,
            subresources=_subresources(
                workloads.validate_workload_update, prepare_update=_prepare_daemon_set_update
            ),
        ),
        ("apps", "deployments"): Strategy(
            starts_generation=True,
            is_new_generation=spec_or_annotations_differ,
            validate=workloads.validate_workload,
            subresources=MappingProxyType(
                {**_WORKLOAD_SUBRESOURCES, "status": SubresourceStrategy(_keep_spec_and_labels)}
            ),
        ),
        ("apps", "replicasets"): _WORKLOAD,
        ("apps", "statefulsets"): _with_generation(
            check_name=names.dns_label,
            prepare_create=_prepare_stateful_set,
            validate=workloads.validate_workload,
            subresources=_WORKLOAD_SUBRESOURCES,
        ),
        ("", "limitranges"): Strategy(
            prepare_create=_name_limit_range,
            creates_on_update=True,
            validate=limits.validate_limit_range,
            subresources=_subresources(_as_new(limits.validate_limit_range)),
        ),
        ("", "resourcequotas"): Strategy(
            validate=limits.validate_quota,
            subresources=_subresources(
                limits.validate_quota_update,
                status=SubresourceStrategy(keep_spec, limits.validate_quota_status),
            ),
            returns_deleted=True,
        ),
        ("autoscaling", "horizontalpodautoscalers"): Strategy(
            validate=autoscalers.validate_autoscaler,
            subresources=_subresources(
                autoscalers.validate_autoscaler,
                status=SubresourceStrategy(keep_spec, autoscalers.validate_autoscaler_status),
            ),
        ),
        ("batch", "cronjobs"): _with_generation(
            validate=cron_jobs.validate_cron_job,
            subresources=_subresources(cron_jobs.validate_cron_job_update),
        ),
        ("batch", "jobs"): _with_generation(
            prepare_create=jobs.prepare_job,
            validate=jobs.validate_job,
            subresources=_subresources(jobs.validate_job_update),
            orphans_dependents=True,
        ),
        ("certificates.k8s.io", "certificatesigningrequests"): Strategy(
            check_name=names.path_segment,
            validate=certificate_requests.validate_certificate_request,
            subresources=_subresources(
                prepare_update=_keep_spec_and_status,
                approval=SubresourceStrategy(_prepare_approval),
            ),
        ),
        # As with the gate CoordinatedLeaderElection: replicas of mooring may use its fields.
        ("coordination.k8s.io", "leases"): Strategy(
            creates_on_update=True,
            updates_unconditionally=False,
            validate=other_kinds.validate_lease,
            subresources=_subresources(_as_new(other_kinds.validate_lease)),
        ),
        ("discovery.k8s.io", "endpointslices"): Strategy(
            starts_generation=True,
            is_new_generation=_slice_differs,
            validate=endpoint_slices.validate_endpoint_slice,
            subresources=_subresources(endpoint_slices.validate_endpoint_slice_update),
        ),
        ("networking.k8s.io", "ingressclasses"): _with_generation(
            validate=networking.validate_ingress_class,
            subresources=_subresources(networking.validate_ingress_class_update),
        ),
        ("networking.k8s.io", "ingresses"): _with_generation(
            validate=networking.validate_ingress,
            subresources=_subresources(networking.validate_ingress_update),
        ),
        ("networking.k8s.io", "ipaddresses"): Strategy(
            check_name=service_ranges.address_name,
            validate=service_ranges.validate_ip_address,
            subresources=_subresources(service_ranges.validate_ip_address_update),
        ),
        ("networking.k8s.io", "networkpolicies"): _with_generation(
            validate=networking.validate_network_policy,
            subresources=_subresources(_as_new(networking.validate_network_policy)),
        ),
        ("networking.k8s.io", "servicecidrs"): Strategy(
            validate=service_ranges.validate_service_cidr,
            subresources=_subresources(
                service_ranges.validate_service_cidr_update,
                status=SubresourceStrategy(keep_spec_and_metadata),
            ),
        ),
        ("node.k8s.io", "runtimeclasses"): Strategy(
            creates_on_update=True,
            updates_unconditionally=False,
            validate=limits.validate_runtime_class,
            subresources=_subresources(limits.validate_runtime_class_update),
        ),
        ("policy", "poddisruptionbudgets"): _with_generation(
            check_name=names.path_segment,
            checks_metadata=False,
            updates_unconditionally=False,
            validate=other_kinds.validate_budget,
            subresources=_subresources(_as_new(other_kinds.validate_budget)),
        ),
        ("rbac.authorization.k8s.io", "clusterrolebindings"): _ROLE_BINDING,
        ("rbac.authorization.k8s.io", "clusterroles"): _ROLE,
        ("apiextensions.k8s.io", "customresourcedefinitions"): DEFINITION,
        ("rbac.authorization.k8s.io", "rolebindings"): _ROLE_BINDING,
        ("rbac.authorization.k8s.io", "roles"): _ROLE,
        ("resource.k8s.io", "deviceclasses"): _with_generation(
            validate=claims.validate_class,
            subresources=_subresources(_as_new(claims.validate_class)),
            returns_deleted=True,
        ),
        ("resource.k8s.io", "resourceclaims"): Strategy(
            validate=claims.validate_claim,
            subresources=_subresources(
                claims.validate_claim_update,
                status=SubresourceStrategy(_prepare_claim_status, claims.validate_status),
            ),
            returns_deleted=True,
        ),
        ("resource.k8s.io", "resourceclaimtemplates"): Strategy(
            validate=claims.validate_template,
            subresources=_subresources(claims.validate_template_update),
            returns_deleted=True,
        ),
        ("resource.k8s.io", "devicetaintrules"): _with_generation(
            validate=taint_rules.validate_taint_rule,
            subresources=_subresources(
                _as_new(taint_rules.validate_taint_rule),
                prepare_update=_prepare_rule,
                set_times=_set_rule_time,
                status=SubresourceStrategy(
                    keep_spec_and_metadata, taint_rules.validate_taint_rule_status
                ),
            ),
            returns_deleted=True,
        ),
        ("resource.k8s.io", "resourceslices"): _with_generation(
            prepare_create=_prepare_slice,
            validate=slices.validate_slice,
            subresources=_subresources(
                slices.validate_slice_update,
                prepare_update=slices.drop_lists,
                set_times=_set_taint_times,
            ),
            returns_deleted=True,
        ),
        ("scheduling.k8s.io", "priorityclasses"): Strategy(
            starts_generation=True,
            validate=other_kinds.validate_priority_class,
            subresources=_subresources(other_kinds.validate_priority_class_update),
        ),
        ("storage.k8s.io", "csidrivers"): Strategy(
            is_new_generation=spec_differs,
            updates_unconditionally=False,
            validate=storage_kinds.validate_csi_driver,
            subresources=_subresources(storage_kinds.validate_csi_driver_update),
            returns_deleted=True,
        ),
        ("storage.k8s.io", "csinodes"): Strategy(
            updates_unconditionally=False,
            validate=storage_kinds.validate_csi_node,
            subresources=_subresources(storage_kinds.validate_csi_node_update),
            returns_deleted=True,
        ),
        ("storage.k8s.io", "csistoragecapacities"): Strategy(
            updates_unconditionally=False,
            validate=storage_kinds.validate_capacity,
            subresources=_subresources(storage_kinds.validate_capacity_update),
        ),
        ("storage.k8s.io", "storageclasses"): Strategy(
            validate=storage_kinds.validate_storage_class,
            subresources=_subresources(storage_kinds.validate_storage_class_update),
            returns_deleted=True,
        ),
        ("storage.k8s.io", "volumeattachments"): Strategy(
            updates_unconditionally=False,
            validate=storage_kinds.validate_attachment,
            subresources=_subresources(
                storage_kinds.validate_attachment_update,
                status=SubresourceStrategy(keep_spec_and_metadata),
            ),
            returns_deleted=True,
        ),
        ("storage.k8s.io", "volumeattributesclasses"): Strategy(
            validate=storage_kinds.validate_attributes_class,
            subresources=_subresources(storage_kinds.validate_attributes_class_update),
            returns_deleted=True,
        ),
    }
)

_PLAIN = Strategy()


def strategy_of(resource: Resource) -> Strategy:
    """Returns the strategy of a resource."""
    if resource.custom is not None:
        return strategy_of_custom(resource.custom)
    return _STRATEGIES.get((resource.group, resource.name), _PLAIN)
