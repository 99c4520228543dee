"""The args of MeasuredLoad in a configuration, as what they mean.

::

    pluginConfig:
    - name: MeasuredLoad
      args:
        prometheus: {url: http://prometheus:9090, query: "...", nodeLabel: instance}
        # or  metricsAPI: {resource: cpu}   or  file: {path: /etc/load.json}
        prefer: least            # or most
        bounds: [0, 1]           # what counts as 0 and 100; by default lowest and highest
        refreshSeconds: 15
        staleSeconds: 60
        timeoutSeconds: 5
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from mooring.errors import ConfigError
from mooring.extenders.tls import without_password
from mooring.framework.interface import Handle
from mooring.load_metrics.metric_cache import REFRESH_S, STALE_S, TIMEOUT_S, MetricCache, Source
from mooring.load_metrics.sources import MetricFile, MetricsApi, Prometheus
from mooring.plugins.contrib.load_score import MeasuredLoad

_PATH: Final = "MeasuredLoad args"
_PREFERENCES: Final = ("least", "most")
_RESOURCES: Final = ("cpu", "memory")


class _Args(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Everything that may stand there."""


class _Prometheus(_Args, frozen=True, kw_only=True):
    url: str
    query: str
    node_label: str = "instance"


class _MetricsApi(_Args, frozen=True, kw_only=True):
    resource: str = "cpu"


class _File(_Args, frozen=True, kw_only=True):
    path: str


class Arguments(_Args, frozen=True, kw_only=True):
    """The args, read; see the top of this file."""

    prometheus: _Prometheus | None = None
    metrics_api: _MetricsApi | None = msgspec.field(default=None, name="metricsAPI")
    file: _File | None = None
    prefer: str = "least"
    bounds: tuple[float, float] | None = None
    refresh_seconds: float = REFRESH_S
    stale_seconds: float = STALE_S
    timeout_seconds: float = TIMEOUT_S


def measured_load(args: Any, handle: Handle) -> MeasuredLoad:
    """Returns the plugin that a configuration asks for.

    Raises:
        ConfigError: the args say something that cannot be, or not where the numbers come from.
    """
    read = _checked(args)
    cache = MetricCache(
        _source(read, handle),
        refresh_s=read.refresh_seconds,
        stale_s=read.stale_seconds,
        timeout_s=read.timeout_seconds,
    )
    return MeasuredLoad(cache, handle, prefers_most=read.prefer == "most", bounds=read.bounds)


def _checked(args: Any) -> Arguments:
    try:
        read = msgspec.convert(args or {}, Arguments)
    except msgspec.ValidationError as error:
        problem, _, where = str(error).partition(" - at `$")
        at = f"{_PATH}{where.rstrip('`')}"
        raise ConfigError(problem[:1].lower() + problem[1:], path=at) from error
    named = [source for source in (read.prometheus, read.metrics_api, read.file) if source]
    if len(named) != 1:
        problem = "say where the numbers come from: one of prometheus, metricsAPI and file"
        raise ConfigError(problem, path=_PATH)
    if read.prefer not in _PREFERENCES:
        raise ConfigError("must be least or most", path=f"{_PATH}.prefer", value=read.prefer)
    for name in ("refreshSeconds", "staleSeconds", "timeoutSeconds"):
        value = getattr(read, name.replace("Seconds", "_seconds"))
        if not value > 0:
            raise ConfigError("must be greater than 0", path=f"{_PATH}.{name}", value=value)
    if read.bounds is not None and not read.bounds[0] < read.bounds[1]:
        problem = "the first must be less than the second"
        raise ConfigError(problem, path=f"{_PATH}.bounds", value=list(read.bounds))
    return read


def _check_url(url: str) -> None:
    at = f"{_PATH}.prometheus.url"
    if not url.startswith(("http://", "https://")):
        raise ConfigError("must begin with http:// or https://", path=at, value=url)
    try:
        parts = urlsplit(url)
        is_good = bool(parts.hostname) and parts.port != 0
    except ValueError:  # the value is omitted: it may contain a password
        raise ConfigError("is no URL", path=at) from None
    if not is_good:
        raise ConfigError("names no host", path=at, value=without_password(url))


def _source(read: Arguments, handle: Handle) -> Source:
    if read.prometheus is not None:
        prometheus = read.prometheus
        _check_url(prometheus.url)
        return Prometheus(
            prometheus.url,
            prometheus.query,
            node_label=prometheus.node_label,
            timeout_s=read.timeout_seconds,
        )
    if read.file is not None:
        return MetricFile(read.file.path)
    assert read.metrics_api is not None
    resource = read.metrics_api.resource
    if resource not in _RESOURCES:
        at = f"{_PATH}.metricsAPI.resource"
        raise ConfigError("must be cpu or memory", path=at, value=resource)
    return MetricsApi(handle, resource)
