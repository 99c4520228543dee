"""Requests as clients in Go send them: protobuf, timeouts, and keys that stand twice."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.helpers.protobuf_bodies import DEFINITION, DELETE_OPTIONS
from tests.integration.contract.api import APPLY, JSON_PATCH, MERGE, Answer, Api
from tests.integration.contract.scenario import path, scenario
from tests.integration.contract.scenarios_customs import (
    DEFINITIONS,
    GROUP,
    custom,
    definition,
    install,
    remove,
)

PROTOBUF = "application/vnd.kubernetes.protobuf"
YAML = "application/yaml"
_WAIT_S_MAX = 20.0


def maps(namespace: str, name: str = "") -> str:
    return path("api/v1", namespace, "configmaps", name)


def until(api: Api, ask: Callable[[], Answer], holds: Callable[[Answer], bool]) -> Answer:
    """Asks until an answer is as it must become, and notes only that one."""
    noted = len(api.notes)
    deadline = time.monotonic() + _WAIT_S_MAX
    while True:
        del api.notes[noted:]
        answer = ask()
        if holds(answer) or time.monotonic() > deadline:
            return answer
        time.sleep(0.05)


@scenario
def a_timeout_must_be_a_duration(api: Api, ns: str) -> None:
    for text in ("x", "5", "5x", "1h-2m", "-", "", "0s", "-1s", "10s", "1h1m1.5s"):
        api.get(maps(ns), timeout=text)
        api.post(maps(ns), {"metadata": {"name": "a"}}, timeout=text, dryRun="All")
    assert api.get("/apis", timeout="x").code == 400
    assert api.get("/healthz", timeout="x").code == 400
    with api.watch(maps(ns), timeout="x", timeoutSeconds="1"):
        pass


@scenario
def keys_that_stand_twice_are_told_in_the_order_of_the_text(api: Api, ns: str) -> None:
    body = (
        b'{"metadata":{"name":"a","labels":{"l":"1","l":"2"}},"odd":{"in":1,"in":2},'
        b'"data":{"k":"1","k":"2"},"data":{"k":"3"},"odd":1,"immutable":false,"other":2}'
    )
    for mode in ("Strict", "Warn", "Ignore"):
        answer = api.ask("POST", maps(ns), body, fieldValidation=mode, dryRun="All")
        api.note("warning", mode, answer.headers.get("warning"))


@scenario
def yaml_may_have_aliases_and_merge_keys(api: Api, ns: str) -> None:
    lead = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: &l {m: x, k: z}}\n"
    for data in (
        b"data: *l\n",
        b"data: {<<: *l}\n",
        b"data:\n  <<: *l\n  o: p\n",
        b"data: {<<: [*l, {k: w, q: r}]}\n",
    ):
        api.ask("POST", maps(ns), lead + data, content_type=YAML, dryRun="All")
    answer = api.ask("POST", maps(ns), lead + b"data: {<<: *l}\n", content_type=YAML)
    assert answer.body["data"] == {"m": "x", "k": "z"}


@scenario
def keys_of_yaml_that_stand_twice_are_told_with_their_lines(api: Api, ns: str) -> None:
    lead = b"\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
    bodies = (
        lead + b"data:\n  k: '1'\n  k: '2'\n",
        lead + b"data:\n  k: '1'\ndata:\n  m: '2'\n  m:\n    '3'\nodd: 1\n",
    )
    for body in bodies:
        for mode in ("Strict", "Warn", "Ignore"):
            query = {"fieldValidation": mode, "dryRun": "All"}
            answer = api.ask("POST", maps(ns), body, content_type=YAML, **query)
            api.note("warning", mode, answer.headers.get("warning"))
            query["fieldManager"] = "m"
            answer = api.ask("PATCH", maps(ns, "a"), body, content_type=APPLY, **query)
            api.note("warning", mode, answer.headers.get("warning"))


@scenario
def definitions_come_and_go_as_protobuf(api: Api, ns: str) -> None:
    name = "widgets.example.com"
    created = api.ask("POST", DEFINITIONS, DEFINITION, content_type=PROTOBUF)
    assert created.code == 201
    api.notes.clear()
    # The real server writes the status in the background: the spec is what was sent.
    api.note("spec", "", created.body["spec"])
    url = f"{DEFINITIONS}/{name}"
    deleted = api.ask("DELETE", url, DELETE_OPTIONS, content_type=PROTOBUF)
    assert deleted.code == 200
    until(api, lambda: api.get(url), lambda answer: answer.code == 404)
    api.notes[1:] = []


@scenario
def finalizers_of_custom_objects_need_no_domain(api: Api, ns: str) -> None:
    install(api, definition("finals"))
    try:
        finals = path(f"apis/{GROUP}/v1", ns, "finals")
        for names in (["a"], ["b.c"], ["d/e"], ["f g"], ["orphan"], ["z", "a"]):
            body = custom("Final", "x")
            body["metadata"]["finalizers"] = names
            answer = api.post(finals, body, dryRun="All")
            api.note("warning", names, answer.headers.get("warning"))
        api.post(finals, custom("Final", "y"))
        for names in (["a"], ["a", "b.c"], ["a"], []):
            change = {"metadata": {"finalizers": names}}
            answer = api.patch(f"{finals}/y", change, MERGE)
            api.note("warning", names, answer.headers.get("warning"))
        wrong = {"metadata": {"name": "m", "finalizers": ["a"]}}
        assert api.post(maps(ns), wrong, dryRun="All").code == 422
    finally:
        remove(api, "finals")


@scenario
def objects_are_read_by_the_schema_of_today(api: Api, ns: str) -> None:
    install(api, definition("readers"))
    try:
        readers = path(f"apis/{GROUP}/v1", ns, "readers")
        api.post(readers, custom("Reader", "a", {"size": 1, "note": "n"}))
        schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties"
        change = [
            {"op": "add", "path": f"{schema}/extra", "value": {"type": "string", "default": "x"}},
            {"op": "remove", "path": f"{schema}/note"},
        ]
        patched = api.ask(
            "PATCH", f"{DEFINITIONS}/readers.{GROUP}", change, content_type=JSON_PATCH
        )
        assert patched.code == 200
        del api.notes[-1]
        read = until(
            api, lambda: api.get(f"{readers}/a"), lambda answer: "extra" in answer.body["spec"]
        )
        assert read.body["spec"] == {"size": 1, "color": "red", "extra": "x"}
        assert api.get(readers).body["items"][0]["spec"]["extra"] == "x"
        # It is stored so with the next write.
        api.patch(f"{readers}/a", {"metadata": {"labels": {"l": "1"}}}, MERGE)
        api.get(f"{readers}/a")
    finally:
        remove(api, "readers")


@scenario
def what_an_update_leaves_as_it_was_is_not_refused(api: Api, ns: str) -> None:
    install(api, definition("ratchets"))
    try:
        ratchets = path(f"apis/{GROUP}/v1", ns, "ratchets")
        parts = [{"name": "a", "count": 1}, {"name": "b", "count": 2}]
        api.post(ratchets, custom("Ratchet", "r", {"size": 5, "tags": ["x"], "parts": parts}))
        properties = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties"
        change = [
            {"op": "replace", "path": f"{properties}/size/maximum", "value": 4},
            {"op": "add", "path": f"{properties}/tags/items/enum", "value": ["y"]},
            {
                "op": "add",
                "path": f"{properties}/parts/items/properties/count/maximum",
                "value": 1,
            },
        ]
        patched = f"{DEFINITIONS}/ratchets.{GROUP}"
        assert api.ask("PATCH", patched, change, content_type=JSON_PATCH).code == 200
        del api.notes[-1]
        until(
            api,
            lambda: api.post(ratchets, custom("Ratchet", "n", {"size": 5}), dryRun="All"),
            lambda answer: answer.code == 422,
        )
        url = f"{ratchets}/r"
        for spec in (
            None,
            {"color": "blue"},
            {"size": 6},
            {"tags": ["x", "x"]},
            {"parts": [{"name": "b", "count": 2}, {"name": "a", "count": 1}]},
            {"parts": [{"name": "a", "count": 3}, {"name": "b", "count": 2}]},
            {"parts": [{"name": "c", "count": 2}]},
            {"size": None},
        ):
            change_of = {"metadata": {"labels": {"l": "1"}}} if spec is None else {"spec": spec}
            api.patch(url, change_of, MERGE, dryRun="All")
    finally:
        remove(api, "ratchets")
