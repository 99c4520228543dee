"""Tables of all other kinds, and what a Table carries around its rows.

Expectations are upstream's: printers_test.go and duration_test.go of v1.36.3.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mooring.apiserver.errors import ApiStatusError
from mooring.apiserver.printers.formatting import human_duration, labels, selector, since
from mooring.apiserver.printers.tables import CELLS, as_table, columns
from mooring.apiserver.resources import RESOURCES, Resource

NOW = datetime(2026, 1, 10, tzinfo=UTC)
NOW_S = NOW.timestamp()
CREATED = "2026-01-07T00:00:00Z"  # three days ago


def resource(kind: str) -> Resource:
    return next(one for one in RESOURCES if one.kind == kind and one.is_stored)


def cells(kind: str, **parts: Any) -> list[Any]:
    metadata = {"name": "x", "creationTimestamp": CREATED, **parts.pop("metadata", {})}
    table = as_table(resource(kind), [{"metadata": metadata, **parts}], None, "", now_s=NOW_S)
    result: list[Any] = table["rows"][0]["cells"]
    return result


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-10, "<invalid>"),
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (0.9, "0s"),
        (1, "1s"),
        (119, "119s"),
        (120, "2m"),
        (120 + 10, "2m10s"),
        (9 * 60 + 59, "9m59s"),
        (10 * 60 + 59, "10m"),
        (70 * 60, "70m"),
        (179 * 60, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (47 * 3600, "47h"),
        (49 * 3600, "2d1h"),
        (7 * 86400, "7d"),
        (8 * 86400 + 3600, "8d"),
        (729 * 86400, "729d"),
        (730 * 86400, "2y"),
        (731 * 86400, "2y1d"),
        (8 * 365 * 86400 + 86400, "8y"),
    ],
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


@pytest.mark.parametrize("timestamp", [None, "", "never"])
def test_no_time_is_unknown(timestamp: str | None) -> None:
    assert since(timestamp, NOW_S) == "<unknown>"


def test_labels_and_selectors_are_sorted_texts() -> None:
    chosen = {
        "matchLabels": {"b": "1", "a": "2"},
        "matchExpressions": [
            {"key": "d", "operator": "In", "values": ["y", "x"]},
            {"key": "c", "operator": "Exists"},
            {"key": "e", "operator": "NotIn", "values": ["z"]},
            {"key": "f", "operator": "DoesNotExist"},
        ],
    }

    assert labels({"b": "1", "a": "2"}) == "a=2,b=1"
    assert labels({}) == "<none>"
    assert selector(chosen) == "a=2,b=1,c,d in (x,y),e notin (z),!f"
    assert selector(None) == ""


READY, LOST = ({"type": "Ready", "status": status} for status in ("True", "Unknown"))


@pytest.mark.parametrize(
    ("spec", "conditions", "text"),
    [
        ({}, [READY], "Ready"),
        ({}, [LOST], "NotReady"),
        ({}, [], "Unknown"),
        ({}, [{"type": "DiskPressure", "status": "True"}], "Unknown"),
        ({"unschedulable": True}, [READY], "Ready,SchedulingDisabled"),
        ({"unschedulable": True}, [], "Unknown,SchedulingDisabled"),
    ],
)
def test_a_nodes_status_is_upstreams(
    spec: dict[str, Any], conditions: list[Any], text: str
) -> None:
    assert cells("Node", spec=spec, status={"conditions": conditions})[1] == text


def test_a_node_shows_roles_addresses_and_versions() -> None:
    metadata = {
        "labels": {
            "node-role.kubernetes.io/worker": "",
            "node-role.kubernetes.io/": "",
            "kubernetes.io/role": "edge",
            "other": "x",
        }
    }
    info = {
        "kubeletVersion": "v1.36.3",
        "kernelVersion": "6.1",
        "architecture": "arm64",
        "osImage": "Debian",
    }
    addresses = [
        {"type": "InternalIP", "address": "10.0.0.1"},
        {"type": "InternalIP", "address": "10.0.0.2"},
    ]

    result = cells("Node", metadata=metadata, status={"nodeInfo": info, "addresses": addresses})

    assert result == [
        "x",
        "Unknown",
        "edge,worker",
        "3d",
        "v1.36.3",
        "10.0.0.1",
        "<none>",
        "Debian",
        "6.1 (arm64)",
        "<unknown>",
    ]
    assert cells("Node")[2:] == [
        "<none>",
        "3d",
        "",
        "<none>",
        "<none>",
        "<unknown>",
        "<unknown>",
        "<unknown>",
    ]


def at(seconds_ago: float) -> str:
    return (NOW - timedelta(seconds=seconds_ago)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


CORE_EVENT = {
    "type": "Warning",
    "reason": "FailedScheduling",
    "involvedObject": {"kind": "Pod", "name": "web", "fieldPath": "spec"},
    "message": " no room\n",
    "source": {"component": "kubelet", "host": "n-1"},
    "firstTimestamp": at(3600),
    "lastTimestamp": at(60),
    "count": 6,
}


@pytest.mark.parametrize(
    ("event", "last", "source", "first", "count"),
    [
        (CORE_EVENT, "60s", "kubelet, n-1", "60m", 6),
        # As client-go sends them now: no count, a time to the microsecond, a controller.
        (
            {
                "type": "Warning",
                "reason": "FailedScheduling",
                "regarding": {"kind": "Pod", "name": "web", "fieldPath": "spec"},
                "note": "no room",
                "eventTime": at(90.5),
                "reportingController": "default-scheduler",
                "reportingInstance": "default-scheduler-host",
            },
            "90s",
            "default-scheduler, default-scheduler-host",
            "90s",
            1,
        ),
        (
            {**CORE_EVENT, "series": {"count": 12, "lastObservedTime": at(5)}},
            "5s",
            "kubelet, n-1",
            "60m",
            12,
        ),
        ({**CORE_EVENT, "source": {}, "lastTimestamp": None}, "60m", "", "60m", 6),
        (
            {
                **CORE_EVENT,
                "firstTimestamp": None,
                "lastTimestamp": None,
                "source": None,
                "reportingComponent": "mooring",
            },
            "<unknown>",
            "mooring",
            "<unknown>",
            6,
        ),
    ],
)
def test_events_of_both_groups_look_alike(
    event: dict[str, Any], last: str, source: str, first: str, count: int
) -> None:
    expected = [
        last,
        "Warning",
        "FailedScheduling",
        "pod/web",
        "spec",
        source,
        "no room",
        first,
        count,
        "x",
    ]

    assert cells("Event", **event) == expected


def test_an_event_about_no_object_in_particular_shows_its_kind() -> None:
    assert cells("Event", involvedObject={"kind": "Node"})[3] == "node"


# ---------------------------------------------------------------- around the rows

LEASES = resource("Lease")
LEASE = {
    "kind": "Lease",
    "apiVersion": "coordination.k8s.io/v1",
    "metadata": {"name": "x", "resourceVersion": "7"},
    "spec": {"holderIdentity": "me"},
}


def included(include: str, obj: dict[str, Any] = LEASE) -> Any:
    return as_table(LEASES, [obj], None, include, now_s=NOW_S)["rows"][0]["object"]


def test_a_row_has_the_requested_object() -> None:
    metadata = {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": LEASE["metadata"],
    }

    assert included("Object") == LEASE
    assert included("None") is None
    assert included("Metadata") == metadata
    assert included("") == metadata


def test_the_mark_behind_a_watchs_first_objects_always_comes_along() -> None:
    annotations = {"k8s.io/initial-events-end": "true"}
    mark = {"metadata": {"resourceVersion": "9", "annotations": annotations}}

    assert included("None", mark)["metadata"]["annotations"] == annotations


def test_another_wish_is_refused() -> None:
    with pytest.raises(ApiStatusError) as error:
        included("Everything")

    assert error.value.code == 400
    problem = "must be 'Metadata', 'Object', 'None', or empty"
    text = f'includeObject: Invalid value: "Everything": {problem}'
    assert error.value.message == f"Unable to convert to Table as requested: {text}"


def test_a_table_of_a_list_has_the_lists_metadata() -> None:
    meta = {"resourceVersion": "40", "continue": "abc", "remainingItemCount": 3}

    table = as_table(LEASES, [LEASE], meta, "None", now_s=NOW_S)

    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert table["metadata"] == meta
    assert len(table["rows"]) == 1


def test_a_table_of_one_object_has_its_version() -> None:
    assert as_table(LEASES, [LEASE], None, "", now_s=NOW_S)["metadata"] == {"resourceVersion": "7"}


def test_an_empty_list_has_columns_and_no_rows() -> None:
    table = as_table(LEASES, [], {"resourceVersion": "1"}, "", now_s=NOW_S)

    assert table["rows"] == []
    assert [one["name"] for one in table["columnDefinitions"]] == ["Name", "Holder", "Age"]


def test_a_watch_sends_its_columns_once() -> None:
    table = as_table(LEASES, [LEASE], None, "", now_s=NOW_S, has_headers=False)

    assert table["columnDefinitions"] is None


def test_the_old_version_of_tables_is_spoken_throughout() -> None:
    table = as_table(LEASES, [LEASE], None, "Metadata", now_s=NOW_S, version="v1beta1")

    assert table["apiVersion"] == "meta.k8s.io/v1beta1"
    assert table["rows"][0]["object"]["apiVersion"] == "meta.k8s.io/v1beta1"


@pytest.mark.parametrize("kind", sorted(CELLS))
def test_every_row_has_a_cell_for_every_column(kind: str) -> None:
    result = CELLS[kind]({"metadata": {"resourceVersion": "1"}}, NOW_S)

    # As upstream: the age of an IPAddress has no column.
    surplus = 1 if kind == "IPAddress" else 0
    assert len(result) == len(columns(kind)) + surplus


def test_every_kind_that_is_stored_has_a_table() -> None:
    assert {one.kind for one in RESOURCES if one.is_stored} <= set(CELLS)
