"""Checks of parsed flags, with kube-scheduler's texts.

Source: apiserver's pkg/server/options (serving.go, authentication.go), component-base's
metrics/api/v1/config.go and logs/api/v1/options.go, cmd/kube-scheduler/app/options (Validate).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from mooring.component.feature_gates import FeatureGates
from mooring.component.flags import AuthenticationFlags, LoggingFlags, MetricsFlags, Options
from mooring.component.go_values import quote
from mooring.config.durations import duration_text
from mooring.errors import ConfigError
from mooring.objects.files.documents import yaml_documents
from mooring.objects.files.limits import CONFIG_BYTES_MAX
from mooring.objects.files.paths import read_bytes

_LOG_FORMATS: Final = ("text", "json")
_PORT_MAX: Final = 65535
_PREVIOUS_MINOR: Final = "1.35"
_METRIC: Final = "[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL: Final = "[a-zA-Z_][a-zA-Z0-9_]*"


def logging_errors(flags: LoggingFlags, gates: FeatureGates) -> list[str]:
    """Returns what is wrong with the flags of the log."""
    errors = []
    if flags.log_flush_frequency <= 0:
        frequency = duration_text(flags.log_flush_frequency)
        errors.append(f'flushFrequency: Invalid value: "{frequency}": Must be greater than zero')
    if flags.logging_format not in _LOG_FORMATS:
        errors.append(
            f"format: Invalid value: {quote(flags.logging_format)}: Unsupported log format"
        )
    if flags.logging_format == "json" and not gates.enabled("LoggingBetaOptions"):
        errors.append(
            "format: Forbidden: Log format json is disabled, see LoggingBetaOptions feature"
        )
    if flags.vmodule and flags.logging_format not in ("", "text"):
        errors.append("vmodule: Forbidden: Only supported for text log format")
    if not gates.enabled("LoggingAlphaOptions"):
        alpha = {
            "text.splitStream": flags.log_text_split_stream,
            "text.infoBufferSize": flags.log_text_info_buffer_size.nanos,
            "json.splitStream": flags.log_json_split_stream,
            "json.infoBufferSize": flags.log_json_info_buffer_size.nanos,
        }
        errors += [
            f"options.{name}: Forbidden: Feature LoggingAlphaOptions is disabled"
            for name, value in alpha.items()
            if value
        ]
    return errors


def option_errors(options: Options, gates: FeatureGates) -> list[str]:
    """Returns what is wrong with versions, port, authentication and metrics, in this order."""
    return [
        *gates.version_errors(),
        *_port(options.serving.secure_port),
        *_authentication(options.authentication, gates),
        *_metrics(options.metrics),
    ]


def _port(port: int) -> Iterator[str]:
    if port > _PORT_MAX:
        yield (
            f"--secure-port {port} must be between 1 and {_PORT_MAX}, inclusive. It cannot be "
            "turned off with 0"
        )
    elif port < 0:
        yield (
            f"--secure-port {port} must be between 0 and {_PORT_MAX}, inclusive. 0 for turning off "
            "secure port"
        )


def _authentication(flags: AuthenticationFlags, gates: FeatureGates) -> Iterator[str]:
    lists = {
        "requestheader-username-headers": flags.requestheader_username_headers,
        "requestheader-group-headers": flags.requestheader_group_headers,
        "requestheader-extra-headers-prefix": flags.requestheader_extra_headers_prefix,
        "requestheader-allowed-names": flags.requestheader_allowed_names,
    }
    for name, values in lists.items():
        yield from _blanks(name, values)
    uid_headers = flags.requestheader_uid_headers
    if not gates.enabled("RemoteRequestHeaderUID"):
        if uid_headers:
            yield (
                '--requestheader-uid-headers requires the "RemoteRequestHeaderUID" feature to be '
                "enabled"
            )
        return
    yield from _blanks("requestheader-uid-headers", uid_headers)
    if uid_headers and "x-remote-uid" not in map(str.lower, uid_headers):
        yield (
            "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid "
            "header - API aggregation will not work"
        )


def _blanks(name: str, values: tuple[str, ...]) -> Iterator[str]:
    if not all(value.strip() for value in values):
        yield f"empty value in {quote(name)}"


def _metrics(flags: MetricsFlags) -> Iterator[str]:
    version = flags.show_hidden_metrics_for_version
    if version not in ("", _PREVIOUS_MINOR):
        yield (
            f"metrics.showHiddenMetricsForVersion: Invalid value: {quote(version)}: must be "
            f"omitted or have the value '{_PREVIOUS_MINOR}'; only the previous minor version is "
            "allowed"
        )
    names = flags.disabled_metrics
    bad = next((name for name in names if not re.fullmatch(_METRIC, name)), None)
    if bad is not None:
        yield (
            f"metrics.disabledMetrics: Invalid value: {_compact(names)}: must be fully qualified "
            f"metric names matching {quote(f'^{_METRIC}$')}, got {quote(bad)}"
        )
    if error := _labels_error("metrics.allowListMapping", flags.allow_metric_labels):
        yield error
    yield from _manifest(flags)


def _manifest(flags: MetricsFlags) -> Iterator[str]:
    path = flags.allow_metric_labels_manifest
    if not path:
        return
    where = f"metrics.allowListMappingManifest: Invalid value: {quote(path)}: "
    try:
        labels = read_label_manifest(path)
    except ConfigError as error:
        yield where + str(error)
        return
    if text := _labels_error("metrics.allowListMappingManifest", labels):
        yield f"{where}invalid allow list mapping in manifest: [{text}]"
    if flags.allow_metric_labels:
        yield (
            "metrics: Invalid value: cannot specify both allowListMapping and "
            "allowListMappingManifest"
        )


def read_label_manifest(path: str) -> dict[str, str]:
    """Returns "metric,label" -> values with commas, of --allow-metric-labels-manifest.

    Raises:
        ConfigError: the file cannot be read, or is no map of texts; the text is upstream's.
    """
    try:
        data = read_bytes(path, bytes_max=CONFIG_BYTES_MAX)
    except ConfigError as error:
        text = f"open {path}: {error.problem.removeprefix('cannot be read: ')}"
        raise ConfigError(f"failed to read allow list manifest: {text}") from None
    try:
        documents = list(yaml_documents(data))
    except ConfigError as error:
        raise ConfigError(f"failed to parse allow list manifest: yaml: {error}") from None
    labels = documents[0].value if documents else {}
    if not isinstance(labels, dict) or not all(isinstance(item, str) for item in labels.values()):
        raise ConfigError("failed to parse allow list manifest: must be a map of texts")
    return labels


def _labels_error(where: str, labels: Any) -> str:
    if all(re.fullmatch(f"{_METRIC},{_LABEL}", key) for key in labels):
        return ""
    return (
        f"{where}: Invalid value: {_compact(dict(sorted(labels.items())))}: must have keys with "
        f"format `metricName,labelName` where metricName matches {quote(_METRIC)} and labelName "
        f"matches {quote(_LABEL)}"
    )


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
