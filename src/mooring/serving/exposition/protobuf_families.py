"""Metric families as protocol buffers: each a MetricFamily behind its length.

Source: io/prometheus/client/metrics.proto of github.com/prometheus/client_model v0.6.2.
*Differs* from client_golang: the times of creation of counters and histograms are left out, as in
the text format.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.samples import Sample

from mooring.metrics.text import BOUND, exposed, is_created
from mooring.objects.codec.protobuf import bytes_field, int_field, varint

#: Prometheus' types; what the format does not know is untyped.
_TYPES: Final = {"counter": 0, "gauge": 1, "summary": 2, "histogram": 4}
_UNTYPED: Final = 3
#: Type -> field of a Metric with the value.
_VALUE_FIELDS: Final = {0: 3, 1: 2, 2: 4, 3: 5, 4: 7}
_HISTOGRAM: Final = 4
_SUMMARY: Final = 2

#: Wire type of eight bytes.
_FIXED64: Final = 1
_INFINITE: Final = "+Inf"


def render_delimited(metrics: Iterable[Metric]) -> bytes:
    """Returns the families one behind the other, each behind its length."""
    return b"".join(_delimited(_family(name, metric)) for name, metric in exposed(metrics))


def _delimited(message: bytes) -> bytes:
    return varint(len(message)) + message


def _family(name: str, metric: Metric) -> bytes:
    kind = _TYPES.get(metric.type, _UNTYPED)
    message = _text_field(1, name) + _text_field(2, metric.documentation) + int_field(3, kind)
    return message + b"".join(
        bytes_field(4, _series(labels, kind, samples))
        for labels, samples in _by_series(name, metric).items()
    )


def _by_series(name: str, metric: Metric) -> dict[tuple[tuple[str, str], ...], list[Sample]]:
    """Returns the samples of each series, by its labels in the order of their names."""
    series: dict[tuple[tuple[str, str], ...], list[Sample]] = {}
    # The bound of a bucket and the rank of a quantile are no labels here.
    inner = {"histogram": BOUND, "summary": "quantile"}.get(metric.type)
    for sample in metric.samples:
        if is_created(sample.name, name):
            continue
        labels = sorted(pair for pair in sample.labels.items() if pair[0] != inner)
        series.setdefault(tuple(labels), []).append(sample)
    return series


def _series(labels: Iterable[tuple[str, str]], kind: int, samples: list[Sample]) -> bytes:
    message = b"".join(
        bytes_field(1, _text_field(1, name) + _text_field(2, value)) for name, value in labels
    )
    if kind in (_HISTOGRAM, _SUMMARY):
        value = _distribution(kind, samples)
    else:
        value = _float_field(1, samples[0].value)
    return message + bytes_field(_VALUE_FIELDS[kind], value)


def _distribution(kind: int, samples: list[Sample]) -> bytes:
    """Returns a Histogram or a Summary: count, sum, buckets below infinity or quantiles."""
    count, total, parts = 0, 0.0, []
    for sample in samples:
        if sample.name.endswith("_count"):
            count = int(sample.value)
        elif sample.name.endswith("_sum"):
            total = sample.value
        elif kind == _SUMMARY:
            rank = float(sample.labels["quantile"])
            parts.append(_float_field(1, rank) + _float_field(2, sample.value))
        elif sample.labels[BOUND] != _INFINITE:
            bound = float(sample.labels[BOUND])
            parts.append(int_field(1, int(sample.value)) + _float_field(2, bound))
    head = int_field(1, count) + _float_field(2, total)
    return head + b"".join(bytes_field(3, part) for part in parts)


def _text_field(number: int, text: str) -> bytes:
    return bytes_field(number, text.encode())


def _float_field(number: int, value: float) -> bytes:
    return varint(number << 3 | _FIXED64) + struct.pack("<d", value)
