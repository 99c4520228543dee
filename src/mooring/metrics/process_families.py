"""The families of the client, the process, its health checks and the pods, and our own."""

from __future__ import annotations

from typing import Final

from mooring.metrics.family import (
    ALPHA,
    BETA,
    RESOURCES,
    SLIS,
    STABLE,
    counter,
    gauge,
    histogram,
)

_REQUEST_S: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_SIZE_BYTES: Final = (
    *(64.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0),
    *(1048576.0, 4194304.0, 16777216.0),
)
#: Ten minutes to four years.
_CERTIFICATE_S: Final = (
    *(600.0, 1800.0, 3600.0, 14400.0, 86400.0, 604800.0, 2592000.0),
    *(7776000.0, 15552000.0, 31104000.0, 124416000.0),
)
#: From an unnoticed pause to one that delays the renewal of the lease.
_PAUSE_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

CLIENT: Final = (
    gauge(
        ALPHA,
        "leader_election_master_status",
        "1 if this process holds the lease, 0 if it does not.",
        "name",
    ),
    counter(
        ALPHA,
        "leader_election_slowpath_total",
        "Renewals of the lease that had to read it first.",
        "name",
    ),
    counter(
        ALPHA,
        "rest_client_requests_total",
        "Requests to the API server by status code; <error> without a response.",
        *("code", "method", "host"),
    ),
    histogram(
        ALPHA,
        "rest_client_request_duration_seconds",
        _REQUEST_S,
        "Duration of requests; of a watch until the head of its response.",
        *("verb", "host"),
    ),
    histogram(
        ALPHA,
        "rest_client_rate_limiter_duration_seconds",
        _REQUEST_S,
        "Time that requests waited for the client's rate limit.",
        *("verb", "host"),
    ),
    histogram(
        ALPHA,
        "rest_client_request_size_bytes",
        _SIZE_BYTES,
        "Size of request bodies.",
        *("verb", "host"),
    ),
    histogram(
        ALPHA,
        "rest_client_response_size_bytes",
        _SIZE_BYTES,
        "Size of response bodies.",
        *("verb", "host"),
    ),
    counter(
        ALPHA,
        "rest_client_request_retries_total",
        "Requests that were sent again.",
        *("code", "verb", "host"),
    ),
    gauge(
        ALPHA,
        "rest_client_exec_plugin_ttl_seconds",
        "Seconds until a certificate of an exec plugin expires; +Inf if there is none.",
    ),
    histogram(
        ALPHA,
        "rest_client_exec_plugin_certificate_rotation_age",
        _CERTIFICATE_S,
        "Age in seconds of certificates of exec plugins when they were replaced.",
    ),
    counter(
        ALPHA,
        "rest_client_exec_plugin_call_total",
        "Calls of exec plugins by exit code.",
        *("code", "call_status"),
    ),
)

PROCESS: Final = (
    gauge(
        BETA,
        "kubernetes_feature_enabled",
        "1 if the feature gate is on, 0 if it is off.",
        *("name", "stage"),
    ),
    gauge(
        BETA,
        "kubernetes_build_info",
        "Always 1; the labels tell the version.",
        *("major", "minor", "git_version", "git_commit", "git_tree_state", "build_date"),
        *("go_version", "compiler", "platform"),
    ),
    gauge(
        ALPHA,
        "version_info",
        "Always 1; the labels tell the versions that feature gates depend on.",
        *("component", "binary", "emulation", "min_compat"),
    ),
    counter(
        BETA,
        "registered_metrics_total",
        "Registered metrics by stability.",
        *("stability_level", "deprecated_version"),
    ),
    counter(BETA, "hidden_metrics_total", "Metrics hidden because they are deprecated."),
    counter(BETA, "disabled_metrics_total", "Metrics that --disabled-metrics removed."),
    counter(
        ALPHA,
        "cardinality_enforcement_unexpected_categorizations_total",
        "Label values that --allow-metric-labels replaced by 'unexpected'.",
    ),
    gauge(
        "",
        "go_goroutines",
        "Number of asyncio tasks: dashboards ask for it, and Python has no goroutines.",
    ),
)

HEALTH: Final = (
    gauge(
        STABLE,
        "kubernetes_healthcheck",
        "The last result of a health check: 1 = passed, 0 = failed.",
        *("name", "type"),
        endpoint=SLIS,
    ),
    counter(
        STABLE,
        "kubernetes_healthchecks_total",
        "Results of health checks by status: success or error.",
        *("name", "type", "status"),
        endpoint=SLIS,
    ),
    gauge(
        ALPHA,
        "process_start_time_seconds",
        "Start of the process in seconds since 1970.",
        endpoint=SLIS,
    ),
)

_RESOURCE_LABELS: Final = ("namespace", "pod", "node", "scheduler", "priority", "resource", "unit")

POD_RESOURCES: Final = (
    gauge(
        STABLE,
        "kube_pod_resource_request",
        "Requests of each pod that has not ended, by resource.",
        *_RESOURCE_LABELS,
        endpoint=RESOURCES,
    ),
    gauge(
        STABLE,
        "kube_pod_resource_limit",
        "Limits of each pod that has not ended, by resource.",
        *_RESOURCE_LABELS,
        endpoint=RESOURCES,
    ),
)

OWN: Final = (
    histogram(
        "",
        "mooring_event_loop_lag_seconds",
        _PAUSE_S,
        "How late the event loop runs a timer: no request is answered meanwhile.",
    ),
    histogram(
        "",
        "mooring_gc_pause_seconds",
        _PAUSE_S,
        "Pauses of the garbage collector by generation.",
        "generation",
    ),
    counter(
        "",
        "mooring_result_cache_lookups_total",
        "Lookups of cached results of plugins, once per attempt, by result: hit or miss.",
        *("profile", "result"),
    ),
    counter(
        "",
        "mooring_plugin_sampled_seconds_total",
        "Seconds in calls of plugins, in one of ten attempts: their share of a decision.",
        *("profile", "plugin", "extension_point"),
    ),
    gauge(
        "",
        "mooring_quarantined_pods",
        "Pods whose next attempt is put off because a plugin raised at them again and again.",
    ),
    counter(
        "",
        "mooring_pod_quarantines_total",
        "Quarantines of pods by the plugin that raised.",
        "plugin",
    ),
    gauge(
        "",
        "mooring_buffer_entries",
        "Entries of each cache, queue and pool that has a limit, by class and attribute.",
        "buffer",
    ),
    gauge(
        "",
        "mooring_buffer_limit_entries",
        "The limit of each cache, queue and pool; of several equal ones the sum.",
        "buffer",
    ),
    counter(
        "",
        "mooring_cache_audits_total",
        "Comparisons of the cache with the objects of the API server, one a minute.",
    ),
    counter(
        "",
        "mooring_cache_differences_total",
        "Differences that the audit of the cache found: node, pod, usage or other. Each is a bug.",
        "difference",
    ),
)
