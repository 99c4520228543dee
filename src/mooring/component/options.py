"""The configuration in effect: of flags, configuration file and defaults.

::

    defaults ── no --config ──> deprecated flags that were given ─┐
    file ────── --config ─────> (deprecated flags are ignored) ───┼─> election flags ──> checks
                                                                  ┘

Source: cmd/kube-scheduler/app/options/options.go (ApplyTo, ApplyDeprecated, ApplyLeaderElectionTo).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from mooring.component.config_errors import (
    is_of_profile,
    profile_error_text,
    validation_error_texts,
)
from mooring.component.decoding_errors import decoding_error_text, with_names
from mooring.component.feature_gates import FeatureGates
from mooring.component.flags import Options
from mooring.component.go_values import GoError, aggregate
from mooring.component.validation import logging_errors, option_errors
from mooring.config import KubeSchedulerConfiguration
from mooring.config.load import Decoded, decode, only_document
from mooring.config.types import API_VERSION, KIND, LeaderElection
from mooring.config.validation.configuration import RETRY_PROBLEM, check
from mooring.errors import ConfigError, SchedulerError
from mooring.objects.files.limits import CONFIG_BYTES_MAX
from mooring.objects.files.paths import read_bytes

#: Flag -> field of clientConnection.
_CONNECTION_FLAGS: Final = {
    "kubeconfig": "kubeconfig",
    "kube-api-content-type": "content_type",
    "kube-api-qps": "qps",
    "kube-api-burst": "burst",
}

#: Flag -> field of leaderElection.
_ELECTION_FLAGS: Final = {
    "leader-elect": "leader_elect",
    "leader-elect-lease-duration": "lease_duration_s",
    "leader-elect-renew-deadline": "renew_deadline_s",
    "leader-elect-retry-period": "retry_period_s",
    "leader-elect-resource-lock": "resource_lock",
    "leader-elect-resource-name": "resource_name",
    "leader-elect-resource-namespace": "resource_namespace",
}
_REMOVED_LOCKS: Final = {
    "endpoints": "endpoints lock is removed, migrate to leases",
    "configmaps": "configmaps lock is removed, migrate to leases",
    "endpointsleases": "endpointsleases lock is removed, migrate to leases",
    "configmapsleases": "configmapsleases lock is removed, migrated to leases",
}
#: Field of the configuration -> why it has no effect.
_NO_EFFECT: Final = {
    ("parallelism",): "decisions use one core",
    ("enableContentionProfiling",): "mooring schedules in one thread",
    ("clientConnection", "contentType"): "mooring speaks JSON with the API server",
    ("clientConnection", "acceptContentTypes"): "mooring speaks JSON with the API server",
}
_JITTER_FACTOR: Final = 1.2


class CommandFailed(SchedulerError):
    """``mooring run`` cannot start; logged as ``"command failed" err="..."``, exit code 1.

    Attributes:
        causes: The single errors, if several may be reported together.
        details: Lines for people: where in the file, and what may have been meant.
    """

    def __init__(
        self, message: str, *, causes: tuple[str, ...] = (), details: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message)
        self.causes = causes
        self.details = details


@dataclass(frozen=True)
class RateLimit:
    """The limit on requests to the API server: ``qps`` on average, ``burst`` at once."""

    qps: float
    burst: int


@dataclass(frozen=True)
class Effective:
    """The settings that a scheduler runs with.

    Attributes:
        config: Complete, with the flags that override it.
        gates: The feature gates.
        rate_limit: None = no limit, because neither qps nor burst was set.
        unschedulable_timeout_s: Of --pod-max-in-unschedulable-pods-duration.
        profile_error: Why the profiles cannot be built, as far as validation finds it.
        without_effect: Fields of the file that have no effect, with the reason.
    """

    config: KubeSchedulerConfiguration
    gates: FeatureGates
    rate_limit: RateLimit | None
    unschedulable_timeout_s: float
    profile_error: str | None = None
    without_effect: tuple[tuple[str, str], ...] = ()


def feature_gates(options: Options) -> FeatureGates:
    """Returns the gates of a command line.

    Raises:
        CommandFailed: they cannot be set so.
    """
    try:
        return FeatureGates.from_flags(
            options.feature_gates,
            emulated=options.emulated_version,
            min_compatibility=options.min_compatibility_version,
        )
    except GoError as error:
        raise CommandFailed(str(error)) from None


def check_logging(options: Options, gates: FeatureGates) -> str:
    """Returns what is wrong with the flags of the log; "" if nothing."""
    errors = logging_errors(options.logging, gates)
    return aggregate(errors) if errors else ""


def check_options(options: Options, gates: FeatureGates) -> None:
    """Checks the flags, then the gates that mooring does not implement.

    Raises:
        CommandFailed: something is wrong.
    """
    if errors := option_errors(options, gates):
        raise CommandFailed(aggregate(errors), causes=tuple(dict.fromkeys(errors)))
    if missing := gates.missing_because_set():
        listed = ", ".join(f"{gate}: {reason}" for gate, reason in missing.items())
        raise CommandFailed(f"feature gate values that mooring does not implement: {listed}")


def effective(options: Options, gates: FeatureGates) -> Effective:
    """Returns the configuration in effect; reads the file.

    Raises:
        CommandFailed: the file cannot be read, or something in it is invalid.
    """
    document: Any = {"apiVersion": API_VERSION, "kind": KIND}
    text: bytes | None = None
    if options.config:
        text = _read(options.config)
        document = _parse(text)
    profile_error: str | None = None
    decoded = _decoded(document, options, text, gates)
    config, written = decoded.complete, decoded.written
    if options.config:
        config = _with_election(config, options)
        written = _with_election(written, options)
        profile_error = _validate(config, written, gates)
        connection = document.get("clientConnection") or {}
        is_limited = bool(connection.get("qps") or connection.get("burst"))
    else:
        config = _with_election(_with_deprecated(config, options), options)
        is_limited = bool({"kube-api-qps", "kube-api-burst"} & options.given_flags)
    if options.node_sampling == "adaptive" and config.percentage_of_nodes_to_score is None:
        config = msgspec.structs.replace(config, percentage_of_nodes_to_score=0)
    client = config.client_connection
    return Effective(
        config=config,
        gates=gates,
        rate_limit=RateLimit(client.qps, client.burst) if is_limited and client.qps > 0 else None,
        unschedulable_timeout_s=options.pod_max_in_unschedulable_pods_duration,
        profile_error=profile_error,
        without_effect=tuple(_without_effect(document)),
    )


def check_lock(election: LeaderElection) -> None:
    """Checks the kind of the lock.

    Raises:
        CommandFailed: there is no such lock any more.
    """
    lock = election.resource_lock
    if election.leader_elect and lock != "leases":
        problem = _REMOVED_LOCKS.get(lock, f"Invalid lock-type {lock}")
        raise CommandFailed(f"couldn't create resource lock: {problem}")


def check_elector(election: LeaderElection) -> None:
    """Checks the times of leader election, which kube-scheduler does when it starts to elect.

    Raises:
        CommandFailed: a time leaves no room for another.
    """
    if not election.leader_elect:
        return
    lease_s, deadline_s = election.lease_duration_s, election.renew_deadline_s
    if lease_s <= deadline_s:
        problem = "leaseDuration must be greater than renewDeadline"
    elif deadline_s <= election.retry_period_s * _JITTER_FACTOR:
        problem = "renewDeadline must be greater than retryPeriod*JitterFactor"
    elif lease_s < 1e-9:
        problem = "leaseDuration must be greater than zero"
    elif deadline_s < 1e-9:
        problem = "renewDeadline must be greater than zero"
    elif election.retry_period_s < 1e-9:
        problem = "retryPeriod must be greater than zero"
    else:
        return
    raise CommandFailed(f"couldn't create leader elector: {problem}")


def _without_effect(document: Any) -> Iterator[tuple[str, str]]:
    """Yields the fields of a document that are set and have no effect, with the reason."""
    for path, reason in _NO_EFFECT.items():
        holder: Any = document
        for name in path:
            holder = (holder or {}).get(name)
        if holder:
            yield ".".join(path), reason


def _read(path: str) -> bytes:
    try:
        return read_bytes(path, bytes_max=CONFIG_BYTES_MAX)
    except ConfigError as error:
        reason = error.problem.removeprefix("cannot be read: ")
        action = "read" if "is a directory" in reason else "open"
        raise CommandFailed(f"{action} {path}: {reason}") from None


def _parse(text: bytes) -> Any:
    try:
        return only_document(text, kind=KIND)
    except ConfigError as error:
        raise CommandFailed(decoding_error_text(error, text), details=(str(error),)) from None


def _decoded(document: Any, options: Options, text: bytes | None, gates: FeatureGates) -> Decoded:
    result = decode(with_names(document), gates=gates.changed)
    if isinstance(result, Decoded):
        return result
    message = decoding_error_text(result, text or b"", document)
    details = tuple(str(error) for error in _located(result, text, options.config))
    raise CommandFailed(message, details=details)


def _located(errors: Any, text: bytes | None, file: str) -> list[ConfigError]:
    from mooring.config.load import located_errors

    return located_errors(errors, text, file)


def _validate(
    config: KubeSchedulerConfiguration, written: KubeSchedulerConfiguration, gates: FeatureGates
) -> str | None:
    """Raises the errors of validation; returns that of building the profiles, which comes later."""
    errors = [
        error
        for error in check(config, written=written, gates=gates.changed)
        if error.problem != RETRY_PROBLEM
    ]
    later = [error for error in errors if is_of_profile(error, config)]
    texts = [
        text
        for error in errors
        if error not in later
        for text in validation_error_texts(error, config)
    ]
    if texts:
        raise CommandFailed(aggregate(texts), causes=tuple(dict.fromkeys(texts)))
    return profile_error_text(later, config)


def _with_deprecated(
    config: KubeSchedulerConfiguration, options: Options
) -> KubeSchedulerConfiguration:
    changes: dict[str, Any] = {
        field: getattr(options, flag.replace("-", "_"))
        for flag, field in _CONNECTION_FLAGS.items()
        if flag in options.given_flags
    }
    client = msgspec.structs.replace(config.client_connection, **changes)
    config = msgspec.structs.replace(config, client_connection=client)
    if "profiling" in options.given_flags:
        config = msgspec.structs.replace(config, enable_profiling=options.profiling)
    if "contention-profiling" in options.given_flags:
        value = options.contention_profiling
        config = msgspec.structs.replace(config, enable_contention_profiling=value)
    return config


def _with_election(
    config: KubeSchedulerConfiguration, options: Options
) -> KubeSchedulerConfiguration:
    flags = options.leader_election
    changes: dict[str, Any] = {
        field: getattr(flags, flag.replace("-", "_"))
        for flag, field in _ELECTION_FLAGS.items()
        if flag in options.given_flags
    }
    election = msgspec.structs.replace(config.leader_election, **changes)
    return msgspec.structs.replace(config, leader_election=election)
