"""The strategy of every resource that is served.

Source: the strategy.go files below pkg/registry, one for each resource.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from mooring.apiserver import names
from mooring.apiserver.registry import pod_strategy
from mooring.apiserver.registry.strategy import (
    STATUS,
    Strategy,
    SubresourceStrategy,
    keep_spec,
    keep_spec_and_metadata,
    keep_status,
    spec_differs,
    spec_or_annotations_differ,
)
from mooring.apiserver.validation import events as of_event
from mooring.apiserver.validation import jobs, workloads
from mooring.apiserver.validation import other_kinds as small
from mooring.apiserver.validation import pod as of_pod
from mooring.apiserver.validation import pod_parts as of_part
from mooring.apiserver.validation import storage as of_storage
from mooring.objects.defaulting.storage import prepare_claim_spec
from mooring.objects.schema.defaults import TEMPLATE_GENERATION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mooring.apiserver.resources import Resource
    from mooring.apiserver.types import Object


def _namespace_created(obj: Object, _now: str) -> None:
    obj["status"] = {"phase": "Active"}
    finalizers = obj["spec"].setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")


def _namespace_changed(new: Object, old: Object) -> None:
    keep_status(new, old)
    keep_spec(new, old)


def _claim_created(obj: Object, _now: str) -> None:
    obj["status"] = {"phase": "Pending"}
    prepare_claim_spec(obj)


def _volume_created(obj: Object, now: str) -> None:
    obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": now}


def _service_created(obj: Object, _now: str) -> None:
    """No addresses are given out here; a service that wants none says so in every field."""
    spec = obj["spec"]
    if spec.get("clusterIP") != "None":
        return
    spec.setdefault("clusterIPs", ["None"])
    has_pods = bool(spec.get("selector"))
    spec.setdefault("ipFamilies", ["IPv4"] if has_pods else ["IPv4", "IPv6"])
    spec.setdefault("ipFamilyPolicy", "SingleStack" if has_pods else "RequireDualStack")


def _daemon_set_created(obj: Object, _now: str) -> None:
    annotations = obj["metadata"]["annotations"]
    if annotations[TEMPLATE_GENERATION] == "0":
        annotations[TEMPLATE_GENERATION] = "1"


def _daemon_set_changed(new: Object, old: Object) -> None:
    """The generation of the template is counted by the server alone."""
    keep_status(new, old)
    text = old["metadata"].get("annotations", {}).get(TEMPLATE_GENERATION, "0")
    is_new = new["spec"]["template"] != old["spec"]["template"]
    generation = int(text) + is_new if text.isdecimal() else is_new
    new["metadata"].setdefault("annotations", {})[TEMPLATE_GENERATION] = str(int(generation))


def _request_changed(new: Object, old: Object) -> None:
    keep_spec(new, old)
    keep_status(new, old)


def _approval(new: Object, old: Object) -> None:
    """Only the conditions change."""
    conditions = new.get("status", {}).get("conditions", [])
    keep_spec(new, old)
    new["status"] = {**old.get("status", {}), "conditions": conditions}


def _slice_differs(new: Object, old: Object) -> bool:
    def content(obj: Object) -> Object:
        return {key: value for key, value in obj.items() if key != "metadata"}

    labels = (new["metadata"].get("labels"), old["metadata"].get("labels"))
    return content(new) != content(old) or labels[0] != labels[1]


def _keep_spec_and_labels(new: Object, old: Object) -> None:
    keep_spec(new, old)
    if "labels" in old["metadata"]:
        new["metadata"]["labels"] = old["metadata"]["labels"]
    else:
        new["metadata"].pop("labels", None)


def _parts(**parts: SubresourceStrategy) -> Mapping[str, SubresourceStrategy]:
    return MappingProxyType({**STATUS, **parts})


def _whole(
    whole: SubresourceStrategy, **parts: SubresourceStrategy
) -> Mapping[str, SubresourceStrategy]:
    return MappingProxyType({**STATUS, "": whole, **parts})


_WORKLOAD_PARTS = _whole(
    SubresourceStrategy(keep_status, workloads.validate_workload_update, raises_generation=True)
)
_WORKLOAD = Strategy(
    starts_generation=True,
    is_new_generation=spec_differs,
    validate=workloads.validate_workload,
    parts=_WORKLOAD_PARTS,
)
_NO_STATUS = MappingProxyType(
    {"": SubresourceStrategy(lambda _new, _old: None, raises_generation=True)}
)

_STRATEGIES: Mapping[tuple[str, str], Strategy] = MappingProxyType(
    {
        ("", "configmaps"): Strategy(
            validate=small.validate_config_map,
            parts=_whole(SubresourceStrategy(keep_status, small.validate_immutable_data)),
        ),
        ("", "endpoints"): Strategy(creates_on_update=True),
        ("", "events"): Strategy(
            creates_on_update=True,
            validate=of_event.validate_event,
            parts=_whole(SubresourceStrategy(keep_status, of_event.validate_event_update)),
        ),
        ("events.k8s.io", "events"): Strategy(
            creates_on_update=True,
            validate=of_event.validate_new_event,
            parts=_whole(SubresourceStrategy(keep_status, of_event.validate_new_event_update)),
        ),
        ("", "namespaces"): Strategy(
            check_name=names.dns_label,
            prepare_create=_namespace_created,
            parts=_whole(
                SubresourceStrategy(_namespace_changed, raises_generation=True),
                finalize=SubresourceStrategy(keep_status),
            ),
            returns_deleted=True,
        ),
        ("", "nodes"): Strategy(
            empties_status=False,
            validate=small.validate_node,
            parts=_whole(
                SubresourceStrategy(keep_status, small.validate_node_update),
                status=SubresourceStrategy(keep_spec, small.validate_node_update),
            ),
        ),
        ("", "persistentvolumeclaims"): Strategy(
            prepare_create=_claim_created,
            validate=of_storage.validate_claim,
            parts=_whole(SubresourceStrategy(keep_status, of_storage.validate_claim_update)),
            returns_deleted=True,
        ),
        ("", "persistentvolumes"): Strategy(
            prepare_create=_volume_created,
            validate=of_storage.validate_volume,
            returns_deleted=True,
        ),
        ("", "pods"): Strategy(
            prepare_create=pod_strategy.prepare_create,
            empties_status=False,  # it gets another one anyway
            starts_generation=True,
            is_new_generation=spec_differs,
            validate=of_pod.validate_pod,
            parts=_whole(
                SubresourceStrategy(keep_status, of_pod.validate_update, raises_generation=True),
                status=SubresourceStrategy(pod_strategy.prepare_status, of_part.validate_status),
                ephemeralcontainers=SubresourceStrategy(
                    pod_strategy.prepare_ephemeral,
                    of_part.validate_ephemeral,
                    raises_generation=True,
                ),
                resize=SubresourceStrategy(
                    pod_strategy.prepare_resize, of_part.validate_resize, raises_generation=True
                ),
            ),
            returns_deleted=True,
        ),
        ("", "replicationcontrollers"): Strategy(
            starts_generation=True,
            is_new_generation=spec_differs,
            orphans_dependents=True,
        ),
        ("", "secrets"): Strategy(
            validate=small.validate_config_map,
            parts=_whole(SubresourceStrategy(keep_status, small.validate_immutable_data)),
        ),
        ("", "serviceaccounts"): Strategy(returns_deleted=True),
        ("", "services"): Strategy(
            check_name=names.dns_label,
            prepare_create=_service_created,
            creates_on_update=True,
            validate=small.validate_service,
            returns_deleted=True,
        ),
        ("apps", "daemonsets"): Strategy(
            prepare_create=_daemon_set_created,
            starts_generation=True,
            is_new_generation=spec_differs,
            validate=workloads.validate_workload,
            parts=_whole(
                SubresourceStrategy(
                    _daemon_set_changed, workloads.validate_workload_update, raises_generation=True
                )
            ),
        ),
        ("apps", "deployments"): Strategy(
            starts_generation=True,
            is_new_generation=spec_or_annotations_differ,
            validate=workloads.validate_workload,
            parts=MappingProxyType(
                {**_WORKLOAD_PARTS, "status": SubresourceStrategy(_keep_spec_and_labels)}
            ),
        ),
        ("apps", "replicasets"): _WORKLOAD,
        ("apps", "statefulsets"): _WORKLOAD,
        ("batch", "jobs"): Strategy(
            prepare_create=jobs.prepare_job,
            starts_generation=True,
            is_new_generation=spec_differs,
            validate=jobs.validate_job,
            parts=_whole(
                SubresourceStrategy(keep_status, jobs.validate_job_update, raises_generation=True)
            ),
            orphans_dependents=True,
        ),
        ("certificates.k8s.io", "certificatesigningrequests"): Strategy(
            check_name=names.path_segment,
            parts=_whole(
                SubresourceStrategy(_request_changed), approval=SubresourceStrategy(_approval)
            ),
        ),
        ("coordination.k8s.io", "leases"): Strategy(
            creates_on_update=True,
            updates_unconditionally=False,
            validate=small.validate_lease,
            parts=_whole(SubresourceStrategy(keep_status, small.validate_lease_update)),
        ),
        ("discovery.k8s.io", "endpointslices"): Strategy(
            starts_generation=True, is_new_generation=_slice_differs
        ),
        ("policy", "poddisruptionbudgets"): Strategy(
            starts_generation=True,
            is_new_generation=spec_differs,
            updates_unconditionally=False,
            validate=small.validate_budget,
            parts=_whole(
                SubresourceStrategy(
                    keep_status, small.validate_budget_update, raises_generation=True
                )
            ),
        ),
        ("resource.k8s.io", "deviceclasses"): Strategy(
            starts_generation=True, is_new_generation=spec_differs, returns_deleted=True
        ),
        ("resource.k8s.io", "resourceclaims"): Strategy(
            parts=_whole(
                SubresourceStrategy(keep_status, small.validate_spec_is_kept),
                status=SubresourceStrategy(keep_spec_and_metadata),
            ),
            returns_deleted=True,
        ),
        ("resource.k8s.io", "resourceclaimtemplates"): Strategy(
            parts=_whole(SubresourceStrategy(keep_status, small.validate_spec_is_kept)),
            returns_deleted=True,
        ),
        ("resource.k8s.io", "resourceslices"): Strategy(
            starts_generation=True, is_new_generation=spec_differs, returns_deleted=True
        ),
        ("scheduling.k8s.io", "priorityclasses"): Strategy(
            starts_generation=True,
            validate=small.validate_priority_class,
            parts=_whole(SubresourceStrategy(keep_status, small.validate_priority_class_update)),
        ),
        ("storage.k8s.io", "csidrivers"): Strategy(
            is_new_generation=spec_differs, updates_unconditionally=False, returns_deleted=True
        ),
        ("storage.k8s.io", "csinodes"): Strategy(
            updates_unconditionally=False, returns_deleted=True
        ),
        ("storage.k8s.io", "csistoragecapacities"): Strategy(updates_unconditionally=False),
        ("storage.k8s.io", "storageclasses"): Strategy(
            validate=of_storage.validate_storage_class,
            parts=_whole(
                SubresourceStrategy(keep_status, of_storage.validate_storage_class_update)
            ),
            returns_deleted=True,
        ),
        ("storage.k8s.io", "volumeattachments"): Strategy(
            updates_unconditionally=False,
            parts=_parts(status=SubresourceStrategy(keep_spec_and_metadata)),
            returns_deleted=True,
        ),
    }
)

_PLAIN = Strategy()


def strategy_of(resource: Resource) -> Strategy:
    """Returns the strategy of a resource."""
    return _STRATEGIES.get((resource.group, resource.name), _PLAIN)
