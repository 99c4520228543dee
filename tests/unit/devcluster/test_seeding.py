"""A cluster's objects put into an API server: order, status, and what is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mooring.apiserver import ApiServer
from mooring.apiserver.resources import resource_named
from mooring.client import Client, InProcessTransport
from mooring.clock import VirtualClock, seeded_random
from mooring.devcluster.seeding import Seed, Seeder, in_order, seeds_of_files, seeds_of_objects
from mooring.errors import ConfigError
from mooring.testing import make_node
from tests.helpers.running_scheduler import virtually


def raw(kind: str, name: str, version: str = "v1", **more: Any) -> Seed:
    metadata = {"name": name, **more.pop("metadata", {})}
    return Seed({"apiVersion": version, "kind": kind, "metadata": metadata, **more})


def a_pod(name: str, namespace: str = "default", **more: Any) -> Seed:
    spec = {"containers": [{"name": "c", "image": "i"}], **more.pop("spec", {})}
    return raw("Pod", name, metadata={"namespace": namespace}, spec=spec, **more)


def names(seeds: list[Seed]) -> list[str]:
    return [f"{seed.kind} {seed.metadata.get('name')}" for seed in seeds]


class Server:
    """An API server, and one who seeds it."""

    def __init__(self) -> None:
        rng = seeded_random(0)
        self.api = ApiServer(VirtualClock(), rng)
        self.client = Client(InProcessTransport(self.api.handle), rng=rng)
        self.seeder = Seeder(self.client)


# ---- what is to be created, and when ----


def test_what_others_refer_to_comes_first() -> None:
    seeds = [
        a_pod("on", spec={"nodeName": "n"}),
        raw("Node", "n"),
        raw("Service", "s", metadata={"namespace": "default"}),
        raw("PriorityClass", "p", "scheduling.k8s.io/v1"),
        raw("Namespace", "team"),
    ]
    cluster, pending = in_order(seeds)
    assert names(cluster) == ["Namespace team", "PriorityClass p", "Node n", "Service s", "Pod on"]
    assert pending == []


def test_namespaces_that_are_used_and_missing_are_made() -> None:
    seeds = [a_pod("a", "team"), a_pod("b", "default"), a_pod("c", "kube-system"), a_pod("d", "x")]
    cluster, _ = in_order([*seeds, raw("Namespace", "x")])
    assert sorted(names(cluster)) == ["Namespace team", "Namespace x"]


def test_pods_that_wait_come_last_the_important_ones_first() -> None:
    seeds = [
        a_pod("low", spec={"priority": 1}),
        a_pod("none"),
        a_pod("high", spec={"priority": 9}),
        a_pod("odd", spec={"priority": "nonsense"}),
        a_pod("over", status={"phase": "Succeeded"}),
    ]
    cluster, pending = in_order(seeds)
    assert names(pending) == ["Pod high", "Pod low", "Pod none", "Pod odd"]
    assert names(cluster) == ["PriorityClass priority-1", "PriorityClass priority-9", "Pod over"]
    assert [seed.raw["spec"].get("priorityClassName") for seed in pending[:2]] == [
        "priority-9",
        "priority-1",
    ]


def test_runtime_classes_are_made_with_the_overhead_of_their_pods() -> None:
    template = {"template": {"spec": {"runtimeClassName": "late"}}}
    cluster, _ = in_order(
        [
            a_pod("plain", spec={"runtimeClassName": "heavy"}),
            a_pod("heavy", spec={"runtimeClassName": "heavy", "overhead": {"cpu": "250m"}}),
            a_pod("there", spec={"runtimeClassName": "there"}),
            raw("RuntimeClass", "there", "node.k8s.io/v1", handler="h"),
            raw("Deployment", "web", "apps/v1", spec=template),
            raw("CronJob", "tick", "batch/v1", spec={"jobTemplate": {"spec": template}}),
            raw("Job", "odd", "batch/v1", spec={"template": "nonsense"}),
        ]
    )
    classes = [seed for seed in cluster if seed.kind == "RuntimeClass"]
    assert names(classes) == ["RuntimeClass heavy", "RuntimeClass late", "RuntimeClass there"]
    assert [seed.raw.get("overhead") for seed in classes] == [
        {"podFixed": {"cpu": "250m"}},
        None,
        None,
    ]


@virtually
async def test_a_pod_of_a_runtime_class_that_no_file_has_is_created() -> None:
    server = Server()
    cluster, pending = in_order(
        [a_pod("a", spec={"runtimeClassName": "heavy", "overhead": {"cpu": "250m"}})]
    )
    for seed in [*cluster, *pending]:
        assert await server.seeder.create(seed) is not None
    pod = await server.client.get("Pod", "a", "default")
    assert pod.spec.overhead == {"cpu": "250m"}


def test_a_class_is_made_once_for_a_priority_and_none_for_a_pod_with_a_class() -> None:
    never = {"priority": -5, "preemptionPolicy": "Never"}
    seeds = [
        a_pod("a", spec=never),
        a_pod("b", spec=never),
        a_pod("c", spec={"priority": 7, "priorityClassName": "seven"}),
        a_pod("d", spec={"priority": 0}),
    ]

    cluster, pending = in_order(seeds)

    (made,) = cluster
    assert made.metadata == {"name": "priority-minus-5-never"}
    assert (made.raw["value"], made.raw["preemptionPolicy"]) == (-5, "Never")
    classes = {seed.metadata["name"]: seed.raw["spec"].get("priorityClassName") for seed in pending}
    assert classes == {
        "a": "priority-minus-5-never",
        "b": "priority-minus-5-never",
        "c": "seven",
        "d": None,
    }


def test_what_only_a_cluster_itself_writes_is_left_out() -> None:
    cluster, _ = in_order([raw("Event", "e"), raw("Lease", "l"), raw("Binding", "b")])
    assert cluster == []


def test_nonsense_is_looked_at_without_falling_over() -> None:
    seed = Seed({"kind": "Pod", "metadata": None, "spec": None, "status": None})
    assert seed.metadata == {}
    assert seed.is_pending_pod
    assert Seed({}).kind == ""


def test_files_are_read_in_order_with_their_places(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(
        "apiVersion: v1\nkind: Node\nmetadata: {name: one}\n"
        "---\napiVersion: v1\nkind: Pod\nmetadata: {name: two}\n"
    )
    seeds = seeds_of_files([str(path)])
    assert names(seeds) == ["Node one", "Pod two"]
    assert all(seed.source is not None for seed in seeds)


def test_nodes_that_were_made_are_ready_unless_they_say_otherwise() -> None:
    other = make_node("b", status={"conditions": [{"type": "Ready", "status": "False"}]})
    first, second = seeds_of_objects([make_node("a"), other])
    assert first.raw["status"]["conditions"][0]["reason"] == "KubeletReady"
    assert second.raw["status"]["conditions"][0]["status"] == "False"


# ---- creating ----


@virtually
async def test_an_object_gets_an_identity_of_its_own_and_keeps_its_status() -> None:
    server = Server()
    status = {"phase": "Running", "podIP": "10.0.0.1"}
    seed = a_pod("web", spec={"nodeName": "n"}, status=status)
    seed.raw["metadata"].update(uid="theirs", resourceVersion="77", generation=9)
    created = await server.seeder.create(seed)
    assert created is not None
    assert created.metadata.uid != "theirs"
    live = await server.client.get("Pod", "web", "default")
    assert created.metadata.uid == live.metadata.uid
    assert live.status.phase == "Running"
    assert server.seeder.last_version == int(live.metadata.resource_version)
    # What was read stays as it was.
    assert seed.raw["metadata"]["uid"] == "theirs"


@virtually
async def test_a_pod_that_waits_comes_without_its_old_status() -> None:
    server = Server()
    status = {"phase": "Pending", "nominatedNodeName": "gone"}
    assert await server.seeder.create(a_pod("web", status=status)) is not None
    live = await server.client.get("Pod", "web", "default")
    assert live.status.nominated_node_name == ""


@virtually
async def test_a_node_keeps_the_status_it_is_created_with() -> None:
    server = Server()
    (seed,) = seeds_of_objects([make_node("a", allocatable={"cpu": "7"})])
    await server.seeder.create(seed)
    assert (await server.client.get("Node", "a")).status.allocatable["cpu"] == "7"


@virtually
async def test_kinds_that_are_not_served_are_counted_and_passed_over() -> None:
    server = Server()
    for seed in (
        raw("Widget", "w", "example.com/v1"),
        raw("Widget", "v", "example.com/v1"),
        raw("Pods", "p"),
    ):
        assert await server.seeder.create(seed) is None
    assert server.seeder.skipped == {"Widget": 2, "Pods": 1}


@virtually
async def test_what_is_there_already_is_passed_over() -> None:
    server = Server()
    assert await server.seeder.create(raw("Namespace", "default")) is None


@virtually
async def test_all_of_them_come_out_as_they_were_created() -> None:
    server = Server()
    seeds = [raw("Namespace", "team"), raw("Namespace", "team"), a_pod("web", "default")]
    created = [each.metadata.name async for each in server.seeder.create_all(seeds)]
    assert created == ["team", "web"]


@virtually
async def test_a_refusal_says_where_the_object_stands(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: Bad_Name\n")
    (seed,) = seeds_of_files([str(path)])
    with pytest.raises(ConfigError) as caught:
        await Server().seeder.create(seed)
    told = str(caught.value)
    assert told.startswith(f"{path}: ")
    assert "the API server rejects this Namespace" in told
    assert told.endswith("got 'Bad_Name'")
    with pytest.raises(ConfigError, match=r"^metadata.name: the API server rejects"):
        await Server().seeder.create(raw("Namespace", "Bad_Name"))


def test_owners_come_before_what_they_own() -> None:
    seeds = [
        a_pod("on", spec={"nodeName": "n"}),
        raw("ReplicaSet", "r", "apps/v1", metadata={"namespace": "default"}),
        raw("Deployment", "d", "apps/v1", metadata={"namespace": "default"}),
    ]
    assert names(in_order(seeds)[0]) == ["Deployment d", "ReplicaSet r", "Pod on"]


def test_pods_that_are_deleted_before_they_have_a_node_are_left_out() -> None:
    leaving = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    seeds = [a_pod("waits"), a_pod("leaves"), a_pod("on", spec={"nodeName": "n"})]
    seeds[1].metadata.update(leaving)
    seeds[2].metadata.update(leaving)

    cluster, pending = in_order(seeds)

    assert (names(cluster), names(pending)) == (["Pod on"], ["Pod waits"])


@virtually
async def test_owners_that_do_not_exist_are_left_out() -> None:
    """The API server would delete the object: it is in the file without its owner."""
    server = Server()
    absent = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "1"}
    present = {"apiVersion": "v1", "kind": "Namespace", "name": "default", "uid": "2"}
    unknown = {"apiVersion": "example.com/v1", "kind": "Robot", "name": "r", "uid": "3"}
    for name, owners in (("a", [absent]), ("b", [absent, present]), ("c", [unknown])):
        seed = a_pod(name)
        seed.metadata["ownerReferences"] = owners
        await server.seeder.create(seed)
    stored = server.api.store.collection(resource_named("", "pods"))
    owners_of = {
        pod.name: pod.object()["metadata"].get("ownerReferences") for pod in stored.in_order()
    }
    namespace = server.api.store.collection(resource_named("", "namespaces")).get("default")
    assert namespace is not None
    assert owners_of == {"a": None, "b": [{**present, "uid": namespace.uid}], "c": [unknown]}


# ---- files that are not validated ----


@virtually
async def test_a_namespace_that_cannot_be_made_is_an_error_at_the_object_that_names_it(
    tmp_path: Path,
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  namespace: Not_one\n---\n"
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: b\n  namespace: Not_one\n"
    )
    server = Server()
    cluster, _ = in_order(seeds_of_files([str(file)]))

    with pytest.raises(ConfigError) as caught:
        await server.seeder.create(cluster[0])

    error = caught.value
    assert (error.file, error.document, error.line) == (str(file), 1, 5)
    assert (error.path, error.value) == ("metadata.namespace", "Not_one")
    assert "the API server rejects this Namespace" in error.problem


@pytest.mark.parametrize("owners", [[{"kind": "Job", "name": "a"}], ["a"], {"uid": "a"}, 5])
@virtually
async def test_an_owner_that_is_none_is_for_the_api_server_to_refuse(owners: Any) -> None:
    seed = a_pod("a")
    seed.metadata["ownerReferences"] = owners

    with pytest.raises(ConfigError, match="the API server rejects this Pod"):
        await Server().seeder.create(seed)


@pytest.mark.parametrize("kind", ["Pod", "Odd"])
@pytest.mark.parametrize("part", ["a", ["a"], 5, None])
def test_parts_that_are_no_mappings_are_for_the_api_server_to_refuse(kind: str, part: Any) -> None:
    cluster, pending = in_order([raw(kind, "a", spec=part, status=part)])
    assert len(cluster) + len(pending) == 1
