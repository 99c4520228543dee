"""Odd patches and bodies: repeated fields, pointers, halves of characters, several documents."""

from __future__ import annotations

from typing import Any

from tests.integration.contract.api import (
    APPLY,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    TABLE,
    Answer,
    Api,
)
from tests.integration.contract.objects import config_map
from tests.integration.contract.scenario import path, scenario

YAML = "application/yaml"


def maps(namespace: str, name: str = "") -> str:
    return path("api/v1", namespace, "configmaps", name)


def managers(answer: Answer) -> list[str]:
    return [entry["manager"] for entry in answer.body["metadata"].get("managedFields", ())]


@scenario
def empty_managed_fields_clear_them(api: Api, ns: str) -> None:
    api.post(maps(ns), config_map("a", x="1"))
    for how in (MERGE, STRATEGIC):
        empties: tuple[Any, ...] = ([], [{}])
        for empty in empties:
            patch: dict[str, Any] = {"metadata": {"managedFields": empty}}
            assert managers(api.patch(maps(ns, "a"), patch, how, dryRun="All")) == []
            patch["data"] = {"y": "1"}
            assert managers(api.patch(maps(ns, "a"), patch, how, dryRun="All")) == []
    others: tuple[Any, ...] = (None, [{}, {}])
    for other in others:
        patch = {"metadata": {"managedFields": other}}
        assert managers(api.patch(maps(ns, "a"), patch, dryRun="All")) == ["unknown"]
    pointer = [{"op": "remove", "path": "/metadata/managedFields/0"}]
    assert managers(api.patch(maps(ns, "a"), pointer, JSON_PATCH, dryRun="All")) == []
    whole = config_map("a", x="2")
    whole["metadata"]["managedFields"] = []
    assert managers(api.put(maps(ns, "a"), whole)) == []
    assert managers(api.post(maps(ns), {**whole, "metadata": {"name": "b"}})) == ["unknown"]


@scenario
def fields_that_a_patch_has_twice_are_named(api: Api, ns: str) -> None:
    api.post(maps(ns), config_map("a", x="1"))
    patch = b'{"data":{"x":"1","x":"2"},"foo":1,"foo":2}'
    for how in (MERGE, STRATEGIC):
        answer = api.patch(maps(ns, "a"), patch, how, dryRun="All")
        assert answer.body["data"] == {"x": "2"}
        api.note("warnings", how, answer.headers["warning"])
        assert (
            "warning"
            not in api.patch(
                maps(ns, "a"), patch, how, dryRun="All", fieldValidation="Ignore"
            ).headers
        )
        strict = api.patch(maps(ns, "a"), patch, how, dryRun="All", fieldValidation="Strict")
        api.notes.pop()  # the message has the object, with its fields in another order
        assert strict.code == 422
        expected = 'duplicate field "data.x", duplicate field "foo", unknown field "foo"'
        assert strict.message.endswith(f"strict decoding error: {expected}")


@scenario
def operations_have_known_members(api: Api, ns: str) -> None:
    api.post(maps(ns), config_map("a", x="1"))
    patch = (
        b'[{"op":"add","op":"add","path":"/data/q","value":"1"},'
        b'{"op":"test","path":"/data/q","value":"1","value":"1","z":1}]'
    )
    answer = api.patch(maps(ns, "a"), patch, JSON_PATCH, dryRun="All")
    assert answer.code == 200
    api.note("warnings", "", answer.headers["warning"])
    strict = api.patch(maps(ns, "a"), patch, JSON_PATCH, fieldValidation="Strict")
    api.notes.pop()
    assert strict.code == 422
    assert 'json patch duplicate field "[0].op"' in strict.message
    assert 'json patch unknown field "[1].z"' in strict.message


@scenario
def pointers_of_a_json_patch_begin_at_their_first_slash(api: Api, ns: str) -> None:
    api.post(maps(ns), config_map("a", x="1"))

    def patched(*operations: Any) -> Answer:
        return api.patch(
            maps(ns, "a"), list(operations), JSON_PATCH, dryRun="All", fieldValidation="Ignore"
        )

    assert patched({"op": "remove", "path": "zz/data/x"}).body.get("data") is None
    copy = {"op": "copy", "from": "q/data/x", "path": "r/data/y"}
    assert patched(copy).body["data"] == {"x": "1", "y": "1"}
    assert patched({"op": "replace", "path": "", "value": config_map("a")}).code == 200
    for refused in (
        {"op": "add", "path": "", "value": {}},
        {"op": "add", "path": "data", "value": {}},
        {"op": "remove", "path": ""},
        {"op": "copy", "from": "", "path": "/data/y"},
        {"op": "move", "from": "/data/x", "path": ""},
        {"op": "test", "path": "", "value": {}},
    ):
        assert patched(refused).code == 422
    assert api.patch(maps(ns, "a"), [1], JSON_PATCH).code == 400


@scenario
def half_a_pair_of_surrogates_is_replaced(api: Api, ns: str) -> None:
    text = rb"\ud83d\ude00 \udc00\\ud800 \uD800x \ud800\ud800\udc00"
    body = b'{"metadata":{"name":"a"},"data":{"k":"' + text + b'"}}'
    stored = api.post(maps(ns), body)
    assert stored.code == 201
    expected = "\U0001f600 \ufffd\\ud800 \ufffdx \ufffd\U00010000"
    assert stored.body["data"] == {"k": expected}
    patched = api.patch(maps(ns, "a"), rb'{"data":{"k":"\udfff"}}')
    assert patched.body["data"] == {"k": "\ufffd"}


@scenario
def the_first_document_counts(api: Api, ns: str) -> None:
    head = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"
    for text in (head + b"---\nb: c\n", b"---\n" + head, head + b"---\n: : :", head + b"...\n"):
        answer = api.ask("POST", maps(ns), text, content_type=YAML, dryRun="All")
        assert answer.code == 201
        api.notes.pop()
        apply = api.patch(maps(ns, "a"), text, APPLY, fieldManager="m", dryRun="All")
        assert apply.code == 201
    for text in (b"---\n---\n" + head, b"null\n---\n" + head):
        assert api.ask("POST", maps(ns), text, content_type=YAML).code == 422
        assert api.patch(maps(ns, "a"), text, APPLY, fieldManager="m").code == 400


@scenario
def what_an_update_creates_has_no_version(api: Api, ns: str) -> None:
    def applied(name: str, **metadata: str) -> Answer:
        whole = config_map(name, x="1")
        whole["metadata"].update(metadata)
        return api.patch(maps(ns, name), whole, APPLY, fieldManager="m")

    assert applied("a", resourceVersion="1").code == 201
    assert applied("b", resourceVersion="x").code == 500
    assert applied("c", uid="u").code == 409
    events = path("api/v1", ns, "endpoints")
    for name, version, code in (("a", "1", 201), ("b", "x", 500)):
        metadata = {"name": name, "resourceVersion": version}
        assert api.put(f"{events}/{name}", {"metadata": metadata}).code == code
    assert api.put(f"{events}/c", {"metadata": {"name": "c", "uid": "u"}}).code == 409
    api.notes.pop()  # the message has a path of etcd


@scenario
def tables_include_what_is_asked_for(api: Api, ns: str) -> None:
    answer = api.ask("GET", maps(ns), accept=TABLE, includeObject="All")
    assert (answer.code, answer.reason) == (400, "BadRequest")


@scenario
def a_weight_of_zero_comes_last(api: Api, ns: str) -> None:
    for accept in ("application/json;q=0", f"{TABLE.partition(',')[0]};q=0, application/json"):
        for url in (maps(ns), "/api/v1/namespaces"):
            answer = api.ask("GET", url, accept=accept, limit="1", fieldSelector="metadata.name=a")
            assert answer.body["kind"] != "Table"
            assert answer.code == 200


@scenario
def too_much_data_is_refused(api: Api, ns: str) -> None:
    big = api.post(maps(ns), config_map("a", x="x" * (1 << 20) + "x"))
    assert big.body["details"]["causes"][0]["field"] == "[]"


@scenario
def operations_are_read_as_go_reads_them(api: Api, namespace: str) -> None:
    metadata = {"name": "a", "finalizers": ["x/a", "x/b", "x/c"]}
    api.post(maps(namespace), {"metadata": metadata, "data": {"a": "1"}})
    at = "/metadata/finalizers/"
    for operation in (
        {"op": "test", "path": f"{at}-1", "value": "x/c"},
        {"op": "test", "path": f"{at}00", "value": "x/a"},
        {"op": "test", "path": f"{at}+1", "value": "x/b"},
        {"op": "test", "path": f"{at}-4", "value": "x/b"},
        {"op": "test", "path": f"{at}3", "value": "x/b"},
        {"op": "test", "path": f"{at}x", "value": "x/b"},
        {"op": "test", "path": "/data/b", "value": None},
        {"op": "test", "path": "/data/b"},
        {"op": "test", "path": "/data/b", "value": "1"},
        {"op": "test", "path": "/data/a", "value": None},
        {"op": "test", "path": "/data/a"},
        {"op": "remove", "path": "/data/b"},
        {"op": "replace", "path": f"{at}-1", "value": "x/d"},
        {"op": "add", "path": f"{at}-1", "value": "x/e"},
        {"op": "add", "path": f"{at}-2", "value": "x/f"},
        {"op": "add", "path": f"{at}01", "value": "x/g"},
        {"op": "add", "path": f"{at}-9", "value": "x/g"},
        {"op": "remove", "path": f"{at}-1"},
        {"op": "remove", "path": f"{at}+0"},
        {"op": "copy", "from": f"{at}-1", "path": "/data/c"},
        {"op": "add", "path": "/data"},
        {"op": 1, "path": "/data/a", "value": "1"},
        {"op": "add", "path": 1, "value": "1"},
        {"op": "copy", "from": [], "path": "/data/a"},
    ):
        answer = api.patch(maps(namespace, "a"), [operation], JSON_PATCH)
        api.notes.pop()
        message = None if answer.code == 422 else answer.message  # the words are the library's
        content = answer.body.get("data"), answer.body["metadata"].get("finalizers")
        api.note("patch", answer.code, (operation, message, content))
    api.patch(maps(namespace, "a"), {"metadata": {"finalizers": None}}, MERGE)
