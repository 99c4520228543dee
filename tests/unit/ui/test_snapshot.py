"""Import of snapshots and removal of all objects, over real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

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
        for text in ("a: [", "", json.dumps({"apiVersion": "v1", "kind": "List", "items": []})):
            status, applied = await page.post("import", {"text": text, "replaces": True})
            assert (status, applied[0]["isOk"]) == (200, False)
        status, document = await page.post("import", {"text": "a: b"})
        assert (status, document["message"]) == (400, 'needs "text", and "replaces": true or false')
        assert await names(page) == before

    with_page([node("n1")], test)


GOOD = (
    "apiVersion: v1\nkind: Pod\nmetadata: {name: good}\nspec: {containers: [{name: c, image: i}]}\n"
)
NAMED = "metadata: {name: other}\n"


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        (f"kind: Pod\n{NAMED}", ["1 apiVersion: must be a version such as v1 or apps/v1"]),
        (f"apiVersion: ''\nkind: Pod\n{NAMED}", ["1 apiVersion: must be a version"]),
        (f"apiVersion: /\nkind: Pod\n{NAMED}", ["1 apiVersion: must be a version", "'/'"]),
        (f"apiVersion: v1/../..\nkind: Pod\n{NAMED}", ["1 apiVersion: must be a version"]),
        (
            f"apiVersion: apps/v1/deployments\nkind: Deployment\n{NAMED}",
            ["1 apiVersion: must be a version", "'apps/v1/deployments'"],
        ),
        (f"apiVersion: v1\n{NAMED}", ["1 kind: must name the kind of object"]),
        (f"apiVersion: v1\nkind: 5\n{NAMED}", ["1 kind: must name the kind of object, got 5"]),
        (f"apiVersion: v1\nkind: Foo\n{NAMED}", ["1 the API server does not serve Foo"]),
        ("apiVersion: v1\nkind: Pod\n", ["1 metadata.name: needs a name"]),
        ("apiVersion: v1\nkind: List\nitems: 5\n", ["1 items: must be a list, got 5"]),
        ("apiVersion: v1\nkind: List\n", ["1 items: must be a list"]),
        ("apiVersion: v1\nkind: PodList\nitems: {}\n", ["1 items: must be a list, got {}"]),
        ("apiVersion: v1\nkind: List\nitems: [5]\n", ["1 items[0]: must be a Kubernetes object"]),
        ("apiVersion: v1\nkind: List\nitems: [{kind: Pod}]\n", ["1 items[0].apiVersion: must be"]),
    ],
)
@pytest.mark.parametrize("is_last", [False, True], ids=["alone", "last"])
def test_a_document_that_cannot_be_read_replaces_nothing(
    text: str, problems: list[str], is_last: bool
) -> None:
    async def test(page: Page) -> None:
        before = await names(page)
        body = f"{GOOD}---\n{text}" if is_last else text
        status, (result,) = await page.post("import", {"text": body, "replaces": True})
        line, _, problem = problems[0].partition(" ")
        assert (status, result["isOk"]) == (200, False)
        assert result["line"] == int(line) + (5 if is_last else 0)
        assert all(part in result["message"] for part in (problem, *problems[1:])), result
        assert await names(page) == before

    with_page([node("n1")], test)


def test_every_document_that_cannot_be_read_has_its_error() -> None:
    texts = [GOOD, f"kind: Pod\n{NAMED}", f"kind: Thing\n{NAMED}", GOOD, "- 1\n", "a: ["]

    async def test(page: Page) -> None:
        before = await names(page)
        for path, options in (("import", {"replaces": True}), ("import", {"replaces": False})):
            status, results = await page.post(path, {"text": "---\n".join(texts), **options})
            assert (status, [result["line"] for result in results]) == (200, [6, 9, 17, 20])
            assert not any(result["isOk"] for result in results)
        status, results = await page.post("apply", {"text": "---\n".join(texts)})
        assert (status, [result["line"] for result in results]) == (200, [6, 9, 17, 20])
        assert await names(page) == before

    with_page([node("n1")], test)


def test_items_of_a_typed_list_are_stored() -> None:
    async def test(page: Page) -> None:
        first = {"metadata": pod("first")["metadata"], "spec": pod("first")["spec"]}
        text = json.dumps({"apiVersion": "v1", "kind": "PodList", "items": [first]})
        status, (result,) = await page.post("import", {"text": text, "replaces": True})
        assert (status, result["object"], result["isOk"]) == (200, "Pod first", True)

    with_page([node("n1")], test)


def test_custom_resources_replace_the_objects_if_the_text_defines_them() -> None:
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "first"}}
    names_of = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    schema = {"openAPIV3Schema": {"type": "object"}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": names_of,
            "versions": [version],
        },
    }

    async def test(page: Page) -> None:
        text = listed(thing, definition)
        status, results = await page.post("import", {"text": text, "replaces": True})
        assert (status, [result["isOk"] for result in results]) == (200, [True, True]), results
        assert "Node n1" not in await names(page)

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
