"""Scripted extenders in process, on virtual time."""

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
    """Returns a configuration with these extenders."""
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": list(extenders),
        **parts,
    }
    return loads(json.dumps(document))


def extender(name: str = "one", *verbs: str, **parts: Any) -> dict[str, Any]:
    """Returns the configuration of an extender; the paths are the verbs."""
    document: dict[str, Any] = {f"{verb}Verb": verb for verb in verbs or ("filter",)}
    if "prioritizeVerb" in document:
        document["weight"] = 1
    return {"urlPrefix": f"http://{name}", "nodeCacheCapable": True, **document, **parts}


class Play:
    """Handles the requests to all extenders of a configuration, and records them.

    Handlers are looked up by (extender's name, verb); they get the decoded arguments, and return a
    value that becomes JSON, or bytes, or raise. ``think`` runs before.
    """

    def __init__(self, **answers: Answer) -> None:
        #: (Name, verb, arguments), in order.
        self.asked: list[tuple[str, str, dict[str, Any]]] = []
        self.answers: dict[str, Answer] = dict(answers)
        self.think: Callable[[str, str], Awaitable[None]] | None = None
        self.limits: list[int] = []

    def transport_factory(self, config: Extender) -> ExtenderTransport:
        """Returns the transport to one extender."""
        name = config.url_prefix.removeprefix("http://")

        async def post(verb: str, body: bytes, bytes_max: int) -> bytes:
            arguments = json.loads(body)
            self.asked.append((name, verb, arguments))
            self.limits.append(bytes_max)
            if self.think is not None:
                await self.think(name, verb)
            answer = self.answers.get(f"{name}_{verb}", self.answers.get(verb, DEFAULTS[verb]))
            result = answer(arguments)
            return result if isinstance(result, bytes) else json.dumps(result).encode()

        return post

    def verbs(self) -> list[str]:
        """Returns the calls, in order."""
        return [f"{name}.{verb}" for name, verb, _ in self.asked]


def names_in(arguments: dict[str, Any]) -> list[str]:
    """Returns the names of the nodes in a request."""
    if arguments["NodeNames"] is not None:
        return list(arguments["NodeNames"])
    return [node["metadata"]["name"] for node in arguments["Nodes"]["items"]]


def keeps(*names: str, **more: Any) -> Answer:
    """Returns a filter that accepts only these nodes."""

    def answer(arguments: dict[str, Any]) -> dict[str, Any]:
        feasible = [name for name in names_in(arguments) if name in names]
        return {"NodeNames": feasible, **more}

    return answer


def scores(**by_name: int) -> Answer:
    """Returns a prioritize handler with these scores, 0 for all other nodes."""
    return lambda arguments: [
        {"Host": name, "Score": by_name.get(name, 0)} for name in names_in(arguments)
    ]


DEFAULTS: dict[str, Answer] = {
    "filter": lambda arguments: {"NodeNames": names_in(arguments)},
    "prioritize": scores(),
    "preempt": lambda arguments: {"NodeNameToMetaVictims": arguments["NodeNameToMetaVictims"]},
    "bind": lambda _: {"Error": ""},
}


async def posted(life: Life, name: str, **container: Any) -> None:
    """Creates a pod from JSON, with fields that the scheduler does not decode."""
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
