"""Beside the ladder: the same pods through kube-scheduler's own framework, and the ratio.

``bench/peer`` is a small Go program around kube-scheduler v1.36.3's framework and cache, without
an API server. It gets a rung's nodes and pods as this file writes them. CPU milliseconds a pod
(with devices: until the pod is assumed, since an API server writes the claims),
with one thread: with kube-scheduler's default sampling, which looks at some of the nodes only, and
looking at all nodes as mooring does; then pods/s with two cores. Go is needed to build it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bench.ladder import WORKLOADS, Workload, measure, scene_of
from bench.machine import machine
from mooring.objects.node import Node
from mooring.testing.controlplane.binaries import ENVIRONMENT, FLAGS, cache_folder, only_builder
from mooring.testing.controlplane.toolchain import find_go

PODS = 1_000
RUNS = 3
NODES = (1_000, 5_000)

#: A run of 15 000 nodes that looks at all of them takes a minute for 1 000 pods.
LIMIT_S = 900.0


class Mode(NamedTuple):
    """How the peer runs: its flags, and which of its figures counts."""

    name: str
    flags: tuple[str, ...]
    figure: str


MODES = (
    Mode("sampling", ("-percentage=0",), "cpu_ms_per_pod"),
    Mode("all nodes", ("-percentage=100",), "cpu_ms_per_pod"),
    Mode("2 cores, sampling", ("-cores=2", "-parallelism=16"), "pods_per_s"),
)


def build_peer(package: str = "") -> Path:
    """The Go program, named by what it is made from; built if nobody did yet.

    Args:
        package: A folder below ``bench/peer`` with another program.
    """
    source = Path(__file__).parent / "peer"
    digest = hashlib.sha256(repr(FLAGS).encode())
    files = [*source.iterdir()] if not package else [source / "go.mod", source / "go.sum"]
    files += (source / package).iterdir() if package else ()
    for path in sorted(filter(Path.is_file, files)):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    cache = cache_folder()
    program = cache / f"{package or 'peer'}-{digest.hexdigest()[:16]}"
    cache.mkdir(parents=True, exist_ok=True)
    with only_builder(cache / "peer.lock", _report):
        if not program.exists():
            _build(source, package, program)
    return program


def _build(source: Path, package: str, program: Path) -> None:
    go = find_go(source, program.parent, report=_report)
    with tempfile.TemporaryDirectory(dir=program.parent) as folder:
        copy, made = shutil.copytree(source, Path(folder, "peer")), Path(folder, "made")
        command = [str(go.path), "build", *FLAGS, "-o", str(made), f"./{package}"]
        subprocess.run(command, cwd=copy, env={**os.environ, **ENVIRONMENT}, check=True)
        made.replace(program)


def _report(text: str) -> None:
    print(text, file=sys.stderr)


def lines(
    workload: Workload, node_count: int, pod_count: int, running_count: int
) -> Iterator[bytes]:
    """The rung as the peer reads it."""
    scene = scene_of(workload, node_count, pod_count, running_count)
    for obj in scene.objects:
        yield _line("node" if isinstance(obj, Node) else "object", obj)
    for pod in scene.running:
        yield _line("running", pod)
    for pod in scene.pods:
        yield _line("pod", pod)


def _line(role: str, obj: Any) -> bytes:
    plain = msgspec.to_builtins(obj)
    plain["apiVersion"], plain["kind"] = obj.api_version, obj.kind
    return json.dumps({"role": role, "object": plain}).encode() + b"\n"


def ask(program: Path, rung: bytes, mode: Mode, further: tuple[str, ...]) -> dict[str, Any]:
    """What the peer measured."""
    done = subprocess.run(
        [program, *mode.flags, *further],
        input=rung,
        stdout=subprocess.PIPE,
        check=True,
        timeout=LIMIT_S,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def main(arguments: list[str]) -> int:
    """Print the table; 1 if mooring is behind in any row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, nargs="*", default=list(NODES))
    parser.add_argument("--pods", type=int, default=PODS)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--running", type=int, default=0, help="running pods, put there before")
    parser.add_argument("--workload", choices=list(WORKLOADS), nargs="*", default=list(WORKLOADS))
    options = parser.parse_args(arguments)
    program = build_peer()
    print(machine())
    print(
        f"{options.pods} pods beside {options.running} running ones, {options.runs} runs, taken in"
        " turn: best (median, worst)"
    )
    is_ahead = True
    for name in options.workload:
        for node_count in options.nodes:
            is_ahead = _row(program, name, node_count, options) and is_ahead
    return 0 if is_ahead else 1


def _row(program: Path, name: str, node_count: int, options: argparse.Namespace) -> bool:
    workload = WORKLOADS[name]
    pod_count, running = options.pods, options.running
    rung = b"".join(lines(workload, node_count, pod_count, running))
    further = ("-found-only",) if workload.is_full else ()
    if workload.devices is not None:
        # As measure: a decision without the writes of claims, and not the first pod.
        further = ("-decisions",)
    own: list[float] = []
    theirs: dict[str, list[float]] = {mode.name: [] for mode in MODES}
    ended = ""
    for _ in range(options.runs):
        measured = measure(workload, node_count, pod_count, running_count=running)
        own.append(measured.us_per_pod / 1e3)
        for mode in MODES:
            answer = ask(program, rung, mode, further)
            theirs[mode.name].append(answer[mode.figure])
            ended = f"placed {answer['placed']}, refused {answer['refused']}"
            ended += f", made room {answer['made_room']}" if workload.is_full else ""
    print(f"{name}, {node_count} nodes ({ended}): mooring {_shown(own)} ms a pod")
    for mode in MODES:
        figures = theirs[mode.name]
        if mode.figure == "cpu_ms_per_pod":
            ratio = min(figures) / min(own)
            print(f"    kube-scheduler, {mode.name}: {_shown(figures)} ms a pod = {ratio:.1f} x")
        else:
            figures.sort(reverse=True)
            print(f"    kube-scheduler, {mode.name}: {figures[0]:.0f} pods/s", end="")
            print(f"; mooring on one: {1e3 / min(own):.0f}")
    return min(theirs["sampling"]) > min(own)


def _shown(figures: list[float]) -> str:
    ordered = sorted(figures)
    return f"{ordered[0]:.2f} ({statistics.median(ordered):.2f}, {ordered[-1]:.2f})"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
