"""The families ``scheduler_*``: attempts, queue, plugins, preemption and batching."""

from __future__ import annotations

from typing import Final

from mooring.metrics.family import (
    ALPHA,
    BETA,
    STABLE,
    counter,
    exponential_buckets,
    gauge,
    histogram,
)

_ATTEMPT_S: Final = exponential_buckets(0.001, 2, 15)
_LONG_S: Final = exponential_buckets(0.01, 2, 20)
_POINT_S: Final = exponential_buckets(0.0001, 2, 12)
_PLUGIN_S: Final = exponential_buckets(0.00001, 1.5, 20)
_HINT_S: Final = exponential_buckets(0.00001, 2, 12)
_BINDING_CONDITIONS_S: Final = exponential_buckets(0.1, 2, 14)

_ASYNC_CALLS: Final = "SchedulerAsyncAPICalls"
_ASYNC_PREEMPTION: Final = "SchedulerAsyncPreemption"
_HINTS: Final = "SchedulerQueueingHints"
_WORKLOADS: Final = "GenericWorkload"

ATTEMPTS: Final = (
    counter(
        STABLE,
        "scheduler_schedule_attempts_total",
        "Scheduling attempts by result: scheduled, unschedulable (no node fits) or error.",
        *("result", "profile"),
    ),
    histogram(
        STABLE,
        "scheduler_scheduling_attempt_duration_seconds",
        _ATTEMPT_S,
        "Duration of scheduling attempts, including the binding.",
        *("result", "profile"),
    ),
    histogram(
        ALPHA,
        "scheduler_scheduling_algorithm_duration_seconds",
        _ATTEMPT_S,
        "Duration of the scheduling algorithm, including PostFilter.",
    ),
    histogram(
        STABLE,
        "scheduler_pod_scheduling_attempts",
        exponential_buckets(1, 2, 5),
        "Attempts that a pod needed until it was bound.",
    ),
    histogram(
        BETA,
        "scheduler_pod_scheduling_sli_duration_seconds",
        _LONG_S,
        "Time from the pod's first entry into the active queue until it was bound.",
        "attempts",
    ),
    counter(
        ALPHA,
        "scheduler_pod_scheduled_after_flush_total",
        "Pods bound after a requeue by timeout: an event or a queueing hint may be missing.",
    ),
    histogram(
        BETA,
        "scheduler_permit_wait_duration_seconds",
        _ATTEMPT_S,
        "Time that pods waited for Permit plugins, by result.",
        "result",
    ),
    counter(
        ALPHA,
        "scheduler_podgroup_schedule_attempts_total",
        "Attempts to schedule pod groups by result. Never counted: there are no pod groups yet.",
        *("result", "profile"),
        gate=_WORKLOADS,
        is_gate_on=False,
    ),
    histogram(
        ALPHA,
        "scheduler_podgroup_scheduling_attempt_duration_seconds",
        _ATTEMPT_S,
        "Duration of attempts to schedule pod groups. Never observed.",
        *("result", "profile"),
        gate=_WORKLOADS,
        is_gate_on=False,
    ),
    histogram(
        ALPHA,
        "scheduler_podgroup_scheduling_algorithm_duration_seconds",
        _ATTEMPT_S,
        "Duration of the algorithm for pod groups. Never observed.",
        gate=_WORKLOADS,
        is_gate_on=False,
    ),
)

QUEUE: Final = (
    gauge(
        STABLE,
        "scheduler_pending_pods",
        "Pending pods by queue: active, backoff, unschedulable (no node fits) or gated.",
        "queue",
    ),
    counter(
        STABLE,
        "scheduler_queue_incoming_pods_total",
        "Pods added to a queue, by queue and by the event that moved them.",
        *("queue", "event"),
    ),
    gauge(
        BETA,
        "scheduler_unschedulable_pods",
        "Pods in the queues by the plugin that rejected them; a pod counts for each such plugin.",
        *("plugin", "profile"),
    ),
    gauge(
        ALPHA,
        "scheduler_inflight_events",
        "Events recorded for pods that are being scheduled, and these pods (PodPopped).",
        "event",
        gate=_HINTS,
    ),
    histogram(
        ALPHA,
        "scheduler_queueing_hint_execution_duration_seconds",
        _PLUGIN_S,
        "Duration of queueing hints.",
        *("plugin", "event", "hint"),
        gate=_HINTS,
    ),
    histogram(
        ALPHA,
        "scheduler_event_handling_duration_seconds",
        _POINT_S,
        "Duration of the handling of watch events.",
        "event",
    ),
    gauge(
        ALPHA,
        "scheduler_cache_size",
        "Objects in the scheduler's cache: nodes, pods (assumed ones included), assumed_pods.",
        "type",
    ),
    gauge(
        BETA,
        "scheduler_goroutines",
        "Tasks by operation; only binding, nothing else runs concurrently.",
        "operation",
    ),
)

FRAMEWORK: Final = (
    histogram(
        STABLE,
        "scheduler_framework_extension_point_duration_seconds",
        _POINT_S,
        "Duration of all plugins of an extension point together.",
        *("extension_point", "status", "profile"),
    ),
    histogram(
        ALPHA,
        "scheduler_plugin_execution_duration_seconds",
        _PLUGIN_S,
        "Duration of calls of plugins in one of ten attempts; one call handles all nodes.",
        *("plugin", "extension_point", "status"),
    ),
    counter(
        BETA,
        "scheduler_plugin_evaluation_total",
        "Evaluations by plugin: pods for PreFilter and PreScore, nodes for Filter and Score.",
        *("plugin", "extension_point", "profile"),
    ),
    counter(
        STABLE,
        "scheduler_preemption_attempts_total",
        "Attempts to make room for a pod by evicting pods of lower priority.",
    ),
    histogram(
        STABLE,
        "scheduler_preemption_victims",
        exponential_buckets(1, 2, 7),
        "Victims of a preemption.",
    ),
    histogram(
        ALPHA,
        "scheduler_preemption_goroutines_duration_seconds",
        _LONG_S,
        "Duration of the evictions of a preemption, by result.",
        "result",
        gate=_ASYNC_PREEMPTION,
    ),
    counter(
        ALPHA,
        "scheduler_preemption_goroutines_execution_total",
        "Preemptions whose evictions have ended, by result.",
        "result",
        gate=_ASYNC_PREEMPTION,
    ),
    counter(
        ALPHA,
        "scheduler_volume_scheduling_stage_error_total",
        "Errors of VolumeBinding by stage: predicate, assume or bind.",
        "operation",
    ),
    counter(
        ALPHA,
        "scheduler_volume_binder_cache_requests_total",
        "Requests to a cache that kube-scheduler no longer has. Never counted.",
        "operation",
    ),
    counter(
        ALPHA,
        "scheduler_resourceclaim_creates_total",
        "ResourceClaims created for extended resources.",
        "status",
        gate="DRAExtendedResource",
    ),
    counter(
        ALPHA,
        "scheduler_dra_bindingconditions_allocations_total",
        "Allocated devices with binding conditions, by result of the wait.",
        *("profile", "driver", "status"),
        gate="DRADeviceBindingConditions",
    ),
    histogram(
        ALPHA,
        "scheduler_dra_bindingconditions_wait_duration_seconds",
        _BINDING_CONDITIONS_S,
        "Time that pods waited for binding conditions, for each of their devices.",
        *("profile", "driver", "status"),
        gate="DRADeviceBindingConditions",
    ),
    counter(
        ALPHA,
        "scheduler_async_api_call_execution_total",
        "Calls of kube-scheduler's API dispatcher, which is not implemented. Never counted.",
        *("call_type", "result"),
        gate=_ASYNC_CALLS,
        is_gate_on=False,
    ),
    histogram(
        ALPHA,
        "scheduler_async_api_call_execution_duration_seconds",
        _ATTEMPT_S,
        "Duration of calls of kube-scheduler's API dispatcher. Never observed.",
        *("call_type", "result"),
        gate=_ASYNC_CALLS,
        is_gate_on=False,
    ),
    gauge(
        ALPHA,
        "scheduler_pending_async_api_calls",
        "Calls that wait in kube-scheduler's API dispatcher. Never set.",
        "call_type",
        gate=_ASYNC_CALLS,
        is_gate_on=False,
    ),
)

#: Opportunistic batching reuses the node list of the pod before.
BATCH: Final = (
    counter(
        ALPHA,
        "scheduler_batch_attempts_total",
        "Pods by what opportunistic batching did for them.",
        *("profile", "result"),
    ),
    counter(
        ALPHA,
        "scheduler_batch_cache_flushed_total",
        "Why sorted nodes were not used, or not stored, for batching.",
        *("profile", "reason"),
    ),
    histogram(
        ALPHA,
        "scheduler_get_node_hint_duration_seconds",
        _HINT_S,
        "Duration of getting a node hint from opportunistic batching.",
        *("hinted", "profile"),
    ),
    histogram(
        ALPHA,
        "scheduler_store_schedule_results_duration_seconds",
        _HINT_S,
        "Duration of storing the sorted nodes for the next pod.",
        "profile",
    ),
)
