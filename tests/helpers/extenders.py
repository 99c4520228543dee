"""Extenders that tests play: in process, so that they run on virtual time, and as they like."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from mooring.config import Extender, KubeSchedulerConfiguration, loads
from mooring.extenders import ExtenderTransport
from mooring.extenders.http import NoResponse
from mooring.testing import make_node
from tests.helpers.running_scheduler import Life

NODES = [make_node(name) for name in "abc"]

Answer = Callable[[dict[str, Any]], Any]


def configured(*extenders: dict[str, Any], **parts: Any) -> KubeSchedulerConfiguration:
    """A configuration with these extenders."""
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": list(extenders),
        **parts,
    }
    return loads(json.dumps(document))


def extender(name: str = "one", *verbs: str, **parts: Any) -> dict[str, Any]:
    """A part of a configuration; its verbs are called as they are."""
    found: dict[str, Any] = {f"{verb}Verb": verb for verb in verbs or ("filter",)}
    if "prioritizeVerb" in found:
        found["weight"] = 1
    return {"urlPrefix": f"http://{name}", "nodeCacheCapable": True, **found, **parts}


class Play:
    """Answers for every extender of a configuration, and notes what was asked.

    Answers are looked up by (extender's name, verb); they get the decoded arguments, and return a
    value that becomes JSON, bytes that are sent as they are, or raise. ``think`` runs before.
    """

    def __init__(self, **answers: Answer) -> None:
        #: (Name, verb, arguments), in order.
        self.asked: list[tuple[str, str, dict[str, Any]]] = []
        self.answers: dict[str, Answer] = dict(answers)
        self.think: Callable[[str, str], Awaitable[None]] | None = None
        self.limits: list[int] = []

    def transport_factory(self, config: Extender) -> ExtenderTransport:
        """The way to one of them."""
        name = config.url_prefix.removeprefix("http://")

        async def post(verb: str, body: bytes, bytes_max: int) -> bytes:
            arguments = json.loads(body)
            self.asked.append((name, verb, arguments))
            self.limits.append(bytes_max)
            if self.think is not None:
                await self.think(name, verb)
            answer = self.answers.get(f"{name}_{verb}", self.answers.get(verb, DEFAULTS[verb]))
            said = answer(arguments)
            return said if isinstance(said, bytes) else json.dumps(said).encode()

        return post

    def verbs(self) -> list[str]:
        """What was asked, in order."""
        return [f"{name}.{verb}" for name, verb, _ in self.asked]


def names_in(arguments: dict[str, Any]) -> list[str]:
    """The nodes that were asked about."""
    if arguments["NodeNames"] is not None:
        return list(arguments["NodeNames"])
    return [node["metadata"]["name"] for node in arguments["Nodes"]["items"]]


def keeps(*wanted: str, **more: Any) -> Answer:
    """Keeps these nodes of those that it is sent."""

    def answer(arguments: dict[str, Any]) -> dict[str, Any]:
        kept = [name for name in names_in(arguments) if name in wanted]
        return {"NodeNames": kept, **more}

    return answer


def scores(**wanted: int) -> Answer:
    """Gives these scores, 0 to all others."""
    return lambda arguments: [
        {"Host": name, "Score": wanted.get(name, 0)} for name in names_in(arguments)
    ]


DEFAULTS: dict[str, Answer] = {
    "filter": lambda arguments: {"NodeNames": names_in(arguments)},
    "prioritize": scores(),
    "preempt": lambda arguments: {"NodeNameToMetaVictims": arguments["NodeNameToMetaVictims"]},
    "bind": lambda _: {"Error": ""},
}


async def posted(life: Life, name: str, **container: Any) -> None:
    """Create a pod by its JSON: with fields that no scheduler reads."""
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "nothing", **container}]},
    }
    body = json.dumps(document).encode()
    await life.client.write("POST", "/api/v1/namespaces/default/pods", body)


def away(_: Any) -> Any:
    raise NoResponse('Post "http://one/filter": no answer in 5 s')
