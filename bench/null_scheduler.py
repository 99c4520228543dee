"""A scheduler that decides nothing: the ceiling that no scheduler written with our client can pass.

It binds pending pods to nodes in turn, so many at a time, and if asked writes an event for each as
a scheduler does.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import signal

from mooring.client import Client, Informer, ObjectChange, Recorder
from mooring.client.transport.auth import connect
from mooring.client.transport.kubeconfig import find_access
from mooring.clock import SystemClock, seeded_random
from mooring.event_loop import fresh_seed, loop_factory

IN_FLIGHT = 64


async def run(kubeconfig: str, *, events: bool) -> None:
    """Bind until it is told to stop."""
    clock, rng = SystemClock(), seeded_random(fresh_seed())
    access = find_access(kubeconfig, environment=os.environ)
    transport = connect(access, clock=clock, environment=os.environ)
    client = Client(transport, rng=rng)
    recorder = Recorder(client, controller="null", instance="null", clock=clock, rng=rng)
    pending: asyncio.Queue[object] = asyncio.Queue()
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)

    def on_pod(change: ObjectChange) -> None:
        if change.old is None and change.new is not None and not change.new.spec.node_name:
            pending.put_nowait(change.new)

    nodes = Informer(client, "Node", lambda _: None, clock=clock, rng=rng)
    pods = Informer(client, "Pod", on_pod, clock=clock, rng=rng)

    async def bind() -> None:
        while True:
            pod = await pending.get()
            name = next(turn)
            await client.bind(pod, name)  # type: ignore[arg-type]
            if events:
                note = f"assigned to {name}"
                recorder.record(
                    pod,  # type: ignore[arg-type]
                    type="Normal",
                    reason="Scheduled",
                    action="Binding",
                    note=note,
                )

    async with asyncio.TaskGroup() as tasks:
        works = [nodes.run(), recorder.run()]
        running = [tasks.create_task(work) for work in works]
        await nodes.wait_until_synced()
        turn = itertools.cycle(list(nodes.objects))
        running += [tasks.create_task(pods.run())]
        running += [tasks.create_task(bind()) for _ in range(IN_FLIGHT)]
        await stopped.wait()
        for task in running:
            task.cancel()
    await transport.close()


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--events", action="store_true")
    words = parser.parse_args()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(run(words.kubeconfig, events=words.events))


if __name__ == "__main__":
    main()
