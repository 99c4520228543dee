"""The lessons on a real kube-apiserver: the same outcomes as in memory, and nothing left behind.

Waiting is real here, so the loop's second is a fifth of a second. The control plane is one of its
own: lessons create nodes, and those belong to no namespace.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mooring.cli import main
from mooring.client.transport.kubeconfig import find_access
from mooring.clock import seeded_random
from mooring.errors import ConfigError
from mooring.learn.lessons import LESSONS, Lesson, lesson
from mooring.learn.running import LessonResult, OutputHooks, learn_real
from mooring.learn.scenarios import SCENARIOS, VARIANTS
from mooring.testing.controlplane import Access, ControlPlane
from mooring.testing.controlplane.kubeconfig import write_kubeconfig
from mooring.virtual_loop import LoopClock
from tests.integration.processes import heed_interrupts

SPEED = 5.0
DEADLINE_S = 200.0


class QuickSelector(selectors.DefaultSelector):
    """Waits for a fifth of what it is asked to."""

    def select(self, timeout: float | None = None) -> Any:
        return super().select(timeout / SPEED if timeout else timeout)


class QuickLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock goes five times as fast as others."""

    def __init__(self) -> None:
        super().__init__(QuickSelector())

    def time(self) -> float:
        return super().time() * SPEED


@pytest.fixture(scope="module")
def own_plane(programs: Path) -> Iterator[Access]:
    with ControlPlane() as plane:
        yield plane


async def learn(kubeconfig: Path, step: Lesson, variant: str) -> LessonResult:
    access = find_access(str(kubeconfig), environment=os.environ)
    hooks = OutputHooks(lambda _: None, lambda _time_s, _text: None)
    clock, rng = LoopClock(asyncio.get_running_loop()), seeded_random(step.number)
    async with asyncio.timeout(DEADLINE_S):
        scenario = SCENARIOS[variant][step.number - 1]
        return await learn_real(access, step, scenario, hooks, clock=clock, rng=rng)


def run(plane: Access, step: Lesson, variant: str, kubeconfig: Path | None = None) -> LessonResult:
    with asyncio.Runner(loop_factory=QuickLoop) as runner:
        return runner.run(learn(kubeconfig or plane.kubeconfig("admin"), step, variant))


def left_behind(plane: Access) -> str:
    nodes = plane.kubectl("get", "nodes", "-o", "name")
    return nodes + plane.kubectl("get", "pods", "--all-namespaces", "-o", "name")


def test_every_lesson_ends_on_a_real_cluster_as_in_memory(own_plane: Access) -> None:
    for variant in VARIANTS:
        for step in LESSONS:
            result = run(own_plane, step, variant)

            where = f"{variant}, step {step.number}"
            assert result.failures == [], where
            for pod, allowed in SCENARIOS[variant][step.number - 1].ends.items():
                assert result.nodes[pod] in (allowed or ("",)), where

    assert left_behind(own_plane) == ""


def test_nodes_and_pods_of_others_are_neither_seen_nor_touched(own_plane: Access) -> None:
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: theirs}\n"
    pod = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: theirs, namespace: default}\n"
        "spec: {schedulerName: mooring-learn, containers: [{name: a, image: b}]}\n"
    )
    own_plane.kubectl("create", "-f", "-", stdin=f"{node}---\n{pod}")
    try:
        result = run(own_plane, lesson(2), "nakamasato")

        assert result.nodes == {"pod1": "node10"}
        assert "theirs" not in {line.node for line in result.lines}
        assert not [line for line in result.lines if line.pod.endswith("/theirs")]
        assert own_plane.kubectl("get", "pod", "theirs", "-o", "jsonpath={.spec.nodeName}") == ""
        assert left_behind(own_plane).split() == ["node/theirs", "pod/theirs"]
    finally:
        own_plane.kubectl("delete", "pod/theirs", "node/theirs", "--force", "--grace-period=0")


def test_a_node_of_this_name_that_is_there_already_ends_the_lesson(own_plane: Access) -> None:
    own_plane.kubectl(
        "create", "-f", "-", stdin="apiVersion: v1\nkind: Node\nmetadata: {name: node3}"
    )
    try:
        with pytest.raises(ConfigError, match=r"exists already.*'node3'"):
            run(own_plane, lesson(1), "nakamasato")

        assert left_behind(own_plane).split() == ["node/node3"]
    finally:
        own_plane.kubectl("delete", "node/node3")


def test_who_is_interrupted_leaves_nothing_behind(own_plane: Access) -> None:
    words = ["learn", "5", "--variant", "sanposhiho", "--kubeconfig"]
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "mooring", *words, str(own_plane.kubeconfig("admin"))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            if "pod9    waiting" in line:
                break
        assert len(left_behind(own_plane).split()) == 12
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=DEADLINE_S)

    assert process.returncode == 130
    assert "Traceback" not in said
    assert left_behind(own_plane) == ""
    namespaces = own_plane.kubectl("get", "namespaces", "-o", "jsonpath={.items[*].status.phase}")
    assert namespaces.split().count("Terminating") >= 1


def test_a_user_who_may_not_read_nodes_gets_an_error(own_plane: Access) -> None:
    """A user who may create what the lesson needs, but not read nodes."""
    rules = (
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: blind}\n"
        "rules: [{apiGroups: [''], resources: [namespaces], verbs: [create, delete]}]\n"
    )
    own_plane.kubectl("create", "-f", "-", stdin=rules)
    own_plane.kubectl("create", "serviceaccount", "blind")
    binding = ["create", "clusterrolebinding", "blind", "--clusterrole=blind"]
    own_plane.kubectl(*binding, "--serviceaccount=default:blind")
    token = own_plane.service_account_token("blind", namespace="default")
    path = own_plane.folder / "blind.kubeconfig"
    write_kubeconfig(path, url=own_plane.url, authority=own_plane.authority, token=token)

    with pytest.raises(ConfigError, match=r"Node: cannot be listed and watched: .*forbidden"):
        run(own_plane, lesson(1), "nakamasato", kubeconfig=path)


def test_the_command_takes_a_kubeconfig(
    own_plane: Access, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = str(own_plane.kubeconfig("admin"))

    assert main(["learn", "2", "--kubeconfig", kubeconfig]) == 0

    assert "pod1 is on node10." in capsys.readouterr().out
    assert left_behind(own_plane) == ""
