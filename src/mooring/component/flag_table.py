"""Every flag of ``mooring run``: those of kube-scheduler v1.36.3, and mooring's own.

Names, types, defaults and groups are kube-scheduler's.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from mooring.component import flag_kinds as kinds
from mooring.component.flag_kinds import Kind
from mooring.objects.quantity import Quantity

MISC: Final = "misc"
SERVING: Final = "secure serving"
AUTHENTICATION: Final = "authentication"
AUTHORIZATION: Final = "authorization"
DEPRECATED: Final = "deprecated"
LEADER_ELECTION: Final = "leader election"
FEATURE_GATES: Final = "feature gate"
METRICS: Final = "metrics"
LOGS: Final = "logs"
MOORING: Final = "mooring"
GLOBAL: Final = "global"

#: In the order of the usage text.
GROUPS: Final = (
    MISC,
    SERVING,
    AUTHENTICATION,
    AUTHORIZATION,
    DEPRECATED,
    LEADER_ELECTION,
    FEATURE_GATES,
    METRICS,
    LOGS,
    MOORING,
    GLOBAL,
)


class Flag(NamedTuple):
    """A flag.

    Attributes:
        name: Without dashes.
        group: One of ``GROUPS``.
        kind: Its type.
        default: Its value if it is not given.
        help: What it does.
        note: Why giving it has no effect; "" if it has one.
        short: Its one-letter name.
    """

    name: str
    group: str
    kind: Kind
    default: Any
    help: str
    note: str = ""
    short: str = ""


_NO_HTTP2: Final = "mooring serves HTTP/1.1 only"
_IGNORED_WITH_CONFIG: Final = "Ignored if --config is given."
_ALPHA_LOGS: Final = "Needs the feature gate LoggingAlphaOptions."


def _election_flags() -> tuple[Flag, ...]:
    return (
        Flag("leader-elect", LEADER_ELECTION, kinds.BOOL, True,
             "Acquire a lease before scheduling, so that one of several replicas is active."),
        Flag("leader-elect-lease-duration", LEADER_ELECTION, kinds.DURATION, 15.0,
             "How long after the last renewal a standby waits before it takes over."),
        Flag("leader-elect-renew-deadline", LEADER_ELECTION, kinds.DURATION, 10.0,
             "How long the leader retries a renewal before it gives up. Less than the lease "
             "duration."),
        Flag("leader-elect-resource-lock", LEADER_ELECTION, kinds.STRING, "leases",
             "Kind of the lock object; only leases are supported."),
        Flag("leader-elect-resource-name", LEADER_ELECTION, kinds.STRING, "kube-scheduler",
             "Name of the lease."),
        Flag("leader-elect-resource-namespace", LEADER_ELECTION, kinds.STRING, "kube-system",
             "Namespace of the lease."),
        Flag("leader-elect-retry-period", LEADER_ELECTION, kinds.DURATION, 2.0,
             "Time between two tries to acquire or renew the lease."),
    )  # fmt: skip


def _serving_flags() -> tuple[Flag, ...]:
    return (
        Flag("bind-address", SERVING, kinds.IP, "0.0.0.0",  # noqa: S104
             "IP address to listen on; 0.0.0.0 and :: are all interfaces."),
        Flag("cert-dir", SERVING, kinds.STRING, "",
             "Folder for the certificate that is made if none is given; empty: in memory only."),
        Flag("disable-http2-serving", SERVING, kinds.BOOL, False,
             "Serve HTTP/1.1 only.", _NO_HTTP2),
        Flag("http2-max-streams-per-connection", SERVING, kinds.INT, 0,
             "Largest number of streams of an HTTP/2 connection.", _NO_HTTP2),
        Flag("permit-address-sharing", SERVING, kinds.BOOL, False,
             "Listen with SO_REUSEADDR."),
        Flag("permit-port-sharing", SERVING, kinds.BOOL, False,
             "Listen with SO_REUSEPORT."),
        Flag("secure-port", SERVING, kinds.INT, 10259,
             "Port for HTTPS; 0: no server."),
        Flag("tls-cert-file", SERVING, kinds.STRING, "",
             "File with the server's certificate, and those of its issuers after it."),
        Flag("tls-cipher-suites", SERVING, kinds.STRINGS, (),
             "Cipher suites of the server, by their IANA names; empty: the default ones."),
        Flag("tls-curve-preferences", SERVING, kinds.INT32S, (),
             "Key exchange mechanisms of the server, by their numbers.",
             "Python's ssl chooses the key exchange by itself"),
        Flag("tls-min-version", SERVING, kinds.STRING, "",
             "Oldest TLS version: VersionTLS10, VersionTLS11, VersionTLS12 or VersionTLS13."),
        Flag("tls-private-key-file", SERVING, kinds.STRING, "",
             "File with the private key of --tls-cert-file."),
        Flag("tls-sni-cert-key", SERVING, kinds.CERT_KEYS, (),
             "Certificate and key for some server names: crt,key or crt,key:name,name. May be "
             "given several times."),
    )  # fmt: skip


def _authentication_flags() -> tuple[Flag, ...]:
    return (
        Flag("authentication-kubeconfig", AUTHENTICATION, kinds.STRING, "",
             "Kubeconfig for TokenReviews; empty: tokens are not looked at."),
        Flag("authentication-skip-lookup", AUTHENTICATION, kinds.BOOL, False,
             "Do not look up missing settings in the cluster."),
        Flag("authentication-token-webhook-cache-ttl", AUTHENTICATION, kinds.DURATION, 10.0,
             "How long the answer of a TokenReview is cached."),
        Flag("authentication-tolerate-lookup-failure", AUTHENTICATION, kinds.BOOL, True,
             "Start although the settings cannot be looked up in the cluster."),
        Flag("client-ca-file", AUTHENTICATION, kinds.STRING, "",
             "CA of the clients that authenticate with a certificate."),
        Flag("requestheader-allowed-names", AUTHENTICATION, kinds.STRINGS, (),
             "Common names of the proxies that may name a user in headers; empty: any."),
        Flag("requestheader-client-ca-file", AUTHENTICATION, kinds.STRING, "",
             "CA of the proxies that may name a user in headers."),
        Flag("requestheader-extra-headers-prefix", AUTHENTICATION, kinds.STRINGS,
             ("x-remote-extra-",), "Prefixes of the headers with further facts about a user."),
        Flag("requestheader-group-headers", AUTHENTICATION, kinds.STRINGS, ("x-remote-group",),
             "Headers with a user's groups."),
        Flag("requestheader-uid-headers", AUTHENTICATION, kinds.STRINGS, (),
             "Headers with a user's UID."),
        Flag("requestheader-username-headers", AUTHENTICATION, kinds.STRINGS, ("x-remote-user",),
             "Headers with a user's name."),
    )  # fmt: skip


def _authorization_flags() -> tuple[Flag, ...]:
    return (
        Flag("authorization-always-allow-paths", AUTHORIZATION, kinds.STRINGS,
             ("/healthz", "/readyz", "/livez"),
             "Paths that need no authorization; a * at the end stands for any rest."),
        Flag("authorization-kubeconfig", AUTHORIZATION, kinds.STRING, "",
             "Kubeconfig for SubjectAccessReviews; empty: other paths are forbidden."),
        Flag("authorization-webhook-cache-authorized-ttl", AUTHORIZATION, kinds.DURATION, 10.0,
             "How long the answer that a request is allowed is cached."),
        Flag("authorization-webhook-cache-unauthorized-ttl", AUTHORIZATION, kinds.DURATION, 10.0,
             "How long the answer that a request is not allowed is cached."),
    )  # fmt: skip


def _deprecated_flags() -> tuple[Flag, ...]:
    return (
        Flag("contention-profiling", DEPRECATED, kinds.BOOL, True,
             f"Profile blocked threads. {_IGNORED_WITH_CONFIG}",
             "mooring schedules in one thread, so there is no contention to profile"),
        Flag("kube-api-burst", DEPRECATED, kinds.INT32, 100,
             "Requests to the API server that may exceed --kube-api-qps for a moment; no limit if "
             f"neither is given. {_IGNORED_WITH_CONFIG}"),
        Flag("kube-api-content-type", DEPRECATED, kinds.STRING,
             "application/vnd.kubernetes.protobuf",
             f"Content type of requests. {_IGNORED_WITH_CONFIG}",
             "mooring speaks JSON with the API server"),
        Flag("kube-api-qps", DEPRECATED, kinds.FLOAT32, 50.0,
             "Requests a second to the API server; no limit if neither this nor --kube-api-burst "
             f"is given. {_IGNORED_WITH_CONFIG}"),
        Flag("kubeconfig", DEPRECATED, kinds.STRING, "",
             f"Kubeconfig file. {_IGNORED_WITH_CONFIG}"),
        Flag("pod-max-in-unschedulable-pods-duration", DEPRECATED, kinds.DURATION, 300.0,
             "How long a pod is unschedulable before it is requeued without an event."),
        Flag("profiling", DEPRECATED, kinds.BOOL, True,
             f"Serve /debug/pprof/. {_IGNORED_WITH_CONFIG}"),
    )  # fmt: skip


def _gate_and_metric_flags() -> tuple[Flag, ...]:
    return (
        Flag("emulated-version", FEATURE_GATES, kinds.STRINGS, (),
             "Version whose feature gates are in effect: kube=1.33 to kube=1.36 (default 1.36)."),
        Flag("feature-gates", FEATURE_GATES, kinds.GATES, {},
             "Feature gates as Name=true|false, separated by commas; may be given several times."),
        Flag("min-compatibility-version", FEATURE_GATES, kinds.STRINGS, (),
             "Oldest version of other components: kube=1.33 up to the emulated one."),
        Flag("allow-metric-labels", METRICS, kinds.MAP, {},
             "Allowed values of metric labels: metric,label=value,value."),
        Flag("allow-metric-labels-manifest", METRICS, kinds.STRING, "",
             "File with the allowed values of metric labels."),
        Flag("disabled-metrics", METRICS, kinds.STRINGS, (),
             "Metrics that are not exposed, by their full names."),
        Flag("show-hidden-metrics-for-version", METRICS, kinds.STRING, "",
             "Previous minor version, whose hidden metrics are exposed: 1.35."),
    )  # fmt: skip


def _log_flags() -> tuple[Flag, ...]:
    return (
        Flag("log-flush-frequency", LOGS, kinds.DURATION, 5.0,
             "Longest time between two flushes of the log.", "every line is written at once"),
        Flag("log-json-info-buffer-size", LOGS, kinds.QUANTITY, Quantity(),
             f"Bytes of info lines that are buffered if the stream is split. {_ALPHA_LOGS}",
             "every line is written at once"),
        Flag("log-json-split-stream", LOGS, kinds.BOOL, False,
             f"Write info lines to stdout. {_ALPHA_LOGS}"),
        Flag("log-text-info-buffer-size", LOGS, kinds.QUANTITY, Quantity(),
             f"Bytes of info lines that are buffered if the stream is split. {_ALPHA_LOGS}",
             "every line is written at once"),
        Flag("log-text-split-stream", LOGS, kinds.BOOL, False,
             f"Write info lines to stdout. {_ALPHA_LOGS}"),
        Flag("logging-format", LOGS, kinds.STRING, "text", "Format of the log: text or json."),
        Flag("v", LOGS, kinds.LEVEL, 0, "Verbosity of the log.", short="v"),
        Flag("vmodule", LOGS, kinds.VMODULE, (),
             "Verbosity of some source files: file=N, separated by commas; text format only."),
    )  # fmt: skip


def _own_flags() -> tuple[Flag, ...]:
    return (
        Flag("context", MOORING, kinds.STRING, "", "Context of the kubeconfig."),
        Flag("log-level", MOORING, kinds.one_of("debug", "info", "warning", "error"), "info",
             "Lowest level of the log: debug, info, warning or error; debug is -v=4."),
        Flag("node-sampling", MOORING, kinds.one_of("all", "adaptive"), "all",
             "Nodes that are filtered and scored if percentageOfNodesToScore is not set: all, or "
             "kube-scheduler's adaptive number."),
        Flag("plugin", MOORING, kinds.EACH, (),
             "Additional plugin for every profile, as module:attribute; may be given several "
             "times."),
    )  # fmt: skip


FLAGS: Final[dict[str, Flag]] = {
    flag.name: flag
    for flag in (
        Flag("config", MISC, kinds.STRING, "", "KubeSchedulerConfiguration file."),
        Flag("master", MISC, kinds.STRING, "",
             "URL of the API server, instead of the kubeconfig's."),
        Flag("write-config-to", MISC, kinds.STRING, "",
             "Write the complete configuration to this file and exit."),
        *_serving_flags(),
        *_authentication_flags(),
        *_authorization_flags(),
        *_deprecated_flags(),
        *_election_flags(),
        *_gate_and_metric_flags(),
        *_log_flags(),
        *_own_flags(),
        Flag("help", GLOBAL, kinds.BOOL, False, "Show this text.", short="h"),
        Flag("version", GLOBAL, kinds.VERSION, "false",
             "Print the version and exit; =raw prints all of it, =vX.Y.Z-suffix changes the "
             "reported one."),
    )
}  # fmt: skip
