"""Requests of a client to a scripted server, with the waits between retries recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from mooring.client.rest.client import Client
from mooring.client.rest.fence import Fence, no_fence
from mooring.clock import seeded_random
from mooring.errors import OutcomeUnknown, Unreachable
from mooring.objects import ObjectMeta, Pod
from tests.helpers.client_servers import Script, Sleeper

POD = {"metadata": {"name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": "5"}}
WEB = Pod(metadata=ObjectMeta(name="web", namespace="shop", uid="u1", resource_version="5"))
UNKNOWN = OutcomeUnknown("no answer")
NOWHERE = Unreachable("refused")


def run(
    script: Script,
    ask: Callable[[Client], Awaitable[Any]],
    *,
    fence: Fence = no_fence,
) -> tuple[Any, list[float]]:
    """Returns the result of a request, and the waits before its retries in seconds."""
    sleeper = Sleeper()
    client = Client(script, rng=seeded_random(1), fence=fence, sleep=sleeper)

    async def main() -> Any:
        return await ask(client)

    return asyncio.run(main()), sleeper.waits_s
