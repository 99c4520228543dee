"""The catalog against the STABLE metrics of kube-scheduler, which must never change."""

from __future__ import annotations

from mooring.metrics.catalog import FAMILIES
from mooring.metrics.family import STABLE, exponential_buckets

BY_NAME = {family.name: family for family in FAMILIES}

#: Name -> type, labels, buckets: test/instrumentation/testdata/stable-metrics-list.yaml, the
#: metrics of the scheduler and of every component, and those of the resource collector.
STABLE_METRICS = {
    "scheduler_schedule_attempts_total": ("counter", {"profile", "result"}, ()),
    "scheduler_scheduling_attempt_duration_seconds": (
        "histogram",
        {"profile", "result"},
        exponential_buckets(0.001, 2, 15),
    ),
    "scheduler_pod_scheduling_attempts": ("histogram", set(), (1.0, 2.0, 4.0, 8.0, 16.0)),
    "scheduler_pending_pods": ("gauge", {"queue"}, ()),
    "scheduler_queue_incoming_pods_total": ("counter", {"event", "queue"}, ()),
    "scheduler_preemption_attempts_total": ("counter", set(), ()),
    "scheduler_preemption_victims": (
        "histogram",
        set(),
        (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0),
    ),
    "scheduler_framework_extension_point_duration_seconds": (
        "histogram",
        {"extension_point", "profile", "status"},
        exponential_buckets(0.0001, 2, 12),
    ),
    "kubernetes_healthcheck": ("gauge", {"name", "type"}, ()),
    "kubernetes_healthchecks_total": ("counter", {"name", "status", "type"}, ()),
    "kube_pod_resource_request": (
        "gauge",
        {"namespace", "node", "pod", "priority", "resource", "scheduler", "unit"},
        (),
    ),
    "kube_pod_resource_limit": (
        "gauge",
        {"namespace", "node", "pod", "priority", "resource", "scheduler", "unit"},
        (),
    ),
}


#: Older names of upstream.
COUNTERS_WITHOUT_TOTAL = ("authenticated_user_requests", "authentication_attempts")


def test_stable_metrics_are_those_of_kube_scheduler() -> None:
    found = {
        family.name: (family.kind, set(family.labels), family.buckets)
        for family in FAMILIES
        if family.stability == STABLE
    }
    assert found == STABLE_METRICS


def test_names_are_unique_and_counters_end_with_total() -> None:
    assert len(BY_NAME) == len(FAMILIES)
    for family in FAMILIES:
        if family.name not in COUNTERS_WITHOUT_TOTAL:
            assert family.name.endswith("_total") == (family.kind == "counter"), family.name
        assert bool(family.buckets) == (family.kind == "histogram"), family.name
        assert family.help.endswith("."), family.name


def test_no_label_names_a_node_or_pod_but_where_pods_are_shown() -> None:
    unlimited = {"pod", "node", "namespace", "uid"}
    assert all(
        not unlimited & set(family.labels)
        for family in FAMILIES
        if family.endpoint != "/metrics/resources"
    )
