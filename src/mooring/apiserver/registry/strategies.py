"""The strategy of every resource.

Source: the strategy.go files below pkg/registry, one for each resource.
"""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from mooring.apiserver import names
from mooring.apiserver.registry import pod_strategy, preparation
from mooring.apiserver.registry.custom_strategy import DEFINITION, strategy_of_custom
from mooring.apiserver.registry.service_addresses import keep_addresses, validate_addresses
from mooring.apiserver.registry.strategy import (
    MAIN_RESOURCE,
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
from mooring.apiserver.validation.pod_resize import validate_resize
from mooring.apiserver.validation.status.addresses import (
    validate_ingress_status,
    validate_service_status,
)
from mooring.apiserver.validation.status.jobs import validate_job_status
from mooring.apiserver.validation.status.others import (
    validate_budget_status,
    validate_namespace_status,
    validate_volume_claim_status,
)
from mooring.apiserver.validation.status.pods import validate_pod_status
from mooring.apiserver.validation.status.workloads import validate_workload_status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mooring.apiserver.errors import Errors
    from mooring.apiserver.registry.strategy import (
        Prepare,
        PrepareUpdate,
        Repeats,
        Validate,
        ValidateUpdate,
    )
    from mooring.apiserver.resources import Resource
    from mooring.apiserver.types import Object


def _subresources(
    validate_update: ValidateUpdate = valid_update,
    *,
    prepare_update: PrepareUpdate = keep_status,
    set_times: Prepare = nothing,
    repeats: Repeats = MAIN_RESOURCE.repeats,
    as_new: Validate | None = None,
    **others: SubresourceStrategy,
) -> Mapping[str, SubresourceStrategy]:
    """Returns the rules for changes of the main resource, the status and other subresources.

    With ``as_new`` the changed object is validated first as a new one, then as a change.
    """
    if as_new is not None and repeats == MAIN_RESOURCE.repeats:
        repeats = ("new", "change")
    main_resource = SubresourceStrategy(
        prepare_update,
        validate_update,
        raises_generation=True,
        set_times=set_times,
        repeats=repeats,
        as_new=as_new,
    )
    return MappingProxyType({**STATUS, "": main_resource, **others})


def _as_new(validate: Validate) -> ValidateUpdate:
    """Returns the validation of changes by the rules for new objects."""
    return lambda new, _old: validate(new)


def _validate_service_update(new: Object, old: Object) -> Errors:
    yield from validate_addresses(new, old)
    yield from services.validate_service(new, old)


#: A resource with generations, which changes of the spec increment.
_with_generation = partial(Strategy, starts_generation=True, is_new_generation=spec_differs)

_WORKLOAD_STATUS = SubresourceStrategy(validate=validate_workload_status)
_WORKLOAD_SUBRESOURCES = _subresources(
    workloads.validate_workload_update, repeats=("change",), status=_WORKLOAD_STATUS
)
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
    subresources=_subresources(_as_new(rbac.validate_role), repeats=("new", "change")),
)
_ROLE_BINDING = Strategy(
    check_name=names.path_segment,
    creates_on_update=True,
    validate=rbac.validate_binding,
    subresources=_subresources(rbac.validate_binding_update, repeats=("new", "change")),
)

_ADMISSION = "admissionregistration.k8s.io"
_admission = partial(_with_generation, updates_unconditionally=False)
_WEBHOOKS = _admission(
    is_new_generation=webhooks.webhooks_differ,
    validate=webhooks.validate_configuration,
    subresources=_subresources(_as_new(webhooks.validate_configuration), repeats=("new",)),
)
_POLICY_BINDING = _admission(
    validate=policies.validate_binding,
    subresources=_subresources(_as_new(policies.validate_binding), repeats=("new",)),
)

_STRATEGIES: Mapping[tuple[str, str], Strategy] = MappingProxyType(
    {
        (_ADMISSION, "mutatingadmissionpolicies"): _admission(
            validate=policies.validate_mutating,
            subresources=_subresources(_as_new(policies.validate_mutating), repeats=("new",)),
        ),
        (_ADMISSION, "mutatingadmissionpolicybindings"): _POLICY_BINDING,
        (_ADMISSION, "mutatingwebhookconfigurations"): _WEBHOOKS,
        (_ADMISSION, "validatingadmissionpolicies"): _admission(
            validate=policies.validate_validating,
            subresources=_subresources(
                _as_new(policies.validate_validating),
                repeats=("new",),
                status=SubresourceStrategy(keep_spec_and_metadata),
            ),
        ),
        (_ADMISSION, "validatingadmissionpolicybindings"): _POLICY_BINDING,
        (_ADMISSION, "validatingwebhookconfigurations"): _WEBHOOKS,
        ("", "configmaps"): _CONFIG_MAP,
        ("", "endpoints"): Strategy(
            creates_on_update=True,
            validate=endpoints.validate_endpoints,
            subresources=_subresources(endpoints.validate_endpoints_update),
        ),
        ("", "events"): Strategy(
            creates_on_update=True,
            validate=events.validate_event,
            subresources=_subresources(_as_new(events.validate_event), repeats=()),
        ),
        ("events.k8s.io", "events"): Strategy(
            creates_on_update=True,
            validate=events.validate_new_event,
            subresources=_subresources(events.validate_new_event_update, repeats=("change",)),
        ),
        ("", "namespaces"): Strategy(
            check_name=names.dns_label,
            prepare_create=preparation.prepare_namespace,
            validate=other_kinds.validate_namespace,
            subresources=_subresources(
                prepare_update=preparation.keep_spec_and_status,
                repeats=("new", "change"),
                status=SubresourceStrategy(validate=validate_namespace_status),
                finalize=SubresourceStrategy(keep_status),
            ),
            returns_deleted=True,
        ),
        ("", "nodes"): Strategy(
            empties_status=False,
            prepare_create=preparation.prepare_node,
            validate=other_kinds.validate_node,
            subresources=_subresources(
                other_kinds.validate_node_update,
                prepare_update=preparation.prepare_node_update,
                as_new=other_kinds.validate_node,
                status=SubresourceStrategy(
                    preparation.prepare_node_status,
                    other_kinds.validate_node_update,
                    repeats=("change",),
                ),
            ),
        ),
        ("", "persistentvolumeclaims"): Strategy(
            prepare_create=preparation.prepare_claim,
            validate=volume_claims.validate_claim,
            subresources=_subresources(
                volume_claims.validate_claim_update,
                prepare_update=preparation.prepare_claim_update,
                status=SubresourceStrategy(validate=validate_volume_claim_status),
            ),
            returns_deleted=True,
        ),
        ("", "persistentvolumes"): Strategy(
            prepare_create=preparation.prepare_volume,
            validate=storage.validate_volume,
            subresources=_subresources(
                storage.validate_volume_update,
                repeats=("new", "new"),
                as_new=storage.validate_volume_spec,
                status=SubresourceStrategy(stamp=preparation.stamp_phase),
            ),
            returns_deleted=True,
        ),
        ("", "pods"): _with_generation(
            prepare_create=pod_strategy.prepare_create,
            empties_status=False,  # prepare_create sets it
            validate=pod.validate_pod,
            subresources=_subresources(
                pod.validate_update,
                status=SubresourceStrategy(pod_strategy.prepare_status, validate_pod_status),
                ephemeralcontainers=SubresourceStrategy(
                    pod_strategy.prepare_ephemeral,
                    pod_subresources.validate_ephemeral,
                    raises_generation=True,
                    repeats=("change", "new"),
                ),
                resize=SubresourceStrategy(
                    pod_strategy.prepare_resize,
                    validate_resize,
                    raises_generation=True,
                    repeats=("change", "new"),
                ),
            ),
            returns_deleted=True,
        ),
        ("", "podtemplates"): _with_generation(
            is_new_generation=workloads.templates_differ,
            validate=workloads.validate_pod_template,
            subresources=_subresources(
                _as_new(workloads.validate_pod_template), repeats=("change",)
            ),
            returns_deleted=True,
        ),
        ("", "replicationcontrollers"): _with_generation(
            validate=workloads.validate_controller,
            subresources=_subresources(
                _as_new(workloads.validate_controller), repeats=("change",), status=_WORKLOAD_STATUS
            ),
            orphans_dependents=True,
        ),
        ("", "secrets"): Strategy(
            validate=other_kinds.validate_secret,
            subresources=_subresources(other_kinds.validate_secret_update),
        ),
        ("", "serviceaccounts"): Strategy(returns_deleted=True),
        ("", "services"): Strategy(
            check_name=names.dns_label,
            prepare_create=preparation.prepare_service,
            creates_on_update=True,
            validate=services.validate_service,
            subresources=_subresources(
                _validate_service_update,
                prepare_update=keep_addresses,
                repeats=("change",),
                status=SubresourceStrategy(validate=validate_service_status),
            ),
            returns_deleted=True,
        ),
        ("apps", "controllerrevisions"): Strategy(
            validate=workloads.validate_revision,
            subresources=_subresources(workloads.validate_revision_update),
        ),
        ("apps", "daemonsets"): _with_generation(
            prepare_create=preparation.prepare_daemon_set,
            validate=workloads.validate_workload,
            subresources=_subresources(
                workloads.validate_workload_update,
                prepare_update=preparation.prepare_daemon_set_update,
                repeats=("change",),
                status=SubresourceStrategy(
                    preparation.prepare_daemon_set_status, validate_workload_status
                ),
            ),
        ),
        ("apps", "deployments"): Strategy(
            starts_generation=True,
            is_new_generation=spec_or_annotations_differ,
            validate=workloads.validate_workload,
            subresources=_subresources(
                workloads.validate_workload_update,
                repeats=("change",),
                status=SubresourceStrategy(
                    preparation.keep_spec_and_labels, validate_workload_status
                ),
            ),
        ),
        ("apps", "replicasets"): _WORKLOAD,
        ("apps", "statefulsets"): _with_generation(
            check_name=names.dns_label,
            prepare_create=preparation.prepare_stateful_set,
            validate=workloads.validate_workload,
            subresources=_WORKLOAD_SUBRESOURCES,
        ),
        ("", "limitranges"): Strategy(
            prepare_create=preparation.name_limit_range,
            creates_on_update=True,
            validate=limits.validate_limit_range,
            subresources=_subresources(_as_new(limits.validate_limit_range), repeats=("new",)),
        ),
        ("", "resourcequotas"): Strategy(
            validate=limits.validate_quota,
            subresources=_subresources(
                limits.validate_quota_update,
                repeats=("change",),
                status=SubresourceStrategy(keep_spec, limits.validate_quota_status),
            ),
            returns_deleted=True,
        ),
        ("autoscaling", "horizontalpodautoscalers"): Strategy(
            validate=autoscalers.validate_autoscaler,
            subresources=_subresources(
                autoscalers.validate_autoscaler,
                repeats=("change",),
                status=SubresourceStrategy(keep_spec, autoscalers.validate_autoscaler_status),
            ),
        ),
        ("batch", "cronjobs"): _with_generation(
            validate=cron_jobs.validate_cron_job,
            subresources=_subresources(
                cron_jobs.validate_cron_job_update,
                repeats=("change",),
                status=SubresourceStrategy(repeats=()),
            ),
        ),
        ("batch", "jobs"): _with_generation(
            prepare_create=jobs.prepare_job,
            validate=jobs.validate_job,
            subresources=_subresources(
                jobs.validate_job_update,
                as_new=jobs.validate_job,
                status=SubresourceStrategy(preparation.prepare_job_status, validate_job_status),
            ),
            orphans_dependents=True,
        ),
        ("certificates.k8s.io", "certificatesigningrequests"): Strategy(
            check_name=names.path_segment,
            validate=certificate_requests.validate_certificate_request,
            subresources=_subresources(
                prepare_update=preparation.keep_spec_and_status,
                repeats=("new", "change"),
                status=SubresourceStrategy(
                    preparation.keep_decisions,
                    certificate_requests.validate_request_status,
                    repeats=("new", "change"),
                    stamp=preparation.stamp_decisions,
                ),
                approval=SubresourceStrategy(
                    preparation.prepare_approval,
                    certificate_requests.validate_approval,
                    repeats=("new", "change"),
                    stamp=preparation.stamp_decisions,
                ),
            ),
        ),
        # As with the gate CoordinatedLeaderElection: replicas of mooring may use its fields.
        ("coordination.k8s.io", "leases"): Strategy(
            creates_on_update=True,
            updates_unconditionally=False,
            validate=other_kinds.validate_lease,
            subresources=_subresources(_as_new(other_kinds.validate_lease), repeats=("change",)),
        ),
        ("discovery.k8s.io", "endpointslices"): Strategy(
            starts_generation=True,
            is_new_generation=preparation.slice_differs,
            validate=endpoint_slices.validate_endpoint_slice,
            subresources=_subresources(
                endpoint_slices.validate_endpoint_slice_update, repeats=("new",)
            ),
        ),
        ("networking.k8s.io", "ingressclasses"): _with_generation(
            validate=networking.validate_ingress_class,
            subresources=_subresources(networking.validate_ingress_class_update),
        ),
        ("networking.k8s.io", "ingresses"): _with_generation(
            validate=networking.validate_ingress,
            subresources=_subresources(
                networking.validate_ingress_update,
                status=SubresourceStrategy(validate=validate_ingress_status),
            ),
        ),
        ("networking.k8s.io", "ipaddresses"): Strategy(
            check_name=service_ranges.address_name,
            validate=service_ranges.validate_ip_address,
            subresources=_subresources(
                service_ranges.validate_ip_address_update,
                as_new=service_ranges.validate_ip_address,
            ),
        ),
        ("networking.k8s.io", "networkpolicies"): _with_generation(
            validate=networking.validate_network_policy,
            subresources=_subresources(
                networking.validate_network_policy_update, repeats=("change",)
            ),
        ),
        ("networking.k8s.io", "servicecidrs"): Strategy(
            validate=service_ranges.validate_service_cidr,
            subresources=_subresources(
                service_ranges.validate_service_cidr_update,
                repeats=("change",),
                status=SubresourceStrategy(keep_spec_and_metadata),
            ),
        ),
        ("node.k8s.io", "runtimeclasses"): Strategy(
            creates_on_update=True,
            updates_unconditionally=False,
            validate=limits.validate_runtime_class,
            subresources=_subresources(
                limits.validate_runtime_class_update, as_new=limits.validate_runtime_class
            ),
        ),
        ("policy", "poddisruptionbudgets"): _with_generation(
            check_name=names.path_segment,
            checks_metadata=False,
            updates_unconditionally=False,
            validate=other_kinds.validate_budget,
            subresources=_subresources(
                _as_new(other_kinds.validate_budget),
                repeats=(),
                status=SubresourceStrategy(validate=validate_budget_status, repeats=()),
            ),
        ),
        ("rbac.authorization.k8s.io", "clusterrolebindings"): _ROLE_BINDING,
        ("rbac.authorization.k8s.io", "clusterroles"): _ROLE,
        ("apiextensions.k8s.io", "customresourcedefinitions"): DEFINITION,
        ("rbac.authorization.k8s.io", "rolebindings"): _ROLE_BINDING,
        ("rbac.authorization.k8s.io", "roles"): _ROLE,
        ("resource.k8s.io", "deviceclasses"): _with_generation(
            validate=claims.validate_class,
            subresources=_subresources(_as_new(claims.validate_class), repeats=("new", "change")),
            returns_deleted=True,
        ),
        ("resource.k8s.io", "resourceclaims"): Strategy(
            validate=claims.validate_claim,
            subresources=_subresources(
                claims.validate_claim_update,
                repeats=("new", "change"),
                status=SubresourceStrategy(
                    preparation.prepare_claim_status, claims.validate_status
                ),
            ),
            returns_deleted=True,
        ),
        ("resource.k8s.io", "resourceclaimtemplates"): Strategy(
            validate=claims.validate_template,
            subresources=_subresources(
                claims.validate_template_update, as_new=claims.validate_template
            ),
            returns_deleted=True,
        ),
        ("resource.k8s.io", "devicetaintrules"): _with_generation(
            validate=taint_rules.validate_taint_rule,
            subresources=_subresources(
                _as_new(taint_rules.validate_taint_rule),
                repeats=("change",),
                prepare_update=preparation.prepare_rule,
                set_times=preparation.set_rule_time,
                status=SubresourceStrategy(
                    keep_spec_and_metadata, taint_rules.validate_taint_rule_status
                ),
            ),
            returns_deleted=True,
        ),
        ("resource.k8s.io", "resourceslices"): _with_generation(
            prepare_create=preparation.prepare_slice,
            validate=slices.validate_slice,
            subresources=_subresources(
                slices.validate_slice_update,
                prepare_update=slices.drop_lists,
                set_times=preparation.set_taint_times,
                repeats=("change",),
            ),
            returns_deleted=True,
        ),
        ("scheduling.k8s.io", "priorityclasses"): Strategy(
            starts_generation=True,
            validate=other_kinds.validate_priority_class,
            subresources=_subresources(
                other_kinds.validate_priority_class_update, repeats=("change",)
            ),
        ),
        ("storage.k8s.io", "csidrivers"): Strategy(
            is_new_generation=spec_differs,
            updates_unconditionally=False,
            validate=storage_kinds.validate_csi_driver,
            subresources=_subresources(
                storage_kinds.validate_csi_driver_update, repeats=("change",)
            ),
            returns_deleted=True,
        ),
        ("storage.k8s.io", "csinodes"): Strategy(
            updates_unconditionally=False,
            validate=storage_kinds.validate_csi_node,
            subresources=_subresources(storage_kinds.validate_csi_node_update, repeats=("new",)),
            returns_deleted=True,
        ),
        ("storage.k8s.io", "csistoragecapacities"): Strategy(
            updates_unconditionally=False,
            validate=storage_kinds.validate_capacity,
            subresources=_subresources(
                storage_kinds.validate_capacity_update, as_new=storage_kinds.validate_capacity
            ),
        ),
        ("storage.k8s.io", "storageclasses"): Strategy(
            validate=storage_kinds.validate_storage_class,
            subresources=_subresources(
                storage_kinds.validate_storage_class_update,
                as_new=storage_kinds.validate_storage_class,
            ),
            returns_deleted=True,
        ),
        ("storage.k8s.io", "volumeattachments"): Strategy(
            updates_unconditionally=False,
            validate=storage_kinds.validate_attachment,
            subresources=_subresources(
                storage_kinds.validate_attachment_update,
                repeats=("new",),
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
