"""Metrics as protocol buffers are read by Google's library, with the fields of metrics.proto."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, proto
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
    UnknownMetricFamily,
)

from mooring.serving.exposition.negotiated import content_coding, exposition_for

DOUBLE, UINT64, ENUM, STRING, MESSAGE = 1, 4, 14, 9, 11

#: Message -> (field, number, type, its message or enum), from metrics.proto by hand; "*" repeats.
MESSAGES: dict[str, list[tuple[str, int, int, str]]] = {
    "LabelPair": [("name", 1, STRING, ""), ("value", 2, STRING, "")],
    "Gauge": [("value", 1, DOUBLE, "")],
    "Counter": [("value", 1, DOUBLE, "")],
    "Untyped": [("value", 1, DOUBLE, "")],
    "Quantile": [("quantile", 1, DOUBLE, ""), ("value", 2, DOUBLE, "")],
    "Summary": [
        ("sample_count", 1, UINT64, ""),
        ("sample_sum", 2, DOUBLE, ""),
        ("quantile*", 3, MESSAGE, "Quantile"),
    ],
    "Bucket": [("cumulative_count", 1, UINT64, ""), ("upper_bound", 2, DOUBLE, "")],
    "Histogram": [
        ("sample_count", 1, UINT64, ""),
        ("sample_sum", 2, DOUBLE, ""),
        ("bucket*", 3, MESSAGE, "Bucket"),
    ],
    "Metric": [
        ("label*", 1, MESSAGE, "LabelPair"),
        ("gauge", 2, MESSAGE, "Gauge"),
        ("counter", 3, MESSAGE, "Counter"),
        ("summary", 4, MESSAGE, "Summary"),
        ("untyped", 5, MESSAGE, "Untyped"),
        ("histogram", 7, MESSAGE, "Histogram"),
    ],
    "MetricFamily": [
        ("name", 1, STRING, ""),
        ("help", 2, STRING, ""),
        ("type", 3, ENUM, "MetricType"),
        ("metric*", 4, MESSAGE, "Metric"),
    ],
}
TYPES = ("COUNTER", "GAUGE", "SUMMARY", "UNTYPED", "HISTOGRAM")
ACCEPT = (
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
)


def family_class() -> Any:
    """Returns the class of Google's library for a MetricFamily."""
    file = descriptor_pb2.FileDescriptorProto(name="metrics.proto", package="t", syntax="proto2")
    kinds = file.enum_type.add(name="MetricType")
    for number, name in enumerate(TYPES):
        kinds.value.add(name=name, number=number)
    for message, fields in MESSAGES.items():
        described = file.message_type.add(name=message)
        for name, number, kind, of in fields:
            described.field.add(
                name=name.rstrip("*"),
                number=number,
                type=kind,
                label=3 if name.endswith("*") else 1,
                type_name=f".t.{of}" if of else None,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.MetricFamily"))


def read(body: bytes) -> Iterator[Any]:
    """Yields the families of a body."""
    kind, stream = family_class(), BytesIO(body)
    while stream.tell() < len(body):
        yield proto.parse_length_prefixed(kind, stream)


def families() -> list[Metric]:
    counter = CounterMetricFamily("b_total", "Counts \\ things.", labels=["z", "a"])
    counter.add_metric(["1", "\N{SNOWMAN}"], 300.5, created=12.0)
    gauge = GaugeMetricFamily("a_gauge", "Zero.", value=0.0)
    histogram = HistogramMetricFamily("c_seconds", "How long.", labels=["of"])
    histogram.add_metric(["x"], [("0.1", 1.0), ("1.0", 4.0), ("+Inf", 9.0)], 12.5)
    histogram.add_metric(["y"], [("0.1", 0.0), ("1.0", 0.0), ("+Inf", 0.0)], 0.0)
    summary = SummaryMetricFamily("d_summary", "s", count_value=3, sum_value=1.5)
    summary.add_sample("d_summary", {"quantile": "0.5"}, 0.25)
    return [counter, gauge, histogram, summary, UnknownMetricFamily("e", "?", value=-1.0)]


def test_each_family_is_a_message_behind_its_length() -> None:
    found = list(read(exposition_for(ACCEPT).render(families())))
    assert [(each.name, TYPES[each.type], each.help) for each in found] == [
        ("a_gauge", "GAUGE", "Zero."),
        ("b_total", "COUNTER", "Counts \\ things."),
        ("c_seconds", "HISTOGRAM", "How long."),
        ("d_summary", "SUMMARY", "s"),
        ("e", "UNTYPED", "?"),
    ]
    gauge, counter, histogram, summary, untyped = found
    assert gauge.metric[0].HasField("gauge")
    assert gauge.metric[0].gauge.value == 0.0
    (series,) = counter.metric
    assert [(pair.name, pair.value) for pair in series.label] == [("a", "\N{SNOWMAN}"), ("z", "1")]
    assert series.counter.value == 300.5
    first, second = histogram.metric
    assert [(pair.name, pair.value) for pair in first.label] == [("of", "x")]
    assert (first.histogram.sample_count, first.histogram.sample_sum) == (9, 12.5)
    # The bucket of all is not written: it is the count.
    buckets = [(each.cumulative_count, each.upper_bound) for each in first.histogram.bucket]
    assert buckets == [(1, 0.1), (4, 1.0)]
    assert second.histogram.HasField("sample_count")
    assert len(second.histogram.bucket) == 2
    value = summary.metric[0].summary
    assert (value.sample_count, value.sample_sum) == (3, 1.5)
    assert [(each.quantile, each.value) for each in value.quantile] == [(0.5, 0.25)]
    assert untyped.metric[0].untyped.value == -1.0


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"),
        ("application/json", "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"),
        (
            "text/plain;escaping=allow-utf-8",
            "text/plain; version=0.0.4; charset=utf-8; escaping=allow-utf-8",
        ),
        (
            f"{ACCEPT};q=0.6,*/*;q=0.1",
            "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily;"
            " encoding=delimited; escaping=underscores",
        ),
        (
            f"{ACCEPT};q=0.6,text/plain;version=0.0.4",
            "text/plain; version=0.0.4; charset=utf-8; escaping=underscores",
        ),
    ],
)
def test_the_preferred_format_is_chosen(accept: str, content_type: str) -> None:
    assert exposition_for(accept).content_type == content_type


@pytest.mark.parametrize(
    ("header", "coding"),
    [
        ("", "identity"),
        ("gzip", "gzip"),
        ("gzip;q=0", "identity"),
        ("*", "identity"),
        ("identity;q=0.2, gzip;q=0.3", "gzip"),
        ("gzip;level=9", "identity"),
        ("zstd, gzip;q=0.1", "gzip"),
        ("GZIP", "identity"),
    ],
)
def test_gzip_is_used_if_it_is_preferred(header: str, coding: str) -> None:
    assert content_coding(header) == coding
