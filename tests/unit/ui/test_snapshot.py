"""Import of snapshots and removal of all objects, over real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from tests.helpers.page import Page, node, page_of, pod

TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": pod("web")["spec"]}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE},
}


def with_page(objects: list[dict[str, Any]], test: Callable[[Page], Awaitable[None]]) -> None:
    async def run() -> None:
        async with page_of(objects) as page:
            await page.open()
            await test(page)

    asyncio.run(run())


async def names(page: Page) -> list[str]:
    document = await page.get("export")
    return sorted(f"{item['kind']} {item['metadata']['name']}" for item in document["items"])


def listed(*objects: dict[str, Any]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


def test_an_import_keeps_or_replaces_the_others() -> None:
    async def test(page: Page) -> None:
        # Pods come first in the text; their priority class and node are stored before them.
        urgent = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "urgent"},
            "value": 5,
        }
        placed = pod("placed", nodeName="n2")
        text = listed(pod("new", priorityClassName="urgent"), placed, urgent, node("n2"))
        status, applied = await page.post("import", {"text": text, "replaces": False})
        assert status == 200
        assert [item["object"] for item in applied] == [
            "PriorityClass urgent",
            "Node n2",
            "Pod placed",
            "Pod new",
        ]
        assert all(item["isOk"] for item in applied), applied
        assert {"Node n1", "Node n2", "Pod old", "Pod new"} <= {*await names(page)}

        status, applied = await page.post("import", {"text": listed(node("n3")), "replaces": True})
        assert (status, len(applied)) == (200, 1)
        left = [name for name in await names(page) if not name.startswith("Namespace ")]
        assert left == [
            "Node n3",
            "PriorityClass system-cluster-critical",
            "PriorityClass system-node-critical",
            "Service kubernetes",
        ]

    with_page([node("n1"), pod("old")], test)


def test_a_text_that_cannot_be_read_removes_nothing() -> None:
    async def test(page: Page) -> None:
        before = await names(page)
        status, applied = await page.post("import", {"text": "a: [", "replaces": True})
        assert (status, applied[0]["isOk"]) == (200, False)
        status, document = await page.post("import", {"text": "a: b"})
        assert (status, document["message"]) == (400, 'needs "text", and "replaces": true or false')
        assert await names(page) == before

    with_page([node("n1")], test)


def test_a_deployment_is_removed_with_its_pods_and_imported_without_them() -> None:
    async def test(page: Page) -> None:
        await page.post("apply", {"text": json.dumps(DEPLOYMENT)})
        await page.cluster.settle()
        exported = await page.get("export")
        pods = [item for item in exported["items"] if item["kind"] == "Pod"]
        assert len(pods) == 2
        status, document = await page.post("reset", {})
        assert status == 200, document
        assert document["message"].endswith("objects removed")
        assert not [name for name in await names(page) if name.startswith(("Pod", "Rep", "Dep"))]

        text = json.dumps(exported)
        status, applied = await page.post("import", {"text": text, "replaces": True})
        assert [item["object"] for item in applied] == ["Node n1", "Deployment web"]
        await page.cluster.settle()
        state = await page.get("state")
        assert state["counts"]["bound"] == 2

    with_page([node("n1")], test)
