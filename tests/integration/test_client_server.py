"""The client against the real API server: every verb, credentials, informers, events, leases."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mooring.client.event_recorder import Recorder
from mooring.client.informer.informer import Informer
from mooring.client.informer.replica import ObjectChange
from mooring.client.leader_election import Elector
from mooring.client.rest.client import Client, Patch
from mooring.client.transport.auth import connect
from mooring.client.transport.kubeconfig import Access as ServerAccess
from mooring.client.transport.kubeconfig import find_access, read_kubeconfig
from mooring.client.transport.transport import Request
from mooring.clock import SystemClock, seeded_random
from mooring.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Invalid,
    LeaseLost,
    NotFound,
    Unauthorized,
    Unreachable,
)
from mooring.objects import Node, ObjectMeta, Pod
from mooring.objects.kinds import kind_named
from mooring.objects.pod import Container, PodSpec
from mooring.testing.controlplane import Access, write_kubeconfig

SECONDS_MAX = 60.0


@asynccontextmanager
async def client_of(access: ServerAccess) -> AsyncIterator[Client]:
    transport = connect(access, clock=SystemClock(), environment=os.environ)
    try:
        yield Client(transport, rng=seeded_random(1))
    finally:
        await transport.close()


def run(access: ServerAccess, test: Callable[[Client], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(SECONDS_MAX), client_of(access) as client:
            await test(client)

    asyncio.run(main())


def admin(plane: Access, identity: str = "admin") -> ServerAccess:
    return read_kubeconfig([str(plane.kubeconfig(identity))])


def a_pod(namespace: str, name: str) -> Pod:
    spec = PodSpec(containers=(Container(name="main", image="pause"),))
    return Pod(metadata=ObjectMeta(name=name, namespace=namespace), spec=spec)


def test_a_kubeconfig_can_impersonate_a_user(plane: Access, tmp_path: Path) -> None:
    config = json.loads(Path(plane.kubeconfig("admin")).read_text("utf-8"))
    config["users"][0]["user"] |= {
        "as": "jané",
        "as-uid": "7",
        "as-groups": ["shop", "system:authenticated"],
        "as-user-extra": {"example.com/scope": ["one", "two"]},
    }
    path = tmp_path / "config"
    path.write_text(json.dumps(config), "utf-8")
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}

    async def main() -> dict[str, Any]:
        access = read_kubeconfig([str(path)])
        transport = connect(access, clock=SystemClock(), environment=os.environ)
        try:
            response = await transport.request(
                Request(
                    "POST",
                    "/apis/authentication.k8s.io/v1/selfsubjectreviews",
                    headers={"content-type": "application/json"},
                    body=json.dumps(review).encode(),
                    deadline_s=SECONDS_MAX,
                )
            )
        finally:
            await transport.close()
        result: dict[str, Any] = json.loads(response.body)["status"]["userInfo"]
        return result

    assert asyncio.run(main()) == {
        "username": "jané",
        "uid": "7",
        "groups": ["shop", "system:authenticated"],
        "extra": {"example.com/scope": ["one", "two"]},
    }


def test_every_verb_on_a_pod(plane: Access, namespace: str) -> None:
    async def test(client: Client) -> None:
        made = await client.create(a_pod(namespace, "web"))
        assert made.metadata.uid
        with pytest.raises(AlreadyExists):
            await client.create(a_pod(namespace, "web"))
        found = await client.get("Pod", "web", namespace)
        assert found.metadata.uid == made.metadata.uid
        labels = {"metadata": {"labels": {"tier": "front"}}}
        patched = await client.patch("Pod", "web", labels, namespace=namespace)
        assert patched.metadata.labels == {"tier": "front"}
        listed = await client.list("Pod", namespace, label_selector="tier=front")
        assert [pod.metadata.name for pod in listed.items] == ["web"]
        assert (await client.list("Pod", namespace, label_selector="tier=back")).items == ()
        with pytest.raises(Conflict):
            await client.delete("Pod", "web", namespace, uid="another")
        await client.delete("Pod", "web", namespace, uid=made.metadata.uid, grace_period_s=0)
        with pytest.raises(NotFound):
            await client.get("Pod", "web", namespace)

    run(admin(plane), test)


def test_a_pod_is_bound_once_and_only_if_it_is_the_one_that_was_meant(
    plane: Access, namespace: str
) -> None:
    async def test(client: Client) -> None:
        made = await client.create(a_pod(namespace, "web"))
        other = Pod(metadata=ObjectMeta(name="web", namespace=namespace, uid="another"))
        with pytest.raises(Conflict):
            await client.bind(other, "node-1")
        await client.bind(made, "node-1")
        with pytest.raises(Conflict, match="already assigned to node"):
            await client.bind(made, "node-2")
        assert (await client.get("Pod", "web", namespace)).spec.node_name == "node-1"
        await client.delete("Pod", "web", namespace, grace_period_s=0)

    run(admin(plane), test)


def test_a_status_patch_reaches_only_this_pod(plane: Access, namespace: str) -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}

    async def test(client: Client) -> None:
        made = await client.create(a_pod(namespace, "web"))
        patched = await client.patch_pod_status(made, {"conditions": [condition]})
        assert [one.reason for one in patched.status.conditions] == ["Unschedulable"]
        other = Pod(metadata=ObjectMeta(name="web", namespace=namespace, uid="another"))
        with pytest.raises(Invalid, match=r"metadata\.uid"):
            await client.patch_pod_status(other, {"conditions": []})

    run(admin(plane), test)


def test_an_evicted_pod_is_gone(plane: Access, namespace: str) -> None:
    async def test(client: Client) -> None:
        made = await client.create(a_pod(namespace, "web"))
        await client.evict(made, grace_period_s=0)
        with pytest.raises(NotFound):
            await client.get("Pod", "web", namespace)

    run(admin(plane), test)


def test_patches_of_all_types_and_what_is_invalid(plane: Access, namespace: str) -> None:
    async def test(client: Client) -> None:
        await client.create(a_pod(namespace, "web"))
        operations = [{"op": "add", "path": "/metadata/annotations", "value": {"a": "1"}}]
        found = await client.patch("Pod", "web", operations, namespace=namespace, how=Patch.JSON)
        assert found.metadata.annotations == {"a": "1"}
        applied = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web", "annotations": {"b": "2"}},
        }
        found = await client.patch(
            "Pod", "web", applied, namespace=namespace, how=Patch.APPLY, force=True
        )
        assert found.metadata.annotations == {"a": "1", "b": "2"}
        bad = {"spec": {"nodeName": "elsewhere"}}
        with pytest.raises(Invalid) as refused:
            await client.patch("Pod", "web", bad, namespace=namespace)
        assert refused.value.status == 422
        assert refused.value.causes

    run(admin(plane), test)


def test_pages_together_are_the_list(plane: Access, namespace: str) -> None:
    async def test(client: Client) -> None:
        for number in range(7):
            await client.create(a_pod(namespace, f"web-{number}"))
        pages = [page async for page in client.pages("Pod", namespace, page_size=3)]
        assert [len(page.items) for page in pages] == [3, 3, 1]
        assert len({page.resource_version for page in pages}) == 1
        names = [pod.metadata.name for page in pages for pod in page.items]
        assert names == [f"web-{number}" for number in range(7)]

    run(admin(plane), test)


def test_a_forbidden_request_is_reported(plane: Access, namespace: str) -> None:
    async def test(client: Client) -> None:
        with pytest.raises(Forbidden) as refused:
            await client.list("Pod", namespace)
        assert "nobody" in str(refused.value)

    run(admin(plane, "nobody"), test)


def test_a_token_file_is_read_again_when_the_server_refuses_it(
    plane: Access, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("nonsense", "ascii")
    access = ServerAccess(plane.url, authority=plane.authority, token_file=file)

    async def test(client: Client) -> None:
        with pytest.raises(Unauthorized):
            await client.list("Node")

    run(access, test)

    async def rotated(client: Client) -> None:
        # Read once with the old content, then replaced, as the kubelet does.
        file.write_text("nonsense", "ascii")
        await client.transport.request(Request("GET", "/version", deadline_s=10))
        file.write_text(plane.service_account_token(), "ascii")
        assert (await client.list("Node")).resource_version

    run(access, rotated)


def test_a_server_signed_by_another_authority_is_not_trusted(plane: Access, tmp_path: Path) -> None:
    authority = plane.folder / "pki" / "etcd-ca.crt"
    access = ServerAccess(plane.url, authority=authority, token="secret")

    async def test(client: Client) -> None:
        with pytest.raises(Unreachable, match="certificate verify failed"):
            await client.transport.request(
                Request("POST", "/api/v1/pods", body=b"{}", deadline_s=10)
            )

    run(access, test)


def test_a_plugin_gives_the_token(plane: Access, tmp_path: Path) -> None:
    path = tmp_path / "config"
    write_kubeconfig(path, url=plane.url, authority=plane.authority)
    content = json.loads(path.read_text())
    answer = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": plane.service_account_token()},
    }
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "sh",
        "args": ["-c", 'printf %s "$ANSWER"'],
        "env": [{"name": "ANSWER", "value": json.dumps(answer)}],
        "interactiveMode": "Never",
    }
    content["users"][0]["user"] = {"exec": plugin}
    path.write_text(json.dumps(content))

    async def test(client: Client) -> None:
        assert (await client.list("Node")).resource_version

    run(find_access(str(path), environment=os.environ), test)


@pytest.mark.parametrize("mode", ["stream", "list"])
def test_an_informer_sees_everything_once(plane: Access, namespace: str, mode: str) -> None:
    seen: list[tuple[str, str]] = []

    def note(change: ObjectChange) -> None:
        what = "added" if change.old is None else "deleted" if change.new is None else "changed"
        seen.append((what, (change.new or change.old).metadata.name))

    async def test(client: Client) -> None:
        await client.create(a_pod(namespace, "first"))
        clock, rng = SystemClock(), seeded_random(1)
        informer = Informer(client, "Pod", note, namespace=namespace, clock=clock, rng=rng)
        if mode == "list":
            # As with a server that cannot list by watching.
            informer._reflector.ended(None)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(informer.run())
            await informer.wait_until_synced()
            assert set(informer.objects) == {f"{namespace}/first"}
            second = await client.create(a_pod(namespace, "second"))
            await client.bind(second, "node-1")
            await client.delete("Pod", "first", namespace, grace_period_s=0)
            await until(lambda: ("deleted", "first") in seen)
            running.cancel()
        assert seen[0] == ("added", "first")
        assert [what for what, name in seen if name == "second"] == ["added", "changed"]
        assert informer.objects[f"{namespace}/second"].spec.node_name == "node-1"
        assert informer.statistics().missed_deletes == 0

    run(admin(plane), test)


def test_a_kind_nobody_may_see_does_not_sync_and_says_why(plane: Access, namespace: str) -> None:
    async def test(client: Client) -> None:
        clock, rng = SystemClock(), seeded_random(1)
        informer = Informer(client, "Node", lambda _: None, clock=clock, rng=rng)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(informer.run())
            await until(lambda: isinstance(informer.last_error, Forbidden))
            assert not informer.has_synced
            running.cancel()

    run(admin(plane, "nobody"), test)


def test_events_of_one_kind_become_a_series_that_kubectl_shows(
    plane: Access, namespace: str
) -> None:
    async def test(client: Client) -> None:
        recorder = Recorder(
            client,
            controller="mooring",
            instance="mooring-test",
            clock=SystemClock(),
            rng=seeded_random(1),
        )
        made = await client.create(a_pod(namespace, "web"))
        for number in range(3):
            recorder.record(
                made,
                type="Warning",
                reason="FailedScheduling",
                action="Scheduling",
                note=f"try {number}",
            )
            await recorder.write_waiting()
        assert recorder.statistics().failed == 0
        [event] = (await client.list("Event", namespace)).items
        assert (event.reason, event.note, event.regarding.uid) == (
            "FailedScheduling",
            "try 0",
            made.metadata.uid,
        )
        assert event.series.count == 2

    run(admin(plane), test)
    shown = plane.kubectl("describe", "pod", "web", f"--namespace={namespace}")
    assert "FailedScheduling" in shown
    assert "try 0" in shown


def test_one_of_two_candidates_leads_and_the_other_follows(plane: Access, namespace: str) -> None:
    async def test(client: Client) -> None:
        def candidate(identity: str) -> Elector:
            return Elector(
                client.transport,
                namespace,
                "lock",
                identity=identity,
                clock=SystemClock(),
                rng=seeded_random(1),
            )

        one, two = candidate("one"), candidate("two")
        await one.wait_until_leading()
        assert 0 < one.fence() <= 10
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(two.wait_until_leading())
            await until(lambda: two.leader == "one")
            with pytest.raises(LeaseLost):
                two.fence()
            assert await one.release()
            await waiting
        assert two.fence() > 0
        with pytest.raises(LeaseLost):
            one.fence()
        lease = await client.get("Lease", "lock", namespace)
        assert lease.spec.holder_identity == "two"
        assert lease.spec.lease_transitions == 1

    run(admin(plane), test)


def test_nothing_listens_there() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        access = ServerAccess(f"http://127.0.0.1:{reserved.getsockname()[1]}")

        async def test(client: Client) -> None:
            with pytest.raises(Unreachable):
                await client.create(a_pod("default", "web"))

        run(access, test)


def test_every_kind_that_is_read_can_be_listed(plane: Access) -> None:
    async def test(client: Client) -> None:
        for name in ("Node", "PersistentVolume", "ResourceSlice", "CSINode", "VolumeAttachment"):
            found = await client.list(kind_named(name))
            assert found.malformed == 0
        node = await client.create(Node(metadata=ObjectMeta(name="client-test-node")))
        await client.delete("Node", node.metadata.name)

    run(admin(plane), test)


async def until(holds: Callable[[], Any]) -> None:
    """Waits until a condition holds; the whole test has a deadline."""
    while not holds():  # noqa: ASYNC110 - what is waited for has no event
        await asyncio.sleep(0.01)
