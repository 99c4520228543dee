"""Metrics as a whole: what is exposed, hidden, reset, and limited by options."""

from __future__ import annotations

from mooring.clock import VirtualClock
from mooring.metrics.options import Feature, MetricsOptions
from mooring.metrics.registry import Metrics
from mooring.metrics.text import CONTENT_TYPE
from mooring.testing import make_pod
from tests.helpers.exposition import parse, value


def metrics(**options: object) -> Metrics:
    return Metrics(MetricsOptions(**options), clock=VirtualClock())  # type: ignore[arg-type]


def test_only_plain_families_are_there_before_anything_happens() -> None:
    body, content_type = metrics().expose()
    assert content_type == CONTENT_TYPE
    families = parse(body)
    assert families["scheduler_pod_scheduling_attempts"].help.startswith("[STABLE] ")
    assert value(body, "scheduler_preemption_attempts_total") == 0
    assert "scheduler_schedule_attempts_total" not in families
    assert "process_resident_memory_bytes" in families
    assert "python_info" in families


def test_attempts_are_counted_with_their_durations() -> None:
    clock = VirtualClock()
    found = Metrics(clock=clock)
    started_s = found.scheduler.now()
    clock.advance(0.003)
    found.scheduler.algorithm_ended(started_s)
    found.scheduler.attempt_failed("default-scheduler", started_s, is_unschedulable=True)
    found.scheduler.attempt_failed("default-scheduler", started_s, is_unschedulable=False)
    clock.advance(0.5)
    for attempts in (1, 14, 15, 16):
        found.scheduler.pod_bound(
            "default-scheduler",
            started_s,
            attempts=attempts,
            first_s=0.0,
            was_flushed=attempts == 16,
        )
    body, _ = found.expose()
    name, labels = "scheduler_schedule_attempts_total", {"profile": "default-scheduler"}
    assert value(body, name, result="unschedulable", **labels) == 1
    assert value(body, name, result="error", **labels) == 1
    assert value(body, name, result="scheduled", **labels) == 4
    duration = "scheduler_scheduling_attempt_duration_seconds"
    assert value(body, f"{duration}_bucket", result="error", le="0.002", **labels) == 0
    assert value(body, f"{duration}_bucket", result="error", le="0.004", **labels) == 1
    sli = "scheduler_pod_scheduling_sli_duration_seconds_count"
    assert [value(body, sli, attempts=shown) for shown in ("1", "14", "15+", "16")] == [
        1,
        1,
        2,
        None,
    ]
    assert value(body, "scheduler_pod_scheduled_after_flush_total") == 1
    assert value(body, "scheduler_scheduling_algorithm_duration_seconds_count") == 1


def test_a_pod_without_a_first_attempt_has_no_sli() -> None:
    found = metrics()
    found.scheduler.pod_bound("p", 0.0, attempts=1, first_s=None, was_flushed=False)
    assert "scheduler_pod_scheduling_sli_duration_seconds" not in parse(found.expose()[0])


def test_a_reset_removes_series_and_keeps_constants() -> None:
    found = metrics(features=[Feature("SomeGate", "BETA", True)])
    recorder = found.profile("p", {})
    found.scheduler.attempt_failed("p", 0.0, is_unschedulable=True)
    recorder.point("Filter", "Success", 0.0)
    found.reset()
    body, _ = found.expose()
    assert "scheduler_schedule_attempts_total" not in parse(body)
    assert value(body, "kubernetes_feature_enabled", name="SomeGate", stage="BETA") == 1
    assert value(body, "scheduler_pod_scheduling_attempts_count") == 0
    # The recorders go on, in new series.
    recorder.point("Filter", "Success", 0.0)
    recorder.succeeded["Permit"](0.0)
    found.scheduler.attempt_failed("p", 0.0, is_unschedulable=True)
    body, _ = found.expose()
    labels = {"result": "unschedulable", "profile": "p"}
    assert value(body, "scheduler_schedule_attempts_total", **labels) == 1
    point = "scheduler_framework_extension_point_duration_seconds_count"
    labels = {"status": "Success", "profile": "p"}
    assert value(body, point, extension_point="Filter", **labels) == 1
    assert value(body, point, extension_point="Permit", **labels) == 1


def test_disabled_metrics_are_not_shown_and_counted() -> None:
    names = ["scheduler_pod_scheduling_attempts", "no_such_metric", "", "no_such_metric"]
    body, _ = metrics(disabled=names).expose()
    assert "scheduler_pod_scheduling_attempts" not in parse(body)
    assert value(body, "disabled_metrics_total") == 2


def test_values_beyond_the_allow_list_are_unexpected() -> None:
    found = metrics(
        allowed_labels={
            "scheduler_schedule_attempts_total,profile": "known,other",
            "scheduler_framework_extension_point_duration_seconds,status": "Success",
        }
    )
    for profile in ("known", "new", "newer"):
        found.scheduler.attempt_failed(profile, 0.0, is_unschedulable=True)
    recorder = found.profile("p", {})
    for _ in range(2):
        recorder.point("Filter", "Error", 0.0)
    body, _ = found.expose()
    name, result = "scheduler_schedule_attempts_total", "unschedulable"
    assert value(body, name, profile="known", result=result) == 1
    assert value(body, name, profile="unexpected", result=result) == 2
    point = "scheduler_framework_extension_point_duration_seconds_count"
    labels = {"status": "unexpected", "profile": "p", "extension_point": "Filter"}
    assert value(body, point, **labels) == 2
    assert value(body, "cardinality_enforcement_unexpected_categorizations_total") == 4


def test_each_use_of_a_value_beyond_the_allow_list_counts_in_a_batch_too() -> None:
    name = "scheduler_plugin_execution_duration_seconds"
    found = metrics(allowed_labels={f"{name},plugin": "A"})
    recorder = found.profile("p", {})
    for plugin in ("A", "B", "B", "C"):
        recorder.plugin(plugin, "Filter", "Success", 0.001)
    body, _ = found.expose()
    labels = {"plugin": "unexpected", "extension_point": "Filter", "status": "Success"}
    assert value(body, f"{name}_count", **labels) == 3
    assert value(body, "cardinality_enforcement_unexpected_categorizations_total") == 3


def test_families_of_a_gate_are_registered_if_it_is_on() -> None:
    def is_there(found: Metrics) -> bool:
        found.scheduler.preemption_ended(0.0, succeeded=True)
        return "scheduler_preemption_goroutines_execution_total" in parse(found.expose()[0])

    assert is_there(metrics())
    assert not is_there(metrics(features=[Feature("SchedulerAsyncPreemption", "BETA", False)]))
    name = "scheduler_podgroup_scheduling_algorithm_duration_seconds"
    assert name not in parse(metrics().expose()[0])
    on = metrics(features=[Feature("GenericWorkload", "ALPHA", True)])
    assert name in parse(on.expose()[0])


def test_registered_metrics_are_counted_by_stability() -> None:
    name, labels = "registered_metrics_total", {"deprecated_version": ""}
    with_all = value(metrics().expose()[0], name, stability_level="STABLE", **labels)
    disabled = metrics(disabled=["scheduler_pending_pods"]).expose()[0]
    assert with_all == 12
    assert value(disabled, name, stability_level="STABLE", **labels) == 11


def test_health_checks_are_on_their_own_endpoint() -> None:
    found = metrics()
    found.record_healthcheck("ping", "livez", passed=True)
    found.record_healthcheck("ping", "livez", passed=False)
    body, content_type = found.expose_slis()
    assert content_type == CONTENT_TYPE
    families = parse(body)
    assert set(families) == {
        "kubernetes_healthcheck",
        "kubernetes_healthchecks_total",
        "process_start_time_seconds",
    }
    assert families["process_start_time_seconds"].help.startswith("[ALPHA]")
    assert value(body, "kubernetes_healthcheck", name="ping", type="livez") == 0
    for status in ("success", "error"):
        labels = {"name": "ping", "type": "livez", "status": status}
        assert value(body, "kubernetes_healthchecks_total", **labels) == 1
    assert "kubernetes_healthcheck" not in parse(found.expose()[0])
    found.reset_slis()
    assert set(parse(found.expose_slis()[0])) == {"process_start_time_seconds"}


def test_resources_are_empty_without_pods_to_show() -> None:
    found = metrics()
    assert found.expose_resources() == (b"", "")
    found.set_pods(lambda: [make_pod("web", requests={"cpu": "250m"})])
    body, content_type = found.expose_resources()
    assert content_type == CONTENT_TYPE
    assert b'resource="cpu",scheduler="default-scheduler",unit="cores"} 0.25' in body
    only = metrics(disabled=["kube_pod_resource_request"])
    only.set_pods(lambda: [make_pod("web", requests={"cpu": "250m"})])
    assert only.expose_resources()[0] == b""


def test_the_lease_is_asked_for_at_each_scrape() -> None:
    found, holders = metrics(), [False]
    assert "leader_election_master_status" not in parse(found.expose()[0])
    found.watch_lease(lambda: holders[0])
    name = "leader_election_master_status"
    assert value(found.expose()[0], name, name="kube-scheduler") == 0
    holders[0] = True
    assert value(found.expose()[0], name, name="kube-scheduler") == 1
    found.client.renewed_slowly()
    slow = value(found.expose()[0], "leader_election_slowpath_total", name="kube-scheduler")
    assert slow == 1
