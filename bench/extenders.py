"""What extenders cost: mooring and kube-scheduler with none, one and two of them.

``python -m bench extenders``: a stream of pods (how long one waits from its create to its binding)
and a backlog (pods/s), each on a fresh real control plane. The extenders do as little as can be:
they keep all nodes, and give all of them 5; names are sent, and each is a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import socket
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from bench.machine import machine
from bench.side_run import Case, Result, run

SCHEDULERS: Final = ("kube-scheduler", "mooring")

#: Pods a second in the stream: what both can keep up with.
RATE: Final = 40.0


def main(arguments: list[str]) -> int:
    """Print the table; never misses a bar, for there is none."""
    words = _parser().parse_args(arguments)
    if words.serve:
        asyncio.run(_serve(words.serve))
        return 0
    print(machine())
    print(f"\n{words.nodes} nodes, {words.pods} pods, {words.runs} runs: medians")
    print(f"{'':16}{'extenders':>10}{'p50':>12}{'p99':>12}{'pods/s':>10}{'us/pod':>10}")
    for count in words.extenders:
        results = _compared(count, words)
        for scheduler in SCHEDULERS:
            _print(scheduler, count, results[scheduler, "stream"], results[scheduler, "backlog"])
    return 0


def _compared(count: int, words: argparse.Namespace) -> dict[tuple[str, str], list[Result]]:
    """(Scheduler, mode) -> its runs; they take turns, so that what else goes on befalls all."""
    turns = list(itertools.product(SCHEDULERS, ("stream", "backlog")))
    results: dict[tuple[str, str], list[Result]] = {turn: [] for turn in turns}
    for scheduler, mode in turns * words.runs:
        results[scheduler, mode].append(_one(scheduler, mode, count, words))
    return results


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--extenders", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rate", type=float, default=RATE, help="pods a second in the stream")
    parser.add_argument("--serve", type=int, default=0, metavar="PORT", help="be the extender")
    return parser


def _one(scheduler: str, mode: str, count: int, words: argparse.Namespace) -> Result:
    rate = words.rate if mode == "stream" else 0.0
    with _extenders(count) as extenders:
        case = Case(scheduler, mode, words.nodes, words.pods, rate, extenders=extenders)
        return run(case)


def _print(name: str, count: int, stream: Sequence[Result], backlog: Sequence[Result]) -> None:
    p50_ms = 1e3 * statistics.median(each.p50_s for each in stream)
    p99_ms = 1e3 * statistics.median(each.p99_s for each in stream)
    speed = statistics.median(each.pods_per_s for each in backlog)
    cost = statistics.median(each.scheduler_us for each in backlog)
    print(
        f"{name:16}{count:10}{p50_ms:9.1f} ms{p99_ms:9.1f} ms{speed:10.0f}{cost:10.0f}", flush=True
    )


# ---------------------------------------------------------------- the extenders


@contextmanager
def _extenders(count: int) -> Iterator[tuple[dict[str, Any], ...]]:
    """So many at work, as a configuration names them."""
    ports = [_free_port() for _ in range(count)]
    command = [sys.executable, "-m", "bench", "extenders", "--serve"]
    processes = [
        subprocess.Popen([*command, str(port)], stdout=subprocess.DEVNULL) for port in ports
    ]
    try:
        yield tuple(
            {
                "urlPrefix": f"http://127.0.0.1:{port}",
                "filterVerb": "filter",
                "prioritizeVerb": "prioritize",
                "weight": 1,
                "nodeCacheCapable": True,
            }
            for port in ports
        )
    finally:
        for process in processes:
            process.terminate()
            process.wait(10)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


class _Asked(msgspec.Struct):
    names: list[str] = msgspec.field(name="NodeNames", default_factory=list)


async def _serve(port: int) -> None:
    server = await asyncio.start_server(_talk, "127.0.0.1", port, limit=1 << 24)
    async with server:
        await server.serve_forever()


async def _talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one question after another on a connection."""
    decode = msgspec.json.Decoder(_Asked).decode
    while True:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        length = int(head.partition("content-length:")[2].partition("\r\n")[0])
        asked = decode(await reader.readexactly(length))
        said: Any = {"NodeNames": asked.names}
        if head.startswith("post /prioritize"):
            said = [{"Host": name, "Score": 5} for name in asked.names]
        body = msgspec.json.encode(said)
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
            % (len(body), body)
        )
