"""Other people's clients on the embedded API server: the Python client and kube-scheduler."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mooring.apiserver import ApiServer, serve
from mooring.apiserver.http_server.certificates import write_private
from mooring.clock import SystemClock, seeded_random
from tests.integration.embedded import make_node, make_pod, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NODES, PODS, PODS_PER_NODE = 50, 500, 10
SCHEDULED_S = 90.0


# ---------------------------------------------------------------- the official Python client


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    # Untyped and slow to import, hence like this and here.
    client, config = import_module("kubernetes.client"), import_module("kubernetes.config")
    with running(tmp_path_factory.mktemp("embedded"), "--instant-deletion") as server:
        loaded = client.Configuration()
        config.load_kube_config(str(server.kubeconfig), client_configuration=loaded)
        with client.ApiClient(loaded) as api:
            yield client.CoreV1Api(api)
            api.rest_client.pool_manager.clear()


def test_the_python_client_creates_lists_patches_and_deletes(core: Any) -> None:
    core.create_namespace({"metadata": {"name": "python"}})
    for name in ("a", "b"):
        core.create_namespaced_pod("python", make_pod(name))

    listed = core.list_namespaced_pod("python", label_selector="app=a")
    assert [pod.metadata.name for pod in listed.items] == ["a"]
    assert listed.metadata.resource_version
    apply_patch = core.patch_namespaced_pod("a", "python", {"metadata": {"labels": {"x": "y"}}})
    assert apply_patch.metadata.labels == {"app": "a", "x": "y"}
    status = {"status": {"phase": "Running"}}
    assert core.patch_namespaced_pod_status("a", "python", status).status.phase == "Running"
    core.delete_namespaced_pod("a", "python")
    left = core.list_pod_for_all_namespaces(field_selector="metadata.namespace=python")
    assert [pod.metadata.name for pod in left.items] == ["b"]


def test_the_python_client_pages(core: Any) -> None:
    for number in range(5):
        core.create_namespaced_config_map("default", {"metadata": {"name": f"page-{number}"}})
    names: list[str] = []
    token = ""
    while True:
        page = core.list_namespaced_config_map("default", limit=2, _continue=token)
        names += [item.metadata.name for item in page.items]
        token = page.metadata._continue
        if not token:
            break

    assert [name for name in names if name.startswith("page-")] == [
        f"page-{number}" for number in range(5)
    ]


def test_the_python_client_binds(core: Any) -> None:
    core.create_node(make_node("n-1"))
    core.create_namespaced_pod("default", make_pod("bound"))
    binding = {
        "metadata": {"name": "bound"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n-1"},
    }

    core.create_namespaced_pod_binding("bound", "default", binding, _preload_content=False)

    pod = core.read_namespaced_pod("bound", "default")
    assert pod.spec.node_name == "n-1"
    assert [(one.type, one.status) for one in pod.status.conditions] == [("PodScheduled", "True")]


def test_the_python_client_watches(core: Any) -> None:
    version = core.list_namespaced_pod("default").metadata.resource_version
    core.create_namespaced_pod("default", make_pod("seen"))
    core.delete_namespaced_pod("seen", "default")
    watching = import_module("kubernetes.watch").Watch()
    seen = []
    for event in watching.stream(
        core.list_namespaced_pod, "default", resource_version=version, timeout_seconds=10
    ):
        seen.append((event["type"], event["object"].metadata.name))
        if event["type"] == "DELETED":
            watching.stop()

    # As upstream: first it is marked, then it is gone.
    assert seen == [("ADDED", "seen"), ("MODIFIED", "seen"), ("DELETED", "seen")]


def test_the_python_client_is_told_why_not(core: Any) -> None:
    ApiException = import_module("kubernetes.client.exceptions").ApiException  # noqa: N806
    with pytest.raises(ApiException) as missing:
        core.read_namespaced_pod("nope", "default")
    core.create_namespaced_pod("default", make_pod("twice"))
    with pytest.raises(ApiException) as exists:
        core.create_namespaced_pod("default", make_pod("twice"))

    assert (missing.value.status, json.loads(missing.value.body)["reason"]) == (404, "NotFound")
    assert (exists.value.status, json.loads(exists.value.body)["reason"]) == (409, "AlreadyExists")


# ---------------------------------------------------------------- the real kube-scheduler


@asynccontextmanager
async def kube_scheduler(program: Path, kubeconfig: Path, log: Path) -> AsyncIterator[None]:
    """Runs the real kube-scheduler with a kubeconfig during the block."""
    options = [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--leader-elect-resource-namespace=kube-system",
        "--secure-port=0",
        "-v=2",
    ]
    environment = {"HOME": str(log.parent), "PATH": os.environ["PATH"]}
    with log.open("w") as file:
        process = await asyncio.create_subprocess_exec(
            program, *options, stdout=file, stderr=file, env=environment
        )
        try:
            yield
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()


async def create(api: ApiServer, path: str, obj: dict[str, Any]) -> None:
    headers = {"content-type": "application/json"}
    answer = await api.handle("POST", path, [], headers, json.dumps(obj).encode())
    assert answer[0] == 201, answer[2]


async def wait_for_pods_on_nodes(api: ApiServer, count: int) -> Counter[str]:
    """Returns how many pods are on each node, once ``count`` of them are on any."""
    query = [("watch", "true"), ("resourceVersion", "0")]
    _, _, lines = await api.handle("GET", "/api/v1/pods", query, {}, b"")
    assert not isinstance(lines, bytes)
    node_of: dict[str, str] = {}
    async for chunk in lines:
        for line in chunk.splitlines():
            pod = json.loads(line)["object"]
            node_of[pod["metadata"]["name"]] = pod["spec"].get("nodeName", "")
        if sum(map(bool, node_of.values())) >= count:
            break
    return Counter(node for node in node_of.values() if node)


@pytest.mark.slow
def test_kube_scheduler_places_500_pods_on_50_nodes(programs: Path, tmp_path: Path) -> None:
    async def test() -> None:
        api = ApiServer(SystemClock(), seeded_random(0))
        for number in range(NODES):
            await create(api, "/api/v1/nodes", make_node(f"n-{number}", pods=PODS_PER_NODE))
        log = tmp_path / "scheduler.log"
        async with serve(api) as server:
            kubeconfig = tmp_path / "kubeconfig"
            write_private(kubeconfig, server.kubeconfig("system:kube-scheduler").encode())
            async with kube_scheduler(programs / "kube-scheduler", kubeconfig, log):
                for number in range(PODS):
                    pod = make_pod(f"p-{number}")
                    await create(api, "/api/v1/namespaces/default/pods", pod)
                async with asyncio.timeout(SCHEDULED_S):
                    placed = await wait_for_pods_on_nodes(api, PODS)
                events = await scheduled_events(api)
                lease = await read(api, "/apis/coordination.k8s.io/v1/leases")

        # Ten pods fit on a node, so a full cluster is the only right answer.
        assert placed == {f"n-{number}": PODS_PER_NODE for number in range(NODES)}
        assert "forbidden" not in log.read_text()
        assert events
        assert [one["metadata"]["name"] for one in lease["items"]] == ["kube-scheduler"]

    asyncio.run(test())


async def read(api: ApiServer, path: str) -> Any:
    status, _, body = await api.handle("GET", path, [], {}, b"")
    assert status == 200
    assert isinstance(body, bytes)
    return json.loads(body)


async def scheduled_events(api: ApiServer) -> list[Any]:
    """Returns what the scheduler says of its work, sent as protobuf."""
    response = await read(api, "/apis/events.k8s.io/v1/namespaces/default/events")
    return [one for one in response["items"] if one["reason"] == "Scheduled"]
