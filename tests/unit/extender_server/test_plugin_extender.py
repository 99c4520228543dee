"""An extender made of plugins: what kube-scheduler sends, and what it gets back."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from mooring.clock import VirtualClock
from mooring.errors import ConfigError, Unreachable
from mooring.extender_server.plugin_extender import Extender
from mooring.framework import NodeInfo, Reject, Status, per_node
from mooring.objects.codec.decode import to_builtins
from mooring.objects.pod import Pod
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import make_node, make_pod


class Picky:
    """Refuses "b" for now and "c" for ever; likes what has few pods."""

    name = "Picky"

    @per_node
    def filter(self, pod: PodInfo, node: NodeInfo) -> Status | None:
        if node.name == "c":
            return Reject("is c", "and always will be", resolvable=False)
        return Reject("is b") if node.name == "b" else None

    @per_node
    def score(self, pod: PodInfo, node: NodeInfo) -> int:
        return {"a": 100, "b": 44, "c": 45}[node.name] - 10 * node.pod_count


class Alone:
    """No two pods on a node."""

    name = "Alone"

    @per_node
    def filter(self, pod: PodInfo, node: NodeInfo) -> Status | None:
        return Reject("is taken") if node.pod_count else None


class Breaks:
    name = "Breaks"

    @per_node
    def filter(self, pod: PodInfo, node: NodeInfo) -> Status | None:
        raise RuntimeError("oh")


def ask(extender: Extender, verb: str, **arguments: Any) -> Any:
    answer = asyncio.run(extender.answer(verb, msgspec.json.encode(arguments)))
    return msgspec.json.decode(answer)


def extender(*plugins: Any, **more: Any) -> Extender:
    return Extender(plugins or [Picky()], clock=VirtualClock(), **more)


POD = to_builtins(make_pod("web"))
NODES = {"items": [to_builtins(make_node(name)) for name in "abc"]}


def cluster(*pods: Pod) -> Cache:
    cache = Cache()
    for name in "abc":
        cache.put_node(make_node(name))
    for pod in pods:
        cache.put_pod(pod)
    return cache


def test_filter_gives_the_nodes_back_as_they_were_sent() -> None:
    found = ask(extender(), "filter", Pod=POD, Nodes=NODES)

    assert found == {
        "Nodes": {"metadata": {}, "items": [NODES["items"][0]]},
        "NodeNames": None,
        "FailedNodes": {"b": "is b"},
        "FailedAndUnresolvableNodes": {"c": "is c,and always will be"},
        "Error": "",
    }


def test_filter_takes_names_and_the_spelling_of_old() -> None:
    found = ask(extender(), "filter", pod=POD, nodenames=["c", "a", "b"])

    assert found["NodeNames"] == ["a"]
    assert found["Nodes"] is None


def test_a_null_list_of_the_other_form_does_not_matter() -> None:
    assert ask(extender(), "filter", Pod=POD, Nodes=None, NodeNames=["a"])["NodeNames"] == ["a"]
    assert ask(extender(), "filter", Pod=POD, Nodes=NODES, NodeNames=None)["Nodes"]["items"]


def test_a_cluster_of_its_own_says_what_is_on_the_nodes() -> None:
    served = extender(Alone(), cluster=cluster(make_pod("other", node="a")))

    found = ask(served, "filter", Pod=POD, NodeNames=["a", "b", "z"])

    assert found["NodeNames"] == ["b"]
    assert found["FailedNodes"] == {"a": "is taken", "z": "node is not known to the extender"}


def test_a_pod_that_comes_meanwhile_counts() -> None:
    known = cluster()
    served = extender(Alone(), cluster=known)
    assert ask(served, "filter", Pod=POD, NodeNames=["a"])["NodeNames"] == ["a"]
    known.put_pod(make_pod("other", node="a"))
    assert ask(served, "filter", Pod=POD, NodeNames=["a"])["NodeNames"] == []


def test_prioritize_rounds_to_tenths() -> None:
    assert ask(extender(), "prioritize", Pod=POD, Nodes=NODES) == [
        {"Host": "a", "Score": 10},
        {"Host": "b", "Score": 4},
        {"Host": "c", "Score": 5},
    ]


def test_without_a_score_plugin_every_node_has_0() -> None:
    assert ask(extender(Alone()), "prioritize", Pod=POD, NodeNames=["a"]) == [
        {"Host": "a", "Score": 0}
    ]


def test_preempt_keeps_the_nodes_where_it_helps() -> None:
    on_a, on_b = make_pod("on-a", node="a"), make_pod("on-b", node="b")
    served = extender(Alone(), cluster=cluster(on_a, on_b, make_pod("too", node="b")))
    victims = {
        "a": {"Pods": [{"UID": on_a.metadata.uid}], "NumPDBViolations": 1},
        "b": {"Pods": [{"UID": on_b.metadata.uid}]},
        "z": {"Pods": []},
    }

    found = ask(served, "preempt", Pod=POD, NodeNameToMetaVictims=victims)

    assert found == {"NodeNameToMetaVictims": {"a": victims["a"]}}


def test_preempt_takes_whole_victims_and_agrees_without_a_cluster() -> None:
    victim = to_builtins(make_pod("low", node="a"))
    asked = {"a": {"Pods": [victim], "NumPDBViolations": 0}}

    found = ask(extender(), "preempt", Pod=POD, NodeNameToVictims=asked)

    only = {"Pods": [{"UID": victim["metadata"]["uid"]}], "NumPDBViolations": 0}
    assert found == {"NodeNameToMetaVictims": {"a": only}}


def test_bind_is_handed_on_with_the_uid() -> None:
    bound = []

    async def bind(pod: Pod, node: str) -> None:
        bound.append((pod.metadata.namespace, pod.metadata.name, pod.metadata.uid, node))

    order = {"PodName": "web", "PodNamespace": "shop", "PodUID": "u", "Node": "a"}

    assert ask(extender(bind=bind), "bind", **order) == {"Error": ""}
    assert bound == [("shop", "web", "u", "a")]
    assert "does not bind" in ask(extender(), "bind", **order)["Error"]


def test_a_binding_that_is_refused_says_so() -> None:
    async def bind(pod: Pod, node: str) -> None:
        raise Unreachable("nobody answers")

    order = {"PodName": "web", "PodNamespace": "shop", "PodUID": "u", "Node": "a"}
    assert "nobody answers" in ask(extender(bind=bind), "bind", **order)["Error"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "body: is no JSON"),
        (b"[1]", "body: must be an object"),
        (b"{}", "Pod: must be an object"),
        (b'{"Pod": {"metadata": {"name": "x"}}}', "neither Nodes nor NodeNames"),
        (b'{"Pod": {}, "NodeNames": []}', "Pod.metadata.name: must not be empty"),
        (
            b'{"Pod": {"metadata": {"name": "x"}}, "NodeNames": [1]}',
            "NodeNames[0]: must be a string",
        ),
        (
            b'{"Pod": {"metadata": {"name": "x"}}, "Nodes": {"items": [{}]}}',
            "Nodes.items[0].metadata.name: must be a string",
        ),
        (b'{"Pod": {"spec": 5}, "NodeNames": []}', "Pod.spec"),
        (b'{"Pod": ' + b"[" * 100_000, "body: is no JSON"),
    ],
)
def test_what_cannot_be_read_is_reported(body: bytes, told: str) -> None:
    found = msgspec.json.decode(asyncio.run(extender().answer("filter", body)))
    assert told in found["Error"]
    assert found["Nodes"] is None
    assert found["NodeNames"] is None
    with pytest.raises(ConfigError):
        asyncio.run(extender().answer("prioritize", body))


@pytest.mark.parametrize("metadata", [5, "x", [5], True])
def test_a_victim_without_metadata_is_reported(metadata: Any) -> None:
    victims = {"a": {"Pods": [{"metadata": metadata}]}}
    body = msgspec.json.encode({"Pod": POD, "NodeNameToVictims": victims})
    with pytest.raises(ConfigError, match="metadata: must be an object"):
        asyncio.run(extender().answer("preempt", body))


def test_a_plugin_that_fails_is_named() -> None:
    found = ask(extender(Breaks()), "filter", Pod=POD, NodeNames=["a"])
    assert found["Error"] == 'running "Breaks" filter plugin: RuntimeError: oh'


def test_a_plugin_must_have_something_to_say() -> None:
    class Idle:
        name = "Idle"

        def permit(self, cycle: Any, node_name: str) -> None:
            return None

    with pytest.raises(ConfigError, match="neither filters nor scores, got 'Idle'"):
        extender(Idle())
