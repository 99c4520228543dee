"""The order in which statuses are written: nominations of nodes come before all others.

The updates wait while the writer does not run. Those of the same pod are one.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from mooring.apiserver import ApiServer
from mooring.apiserver.auth.authentication import ADMIN
from mooring.client import Client, InProcessTransport
from mooring.clock import Clock, Rng, seeded_random
from mooring.scheduler.status_writer import StatusUpdate, StatusWriter
from mooring.testing import make_pod

PODS: Final = 8
UPDATES: Final = 14
#: The writes take as long as the server, which answers at once.
QUIET_S: Final = 60.0


async def order_problems(rng: Rng, clock: Clock) -> list[str]:
    """Returns the order of the writes if it is wrong."""
    api = ApiServer(clock, seeded_random(rng.randrange(1 << 30)))
    written: list[str] = []

    async def record(method: str, path: str, *rest: Any) -> Any:
        if method == "PATCH":
            written.append(path.split("/")[-2])
        return await api.handle(method, path, *rest)

    client = Client(InProcessTransport(record, headers=ADMIN.headers()), rng=rng)
    writer = StatusWriter(client, clock=clock, rng=seeded_random(rng.randrange(1 << 30)))
    pods = []
    for number in range(PODS):
        await client.create(make_pod(f"pod{number}", uid=""))
        pods.append(await client.get("Pod", f"pod{number}", "default"))
    #: Names, in the order of their first update, and in that of their first node.
    names: dict[str, None] = {}
    urgent: dict[str, None] = {}
    for number in range(UPDATES):
        pod, nominated = rng.choice(pods), rng.choice((None, None, "", "", "node"))
        message = f"reason {number}"
        writer.enqueue(StatusUpdate(pod, "Unschedulable", message, nominated, None))
        names.setdefault(pod.metadata.name)
        if nominated:
            urgent.setdefault(pod.metadata.name)
    task = asyncio.ensure_future(writer.run())
    await asyncio.sleep(QUIET_S)
    task.cancel()
    expected = [*urgent, *(name for name in names if name not in urgent)]
    if written != expected:
        return [f"the statuses of {written} are written, not of {expected}"]
    return []
