"""Sources of metrics by node: Prometheus, the metrics API of the cluster, a file.

Source: Prometheus' HTTP API (instant queries), k8s.io/metrics v1beta1 (NodeMetrics).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import aiohttp
import msgspec

from mooring.errors import SchedulerError
from mooring.extenders.tls import without_password
from mooring.framework.interface import Handle
from mooring.objects.quantity import Quantity, QuantityError

#: An answer with a number for each of 15 000 nodes takes 3 MB.
ANSWER_BYTES_MAX: Final = 16 << 20

NODE_METRICS_PATH: Final = "/apis/metrics.k8s.io/v1beta1/nodes"

T = TypeVar("T")


class _Sample(msgspec.Struct):
    """One element of a vector; its value is [time, text] unless something is wrong with it."""

    metric: dict[str, str] | None = None
    value: Any = None


class _Data(msgspec.Struct, rename="camel"):
    result_type: str = ""
    result: msgspec.Raw = msgspec.Raw(b"null")  # only a vector is a list of samples


class _Answer(msgspec.Struct):
    """Prometheus' response to a query."""

    status: str = ""
    error: str = "no reason given"
    data: _Data | None = None


class _Meta(msgspec.Struct):
    name: str = ""


class _NodeMetrics(msgspec.Struct):
    metadata: _Meta | None = None
    usage: dict[str, Any] | None = None


class _NodeMetricsList(msgspec.Struct):
    items: list[_NodeMetrics] | None = None


class MeasuringError(SchedulerError):
    """A source gave no numbers."""


class Prometheus:
    """The result of a PromQL query, by node.

    Args:
        url: Of the server: ``http://prometheus:9090``.
        query: An instant query whose result is a vector.
        node_label: The label whose value is the node's name; what follows a ":" in it (a port) is
            left out.
        timeout_s: For one query.
        headers: For example an authorization.
    """

    def __init__(
        self,
        url: str,
        query: str,
        *,
        node_label: str = "instance",
        timeout_s: float = 5.0,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.name = without_password(url)
        self._url = f"{url.rstrip('/')}/api/v1/query"
        self._query = query
        self._node_label = node_label
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._headers = dict(headers or {})
        self._session: aiohttp.ClientSession | None = None

    async def fetch(self) -> Mapping[str, float]:
        """Returns node -> value of its sample; of several samples of a node the last one counts.

        Raises:
            MeasuringError: no answer, or one that is no vector.
        """
        answer = await self._ask()
        data = answer.data
        if answer.status != "success" or data is None:
            raise MeasuringError(f"the query failed: {answer.error}")
        if data.result_type != "vector":
            raise MeasuringError(f"the query gives a {data.result_type}, not a vector")
        by_node: dict[str, float] = {}
        if bytes(data.result) == b"null":  # as Go writes an empty list now and then
            return by_node
        for sample in _document(data.result, "the vector", list[_Sample]):
            label = (sample.metric or {}).get(self._node_label, "")
            if label:
                by_node[label.partition(":")[0]] = _number(sample.value)
        return by_node

    async def close(self) -> None:
        """Closes the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _ask(self) -> _Answer:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=self._timeout, headers=self._headers)
        try:
            query = {"query": self._query}
            request = self._session.post(self._url, data=query, allow_redirects=False)
            async with request as response:
                body = await _bounded(response)
        except (aiohttp.ClientError, TimeoutError, OSError, UnicodeError) as error:
            message = without_password(str(error)) or type(error).__name__
            raise MeasuringError(f"no answer: {message}") from error
        return _document(body, f"status {response.status}", _Answer)


class MetricsApi:
    """The used share of a node's cpu or memory, from the cluster's metrics API.

    Args:
        handle: Reads the API, and knows the nodes.
        resource: "cpu" or "memory".
    """

    def __init__(self, handle: Handle, resource: str = "cpu") -> None:
        self.name = NODE_METRICS_PATH
        self._handle = handle
        self._resource = resource

    async def fetch(self) -> Mapping[str, float]:
        """Returns node -> usage / allocatable amount, for the nodes in the cache.

        Raises:
            SchedulerError: the API does not exist, or may not be read.
        """
        body = await self._handle.read(NODE_METRICS_PATH)
        by_node = {}
        for item in _document(body, "the metrics API", _NodeMetricsList).items or ():
            name = item.metadata.name if item.metadata is not None else ""
            amount = (item.usage or {}).get(self._resource)
            whole = self._allocatable(name)
            if amount is not None and whole > 0:
                by_node[name] = self._units(amount) / whole
        return by_node

    async def close(self) -> None:
        """Does nothing: the handle owns the connections."""

    def _units(self, amount: Any) -> float:
        """Returns millicores or bytes, as in the node columns; NaN if it is no quantity."""
        try:
            quantity = Quantity.from_wire(amount)
        except (QuantityError, TypeError):
            return math.nan
        return quantity.milli() if self._resource == "cpu" else quantity.value()

    def _allocatable(self, node: str) -> int:
        nodes = self._handle.snapshot.nodes
        row = nodes.live_row(node)
        return int(nodes.allocatable[nodes.resource_id(self._resource), row]) if row >= 0 else 0


class MetricFile:
    """A JSON file ``{"node": number}``, read at each fetch."""

    def __init__(self, path: str) -> None:
        self.name = path

    async def fetch(self) -> Mapping[str, float]:
        """Returns the content of the file.

        Raises:
            MeasuringError: it cannot be read, or holds something else.
        """
        try:
            text = _content(self.name)
        except OSError as error:
            raise MeasuringError(error.strerror or str(error)) from error
        document = _document(text, self.name, dict[str, Any])
        try:
            return {name: float(value) for name, value in document.items()}
        except (OverflowError, TypeError, ValueError) as error:
            raise MeasuringError(f"holds something that is no number: {error}") from error

    async def close(self) -> None:
        """Does nothing: no file is open."""


def _content(path: str) -> bytes:
    """Returns a file's content; a small local file, so this does not block for long."""
    return Path(path).read_bytes()


async def _bounded(response: aiohttp.ClientResponse) -> bytes:
    body = await response.content.read(ANSWER_BYTES_MAX + 1)
    while len(body) <= ANSWER_BYTES_MAX:
        more = await response.content.read(ANSWER_BYTES_MAX + 1 - len(body))
        if not more:
            return body
        body += more
    raise MeasuringError(f"the answer is longer than {ANSWER_BYTES_MAX} bytes")


def _document(body: bytes | msgspec.Raw, where: str, shape: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=shape)
    except msgspec.ValidationError as error:
        raise MeasuringError(f"{where}: no JSON object of that kind: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MeasuringError(f"{where}: no JSON: {error}") from error


def _number(value: Any) -> float:
    """Returns the value of a sample, [time, text]; NaN if it is something else."""
    try:
        return float(value[1])
    except (TypeError, ValueError, IndexError):
        return math.nan


__all__ = ["MeasuringError", "MetricFile", "MetricsApi", "Prometheus"]
