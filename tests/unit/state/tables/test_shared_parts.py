"""Equal parts of pods are kept once, and nothing that decides is lost by it."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mooring.clock import seeded_random
from mooring.objects.codec.decode import convert, decode, to_builtins
from mooring.objects.pod import Pod
from mooring.state import PodInfo, audit
from mooring.state.cache import Cache
from mooring.state.tables.shared_parts import InternPool
from mooring.testing import cluster, make_node, make_pod
from mooring.testing.random_cluster import random_pod

#: The bar of the design for a pod on a node, with its row.
POD_BYTES_MAX = 1536


def replica(number: int, **more: Any) -> Pod:
    """Returns a pod as a Deployment makes them and a kubelet reports them."""
    condition = {"status": "True", "lastTransitionTime": f"2026-11-21T10:00:{number % 60:02}Z"}
    resources = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    document = {
        "metadata": {
            "name": f"web-{number}",
            "namespace": "shop",
            "uid": f"uid-{number}",
            "resourceVersion": str(1000 + number),
            "labels": {"app": "web"},
            "ownerReferences": [
                {"kind": "ReplicaSet", "name": "web", "uid": "u", "apiVersion": "v1"}
            ],
        },
        "spec": {
            "nodeName": "a",
            "containers": [{"name": "c", "image": "web:1", "resources": resources}],
            "volumes": [{"name": f"kube-api-access-{number}"}],
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
        },
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", **condition}],
            "containerStatuses": [{"name": "c", "resources": resources}],
        },
    }
    document.update(more)
    pod: Pod = convert(document, "Pod")
    return pod


def test_what_two_replicas_have_in_common_is_one_object() -> None:
    parts = InternPool()

    one, two = parts.pod_info(replica(1)), parts.pod_info(replica(2))

    assert one.spec.containers is two.spec.containers
    assert one.spec.tolerations is two.spec.tolerations
    assert one.metadata.labels is two.metadata.labels
    assert one.metadata.owner_references is two.metadata.owner_references
    assert one.status.conditions is two.status.conditions
    assert one.usage is two.usage
    assert (one.uid, two.uid) == ("uid-1", "uid-2")
    assert one.metadata.resource_version == "1001"


def test_replicas_on_two_nodes_keep_their_own() -> None:
    parts = InternPool()
    pods = []
    for number, node in enumerate("ab"):
        pod = replica(number)
        metadata = replace(pod.metadata, creation_timestamp=f"2026-11-21T10:00:0{number}Z")
        status = replace(pod.status, start_time=f"2026-11-21T10:00:0{number}Z")
        spec = replace(pod.spec, node_name=node, volumes=())
        status = replace(status, conditions=())
        pods.append(replace(pod, metadata=metadata, spec=spec, status=status))

    one, two = map(parts.pod_info, pods)

    assert [to_builtins(one.pod), to_builtins(two.pod)] == [to_builtins(pod) for pod in pods]
    assert one.spec.containers is two.spec.containers
    assert one.usage is two.usage


def test_pods_deleted_at_different_times_share_their_metadata() -> None:
    parts = InternPool()
    parts.pod_info(replica(0))
    before = len(parts)
    times = [f"2026-11-21T10:00:0{number}Z" for number in range(5)]

    for number, time in enumerate(times):
        pod = replica(number)
        metadata = replace(pod.metadata, deletion_timestamp=time)
        assert parts.pod_info(replace(pod, metadata=metadata)).metadata.deletion_timestamp == time

    assert len(parts) == before, "a deletion leaves nothing in the pool"


@given(st.integers(0, 2**32))
def test_a_pod_made_of_shared_parts_is_the_same_pod(seed: int) -> None:
    rng = seeded_random(seed)
    parts = InternPool(size=4)
    for number in range(12):
        pod = random_pod(rng, f"pod-{number}", node="a")
        info, plain = parts.pod_info(pod), PodInfo(pod)

        assert to_builtins(info.pod) == to_builtins(pod)
        assert info.derived() == plain.derived()


def test_volumes_without_a_source_and_times_of_conditions_are_left_out() -> None:
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data-0"}}
    spec = {"nodeName": "a", "volumes": [{"name": "token"}, claim]}

    info = InternPool().pod_info(replica(1, spec=spec))

    assert [volume.name for volume in info.spec.volumes] == ["data"]
    assert [c.type for c in info.status.conditions] == ["Ready"]
    assert info.status.conditions[0].last_transition_time is None


def test_amounts_are_not_shared_by_pods_that_differ_in_what_they_follow_from() -> None:
    parts = InternPool()
    pending = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    grown = {"name": "c", "resources": {"requests": {"cpu": "300m", "memory": "64Mi"}}}

    usual = parts.pod_info(replica(1))
    resized = parts.pod_info(replica(2, status={"containerStatuses": [grown]}))
    shrunk = {"containerStatuses": [grown], "conditions": [pending]}
    spec = replica(3).spec
    big = replace(spec.containers[0].resources, requests={"cpu": "9"})
    container = replace(spec.containers[0], resources=big)
    infeasible = parts.pod_info(
        replace(replica(3, status=shrunk), spec=replace(spec, containers=(container,)))
    )

    assert usual.usage["cpu"] == 100
    assert resized.usage["cpu"] == 300
    assert infeasible.usage["cpu"] == 300
    assert infeasible.requests["cpu"] == 9000


def test_the_pool_is_bounded_and_keeps_what_is_in_use() -> None:
    parts = InternPool(size=64)
    often = parts.pod_info(make_pod("often", labels={"app": "often"}, node="a"))
    for number in range(200):
        parts.pod_info(make_pod(f"p{number}", labels={"app": str(number)}, node=f"n{number}"))
        again = parts.pod_info(make_pod("again", labels={"app": "often"}, node="a"))
        assert again.metadata.labels is often.metadata.labels

    assert len(parts) <= 2 * 64


def test_a_replica_on_a_node_is_small() -> None:
    texts = [to_json(replica(number)) for number in range(1000)]
    cache = cluster(make_node("a"))
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for text in texts:
        cache.put_pod(decode(text, "Pod"))
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert (after - before) / len(texts) < POD_BYTES_MAX


def to_json(pod: Pod) -> bytes:
    import msgspec

    return msgspec.json.encode(pod)


# ---- news of a pod that is there ----


@pytest.fixture
def cache() -> Cache:
    return cluster(make_node("a"), replica(1))


def test_news_of_the_status_leaves_the_columns_alone(cache: Cache) -> None:
    generation = cache.nodes.log.generation

    cache.put_pod(replica(1, status={"phase": "Running"}))

    assert cache.nodes.log.generation == generation
    placed = cache.pods.get("uid-1")
    assert placed is not None
    assert placed.info.status.conditions == ()
    assert audit(cache) == []


def test_news_of_a_resize_counts(cache: Cache) -> None:
    generation = cache.nodes.log.generation
    grown = {"name": "c", "resources": {"requests": {"cpu": "300m", "memory": "64Mi"}}}

    cache.put_pod(replica(1, status={"containerStatuses": [grown]}))

    assert cache.nodes.log.generation > generation
    assert cache.nodes.requested[0, 0] == 300
    assert audit(cache) == []


def test_news_of_an_assumed_pod_confirms_it() -> None:
    cache = cluster(make_node("a"))
    with cache.assume(PodInfo(replica(1)), "a") as held:
        held.keep()

    cache.put_pod(replica(1))

    assert not cache.is_assumed("uid-1")
    assert audit(cache) == []


def test_a_pod_that_waits_is_kept_as_it_is_and_asks_for_what_it_would_by_itself() -> None:
    parts = InternPool()
    rng = seeded_random(7)
    pods = [random_pod(rng, f"p{number}") for number in range(200)]

    for pod in [*pods, *pods]:
        info = parts.pending_info(pod)
        assert info.pod is pod
        assert info.derived() == PodInfo(pod).derived()


def test_two_pods_that_wait_and_ask_for_the_same_share_it() -> None:
    parts = InternPool()
    asked = {"cpu": "250m"}
    one, two = make_pod("one", requests=asked), make_pod("two", requests=asked)
    other = make_pod("other", requests={"cpu": "300m"})

    assert parts.pending_info(one).requests is parts.pending_info(two).requests
    assert parts.pending_info(other).requests["cpu"] == 300


def test_a_waiting_pod_with_an_amount_of_its_own_in_its_status_shares_nothing() -> None:
    parts = InternPool()
    resized = {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]}
    pods = [make_pod(name, requests={"cpu": "1"}) for name in "ab"]
    pods += [make_pod("c", requests={"cpu": "1"}, status=resized)]
    shared_spec = replace(pods[1], spec=pods[0].spec)

    infos = [parts.pending_info(pod) for pod in (*pods, shared_spec)]

    assert [info.usage for info in infos] == [PodInfo(pod).usage for pod in (*pods, shared_spec)]
    assert infos[0].usage is infos[1].usage is infos[3].usage
    assert infos[2].usage is not infos[0].usage
    assert parts.limit >= len(parts)
