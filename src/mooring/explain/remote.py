"""Reads an explanation from a running mooring, or the objects of its cluster, once."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from mooring.client import Client
from mooring.client.transport.auth import connect
from mooring.client.transport.kubeconfig import Access
from mooring.client.transport.transport import Request
from mooring.clock import Clock, Rng
from mooring.errors import ConfigError, OutcomeUnknown, Unreachable
from mooring.explain.explain import DEFAULTS, Options
from mooring.explain.running import ALL, ALL_NODES, EXPLAIN_PATH, NODE
from mooring.simulation.inputs.live_cluster import list_objects, not_reached
from mooring.simulation.workload import Workload, workload_of

EXPLAIN_DEADLINE_S: Final = 30.0

#: The default of ``mooring run --secure-port``, on this machine.
DEFAULT_URL: Final = "https://127.0.0.1:10259"

_NO_POD: Final = ("no pod ", "several pods ", "no node ")


class SchedulerNotAsked(ConfigError):
    """A running mooring could not be asked."""


class RemoteExplanation:
    """The response of an API server: a running mooring's explanation, or the objects.

    Attributes:
        explanation: The text of a running mooring; None if none runs there.
        workload: The cluster; None if there is an explanation.
        not_listed: Kind -> why it could not be listed.
        not_asked: Why no running mooring explains; "" = one does.
    """

    def __init__(self) -> None:
        self.explanation: str | None = None
        self.workload: Workload | None = None
        self.not_listed: dict[str, str] = {}
        self.not_asked = ""


@dataclass(frozen=True)
class SchedulerAddress:
    """The address of a running mooring's pages.

    Attributes:
        url: ``https://HOST:PORT``; None = the default port of this machine, if one answers there.
        authority: The file of the CA of its certificate; None = that of the kubeconfig, and on the
            default port any certificate, unless a token would be sent.
        is_unverified: Whether its certificate is not verified.
    """

    url: str | None = None
    authority: Path | None = None
    is_unverified: bool = False

    def access(self, access: Access) -> Access:
        """Returns the identity of a kubeconfig at this address."""
        own = replace(access.at(self.url or DEFAULT_URL), server_name=None, proxy=None)
        if self.is_unverified:
            return replace(own, authority=None, is_unverified=True)
        if self.authority is not None:
            return replace(own, authority=self.authority, is_unverified=False)
        if self.url is None:
            # Who listens there is unknown: a certificate proves who we are without giving it away.
            return replace(
                own,
                authority=None,
                is_unverified=True,
                warns_unverified=False,
                token=None,
                token_file=None,
                plugin=None,
            )
        return own


async def fetch(
    access: Access,
    pod: str,
    *,
    scheduler: SchedulerAddress | None = None,
    as_json: bool = False,
    options: Options = DEFAULTS,
    clock: Clock,
    rng: Rng,
    kinds: Iterable[str] = (),
) -> RemoteExplanation:
    """Requests an explanation from a running mooring; without one, lists the objects.

    The mooring behind the API server is asked first (``mooring start``), then the one at
    ``scheduler`` (``mooring run``). ``kinds`` are those that plugins list: names of resources.

    Raises:
        ConfigError: there is no such pod, or the API server is unreachable or denies access.
    """
    remote, request = RemoteExplanation(), _request(pod, as_json, options)
    scheduler = scheduler or SchedulerAddress()
    transport = connect(access, clock=clock, environment=os.environ)
    try:
        client = Client(transport, rng=rng)
        try:
            remote.explanation = await _ask(
                client, access, scheduler, request, as_json=as_json, clock=clock
            )
        except SchedulerNotAsked as error:
            if scheduler.url is not None:
                raise
            remote.not_asked = f"{error}; decided here instead"
        if remote.explanation is not None and is_about_bound_pod(remote.explanation):
            remote.not_asked = (
                "a running scheduler does not decide again about a pod on a node; decided here,"
                " with the default configuration or that of --config"
            )
        if remote.not_asked:
            listed = await list_objects(access, clock=clock, rng=rng, kinds=kinds, workloads=())
            remote.not_listed = listed.not_listed
            remote.workload = workload_of(access.server, listed.objects)
    except (Unreachable, OutcomeUnknown) as error:
        raise not_reached(access, error) from error
    finally:
        await transport.close()
    return remote


async def fetch_node_rejections(
    access: Access, node: str, *, scheduler: SchedulerAddress, clock: Clock, rng: Rng
) -> str:
    """Returns the ``NodeRejections`` of a running mooring, as JSON.

    Raises:
        SchedulerNotAsked: no mooring answers, or it denies access, or stands by.
        ConfigError: there is no such node, or the API server is unreachable.
    """
    query = [(NODE, node), ("output", "json")]
    request = Request("GET", EXPLAIN_PATH, deadline_s=EXPLAIN_DEADLINE_S, query=query)
    transport = connect(access, clock=clock, environment=os.environ)
    try:
        client = Client(transport, rng=rng)
        return await _ask(client, access, scheduler, request, as_json=True, clock=clock)
    except (Unreachable, OutcomeUnknown) as error:
        raise not_reached(access, error) from error
    finally:
        await transport.close()


_ON_NODE: Final = re.compile(r"Pod \S+ is on \S+\.")


def is_about_bound_pod(explanation: str) -> bool:
    """Returns whether a running scheduler replied that the pod is on a node, as text or JSON."""
    text = explanation.strip()
    if text.startswith("{"):
        text = str(msgspec.json.decode(text).get("note", ""))
    return _ON_NODE.fullmatch(text) is not None


async def _ask(
    client: Client,
    access: Access,
    scheduler: SchedulerAddress,
    request: Request,
    *,
    as_json: bool,
    clock: Clock,
) -> str:
    """Returns the text of the mooring behind the API server, or of the one at ``scheduler``.

    Raises:
        ConfigError: there is no such object.
        SchedulerNotAsked: no mooring answers, or it denies access, or stands by.
    """
    text = None
    if scheduler.url is None:
        text = await _request_explanation(client, request, as_json)
    return text if text is not None else await _ask_scheduler(scheduler, access, request, clock)


async def _ask_scheduler(
    scheduler: SchedulerAddress, access: Access, request: Request, clock: Clock
) -> str:
    """Returns the explanation of the mooring at this address.

    Raises:
        ConfigError: there is no such pod.
        SchedulerNotAsked: no mooring answers there, or it denies access, or stands by.
    """
    own = scheduler.access(access)
    transport = connect(own, clock=clock, environment=os.environ)
    try:
        response = await transport.request(request)
    except (Unreachable, OutcomeUnknown) as error:
        raise SchedulerNotAsked(f"no mooring can be reached at {own.server}: {error}") from error
    finally:
        await transport.close()
    text = response.body.decode("utf-8", "replace").rstrip("\n")
    if response.status == 200:
        return text
    if text.startswith(_NO_POD):
        raise ConfigError(text)
    if response.status == 404:
        raise SchedulerNotAsked(f"the server at {own.server} is not a mooring")
    raise SchedulerNotAsked(f"{own.server} replied {response.status}: {_message_of(text)}")


def _message_of(text: str) -> str:
    """Returns the message of a Status, or the text itself."""
    try:
        return str(msgspec.json.decode(text)["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return text


def _request(pod: str, as_json: bool, options: Options) -> Request:
    words = {
        "output": "json" if as_json else "",
        ALL: "true" if options.has_all_rejections else "",
        ALL_NODES: "true" if options.has_all_nodes else "",
    }
    query = [("pod", pod), *((word, value) for word, value in words.items() if value)]
    return Request("GET", EXPLAIN_PATH, deadline_s=EXPLAIN_DEADLINE_S, query=query)


async def _request_explanation(client: Client, request: Request, as_json: bool) -> str | None:
    response = await client.transport.request(request)
    content_type = response.headers.get("content-type", "")
    is_ours = content_type.startswith("text/plain")
    text = response.body.decode("utf-8", "replace")
    if response.status == 200 and (is_ours or as_json):
        return text
    if is_ours and response.status in (404, 409) and text.startswith(_NO_POD):
        raise ConfigError(text)
    return None
