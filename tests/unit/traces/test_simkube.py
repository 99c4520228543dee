"""Traces of SimKube, version 2."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from mooring.errors import ConfigError
from mooring.traces.simkube import decoded_simkube, read_simkube

T0 = 1_700_000_000
CONTAINER = {"name": "c", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}


def workload(name: str, kind: str = "Deployment", **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [CONTAINER]}}
    version = "batch/v1" if kind == "Job" else "apps/v1"
    metadata = {"name": name, "namespace": "shop"}
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": metadata,
        "spec": spec | {"template": template},
    }


def event(seconds: int, *applied: dict[str, Any], deleted: tuple[Any, ...] = ()) -> dict[str, Any]:
    return {"ts": T0 + seconds, "applied_objs": list(applied), "deleted_objs": list(deleted)}


def trace_file(*events: dict[str, Any], lifecycles: Any = None, version: int = 2) -> bytes:
    """Returns the bytes as rmp_serde writes them: keys that are tuples become arrays."""
    return msgspec.msgpack.encode(
        {
            "version": version,
            "config": {"trackedObjects": {"apps/v1.Deployment": {"trackLifecycle": True}}},
            "events": list(events),
            "index": {"apps/v1.Deployment": {"shop/web": 7}},
            "pod_lifecycles": lifecycles or {},
        }
    )


def read(*events: dict[str, Any], lifecycles: Any = None) -> Any:
    return read_simkube(decoded_simkube(trace_file(*events, lifecycles=lifecycles)), "t.sktrace")


def test_a_workload_becomes_its_pods() -> None:
    trace = read(event(0), event(5, workload("web", replicas=2)))

    assert trace.names.tolist() == ["web-0", "web-1"]
    assert trace.group.tolist() == ["web", "web"]
    assert trace.user.tolist() == ["shop", "shop"]
    assert trace.submit_s.tolist() == [5.0, 5.0]
    assert trace.cpu_milli.tolist() == [500, 500]
    assert trace.memory_bytes.tolist() == [1 << 30] * 2
    assert all(math.isnan(duration_s) for duration_s in trace.duration_s)


def test_pods_have_the_recorded_lifecycles_of_their_owner() -> None:
    lifecycles = {
        ("apps/v1.Deployment", "shop/web"): {
            14_000_000_000_000_000_000: [{"Finished": [T0 + 9, T0 + 39]}, "Empty"],
            12: [{"Running": T0 + 8}, {"start_ts": T0 + 10, "end_ts": T0 + 110}],
        }
    }

    trace = read(event(0, workload("web", replicas=4)), lifecycles=lifecycles)

    expected = [math.nan, 30.0, 100.0, math.nan]
    assert trace.duration_s.tolist() == pytest.approx(expected, nan_ok=True)


def test_scaling_submits_and_ends_pods_and_a_delete_ends_all() -> None:
    trace = read(
        event(0, workload("web", replicas=2)),
        event(10, workload("web", replicas=3)),
        event(30, workload("web", replicas=1)),
        event(50, deleted=(workload("web", replicas=1),)),
        event(60, workload("web", replicas=1)),
    )

    assert trace.names.tolist() == ["web-0", "web-1", "web-2", "web-3"]
    assert trace.submit_s.tolist() == [0.0, 0.0, 10.0, 60.0]
    expected = [50.0, 30.0, 20.0, math.nan]
    assert trace.duration_s.tolist() == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    ("spec", "count"), [({}, 1), ({"parallelism": 3}, 3), ({"parallelism": 3, "completions": 5}, 5)]
)
def test_pods_of_a_job(spec: dict[str, int], count: int) -> None:
    assert len(read(event(0, workload("train", "Job", **spec)))) == count


def test_pods_are_read_and_other_kinds_are_left_out() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "shop"}}
    daemons = workload("log", "DaemonSet")

    trace = read(event(0, pod | {"spec": {"containers": [CONTAINER]}}, daemons, daemons))

    assert trace.names.tolist() == ["p"]
    assert trace.notes == (
        "2 x DaemonSet: left out (first at events[0].applied_objs[1]: 'shop/log')",
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x81", "is not MessagePack"),
        (b"\x83\xa1a\x90\xc1", "is not MessagePack"),
        (msgspec.msgpack.encode([]), "must be a mapping with version and events, got []"),
        (trace_file(version=1), "version: must be 2, got 1"),
        (msgspec.msgpack.encode({"version": 2}), "events: is required"),
        (trace_file(event(0)), "t.sktrace: has no pods"),
        (trace_file({"ts": "now"}), "events[0].ts: must be a number, got 'now'"),
        (trace_file(event(0), event(1, {"kind": "Pod"})), "events[1].applied_objs[0].metadata"),
        (
            trace_file(event(0, workload("web", replicas=-1))),
            "events[0].applied_objs[0].spec.replicas: must be a number from 0",
        ),
        (
            trace_file(event(0, workload("web", replicas=2**40))),
            "events[0].applied_objs[0]: has more than",
        ),
        (
            trace_file(lifecycles={"apps/v1.Deployment": {}}),
            "pod_lifecycles: must have keys of a GVK and a name, got 'apps/v1.Deployment'",
        ),
        (
            trace_file(lifecycles={("apps/v1.Deployment", "shop/web"): {1: [{"Running": "x"}]}}),
            "pod_lifecycles[('apps/v1.Deployment', 'shop/web')][1][0]: must be a number, got 'x'",
        ),
    ],
)
def test_a_malformed_trace_is_an_error_with_path_and_value(data: bytes, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_simkube(decoded_simkube(data), "t.sktrace")

    assert message in str(caught.value)


def test_another_pod_template_of_a_deployment_replaces_its_pods() -> None:
    larger = workload("web", replicas=3)
    resources = {"requests": {"cpu": "2"}}
    larger["spec"]["template"]["spec"] = {"containers": [{"name": "c", "resources": resources}]}
    trace = read(event(0, workload("web", replicas=2)), event(60, larger), event(90, larger))

    assert trace.submit_s.tolist() == [0, 0, 60, 60, 60]
    assert trace.cpu_milli.tolist() == [500, 500, 2000, 2000, 2000]
    assert trace.duration_s[:2].tolist() == [60, 60]
    assert all(math.isnan(duration_s) for duration_s in trace.duration_s[2:])


def test_another_pod_template_of_a_replica_set_is_for_its_next_pods() -> None:
    larger = workload("web", "ReplicaSet", replicas=2)
    larger["spec"]["template"]["spec"] = {"containers": [{"name": "c", "resources": {}}]}
    trace = read(event(0, workload("web", "ReplicaSet", replicas=1)), event(60, larger))
    assert trace.cpu_milli.tolist() == [500, 0]
    assert all(math.isnan(duration_s) for duration_s in trace.duration_s)


def test_run_times_of_an_unknown_owner_are_noted() -> None:
    lifecycles = {("apps/v1.Deployment", "shop/other"): {7: [{"Running": T0}]}}
    trace = read(event(0, workload("web", replicas=1)), lifecycles=lifecycles)
    assert trace.notes == (
        "1 x run times of an owner that no event applies: left out "
        "(at pod_lifecycles[('apps/v1.Deployment', 'shop/other')])",
    )


def test_a_deletion_of_an_unknown_object_is_noted() -> None:
    web = workload("web", replicas=1)
    trace = read(event(0, web), event(5, deleted=(web, web, workload("log", "DaemonSet"))))

    assert trace.notes == (
        "1 x deletion of an object that no event applied: left out "
        "(at events[1].deleted_objs[1]: 'Deployment shop/web')",
        "1 x DaemonSet: left out (at events[1].deleted_objs[2]: 'shop/log')",
    )


def test_run_times_that_no_pod_has_are_noted() -> None:
    owner = ("apps/v1.Deployment", "shop/web")
    times = [{"Finished": [T0, T0 + 5]}, {"Running": T0 + 6}, "Empty"]

    trace = read(event(0, workload("web", replicas=1)), lifecycles={owner: {7: times}})

    assert trace.duration_s.tolist() == [5.0]
    assert trace.notes == (
        f"1 x lifecycle of a pod that never ran: left out (at pod_lifecycles[{owner!r}])",
        "1 x owner with more run times than pods: the last are left out "
        f"(at pod_lifecycles[{owner!r}]: 2)",
    )


def test_a_job_whose_pods_do_not_come_at_once_is_noted() -> None:
    train = workload("train", "Job", completions=3, parallelism=2, suspend=True)

    assert read(event(0, train)).notes == (
        "1 x Job with less parallelism than completions: its pods are submitted at once "
        "(at events[0].applied_objs[0].spec.parallelism: 2)",
        "1 x suspended Job: its pods are submitted all the same "
        "(at events[0].applied_objs[0].spec.suspend: True)",
    )


def test_what_a_trace_has_no_column_for_is_noted() -> None:
    web = workload("web", replicas=2)
    web["spec"]["template"]["spec"] |= {"nodeSelector": {"disk": "ssd"}}

    assert read(event(0, web) | {"note": "x"}).notes == (
        "fields that have no effect: note (1 x, at events[0].note: 'x'), nodeSelector (1 x, at "
        "events[0].applied_objs[0].spec.template.spec.nodeSelector: {'disk': 'ssd'})",
    )
