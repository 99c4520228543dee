"""Decides the pods of a cluster under another configuration, in a process of its own.

The scheduler and the page go on meanwhile. One such process runs at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Mapping
from typing import Final

import msgspec

#: Which pods are decided: those without a node, or all.
SCOPES: Final = ("pending", "all")
#: Bytes of a line of the process: its result is one line.
_LINE_BYTES_MAX: Final = 64 << 20


class Request(msgspec.Struct):
    """The first line of the process's input; the objects follow as one JSON list.

    Attributes:
        before: The configuration in effect, YAML.
        after: The other one.
        scope: One of ``SCOPES``.
        plugins: Further plugins, as ``module:attribute``.
        seed: The random seed of both.
        gates: The feature gates whose value is not the default.
    """

    before: str
    after: str
    scope: str
    plugins: tuple[str, ...] = ()
    seed: int = 0
    gates: Mapping[str, bool] = {}


class WhatIfRow(msgspec.Struct, rename="camel", omit_defaults=True):
    """One pod. A node is "" if there is none.

    Attributes:
        pod: "namespace/name".
        node: Its node in the cluster.
        before: Its node under the configuration in effect.
        after: Its node under the other one.
        reason: Why it has no node under the other one, or under that in effect.
        differs: Whether ``before`` and ``after`` differ.
    """

    pod: str
    node: str = ""
    before: str = ""
    after: str = ""
    reason: str = ""
    differs: bool = False


class WhatIfResult(msgspec.Struct, rename="camel"):
    """The decisions under both configurations.

    Attributes:
        pods: The number of pods.
        placed_before: Those with a node under the configuration in effect.
        placed_after: Those with a node under the other one.
        evicted_before: Pods evicted by preemption under the configuration in effect.
        evicted_after: The same under the other one.
        differing: Pods whose node differs.
        rows: The pods that differ first, then the others by name; at most ``ROWS_MAX``.
        notes: The parts of the input that are ignored.
    """

    pods: int
    placed_before: int
    placed_after: int
    evicted_before: int
    evicted_after: int
    differing: int
    rows: list[WhatIfRow]
    notes: list[str] = []


class Line(msgspec.Struct, omit_defaults=True):
    """One line of the process's output: its progress, an error, or the result."""

    done: int = 0
    total: int = 0
    problem: str = ""
    result: WhatIfResult | None = None


class WhatIfStatus(msgspec.Struct, rename="camel", omit_defaults=True):
    """The progress of a what-if run.

    Attributes:
        state: ``none``, ``running``, ``done``, ``failed`` or ``cancelled``.
        done: Pods that were decided, under both configurations together.
        total: The number of them.
        problem: Why it failed.
        result: The result, if it is done.
    """

    state: str = "none"
    done: int = 0
    total: int = 0
    problem: str = ""
    result: WhatIfResult | None = None


class WhatIf:
    """Runs the process, and reads its output."""

    def __init__(self) -> None:
        self._status = WhatIfStatus()
        self._group: asyncio.TaskGroup | None = None
        self._task: asyncio.Task[None] | None = None

    def open(self, group: asyncio.TaskGroup) -> None:
        """Lets processes be followed by tasks of a group."""
        self._group = group

    def status(self) -> WhatIfStatus:
        """Returns how far it is."""
        return self._status

    async def begin(self, request: Request, objects: bytes) -> None:
        """Starts a process; one that runs is cancelled."""
        await self.cancel()
        assert self._group is not None
        data = msgspec.json.encode(request) + b"\n" + objects
        self._status = WhatIfStatus("running")
        self._task = self._group.create_task(self._run(data))

    async def cancel(self) -> None:
        """Ends the process, if one runs."""
        task, self._task = self._task, None
        if task is not None and not task.done():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            self._status = WhatIfStatus("cancelled")

    async def _run(self, data: bytes) -> None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "mooring.ui.what_if_process"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_LINE_BYTES_MAX,
            # Modules of plugins come from where they came from in this process.
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        try:
            await self._exchange(process, data)
            code = await process.wait()
            if self._status.state == "running":
                problem = f"its process ended with exit code {code}: see the output of mooring"
                self._status = WhatIfStatus("failed", problem=problem)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _exchange(self, process: asyncio.subprocess.Process, data: bytes) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(ConnectionError):  # then its output says why
            process.stdin.write(data)
            await process.stdin.drain()
            process.stdin.close()
        async for text in process.stdout:
            line = msgspec.json.decode(text, type=Line)
            status = self._status
            status.done, status.total = max(status.done, line.done), max(status.total, line.total)
            if line.problem:
                status.state, status.problem = "failed", line.problem
            elif line.result is not None:
                status.state, status.result = "done", line.result
