"""``/metrics``: counts of requests and of stored objects, in Prometheus' text format.

Source: k8s.io/apiserver pkg/endpoints/metrics/metrics.go (names, labels and their values).
Differs: requests for resources are counted, not those for other paths, and not those that
authentication or authorization has refused.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from mooring.apiserver.endpoints.body import media_type_of
from mooring.apiserver.endpoints.query import Query
from mooring.apiserver.patch.patch import APPLY_PATCH

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mooring.apiserver.resources import ResourcePath
    from mooring.apiserver.storage.store import Store

PATH = "/metrics"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_METHODS = ("DELETE", "GET", "PATCH", "POST", "PUT")


class _Series(NamedTuple):
    """The labels of one series, in the order in which they are written."""

    code: str
    component: str
    dry_run: str
    group: str
    resource: str
    scope: str
    subresource: str
    verb: str
    version: str


class RequestMetrics:
    """The counts of one server; there are few series, since only served resources are counted."""

    def __init__(self) -> None:
        self._requests: Counter[_Series] = Counter()

    def count(
        self,
        method: str,
        path: ResourcePath,
        query: Sequence[tuple[str, str]],
        headers: Mapping[str, str],
        code: int,
    ) -> None:
        """Counts a request.

        Args:
            method: "GET", "POST" ...
            path: The resource that it names.
            query: Names and values.
            headers: With lower-case names.
            code: Of the response.
        """
        resource, subresource = path.resource, path.subresource
        if subresource and resource.subresource(subresource) is None:
            subresource = ""  # any text: it must not make a series
        names = dict(query)
        series = _Series(
            str(code),
            "apiserver",
            "All" if names.get("dryRun") == "All" else "",
            resource.group,
            resource.name,
            _scope(method, path),
            subresource,
            _verb(method, path, query, headers),
            resource.version,
        )
        self._requests[series] += 1

    def text(self, store: Store) -> bytes:
        """Returns all metrics; ``store``: its objects are counted."""
        lines = [
            "# HELP apiserver_request_total [STABLE] Counter of apiserver requests.",
            "# TYPE apiserver_request_total counter",
        ]
        for series, number in sorted(self._requests.items()):
            labels = ",".join(
                f'{name}="{value}"' for name, value in zip(series._fields, series, strict=True)
            )
            lines.append(f"apiserver_request_total{{{labels}}} {number}")
        lines += [
            "# HELP apiserver_storage_objects [STABLE] Number of stored objects.",
            "# TYPE apiserver_storage_objects gauge",
        ]
        for name, number in sorted(store.statistics().items()):
            lines.append(f'apiserver_storage_objects{{resource="{name}"}} {number}')
        return ("\n".join(lines) + "\n").encode()


def _scope(method: str, path: ResourcePath) -> str:
    if path.name or method == "POST":
        return "resource"
    return "namespace" if path.namespace else "cluster"


def _verb(
    method: str,
    path: ResourcePath,
    query: Sequence[tuple[str, str]],
    headers: Mapping[str, str],
) -> str:
    if method == "GET" and not path.name:
        return "WATCH" if Query(query).flag("watch") else "LIST"
    if method == "PATCH" and media_type_of(headers) == APPLY_PATCH:
        return "APPLY"
    return method if method in _METHODS else "other"
