"""The guide "replace kube-scheduler", command by command, on a real control plane.

The test plays the kubelet: it runs the container of the manifest that the commands leave in the
folder of static pods. Paths of the node are in a temporary folder, and the port is a free one.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mooring.objects.files.documents import yaml_documents
from mooring.testing.controlplane import ControlPlane
from tests.docs.pages import blocks_of, commands_of, matches
from tests.helpers.paths import ROOT
from tests.integration.embedded import make_list, make_node
from tests.integration.processes import END_S, free_port

pytestmark = pytest.mark.slow

PAGE = ROOT / "docs" / "guides" / "replace-kube-scheduler.md"
IDENTITY = "system:kube-scheduler"
PORT = "10259"
#: Needs the logs of containers, so a kubelet.
NOT_RUN = "kubectl logs "
#: Longer than any deadline in the guide is of use here.
COMMAND_S_MAX = 45.0

#: As kubeadm v1.36.3 writes it, as far as a kubelet without probes needs it.
KUBEADMS = """\
apiVersion: v1
kind: Pod
metadata:
  labels:
    component: kube-scheduler
    tier: control-plane
  name: kube-scheduler
  namespace: kube-system
spec:
  containers:
  - command:
    - kube-scheduler
    - --authentication-kubeconfig=/etc/kubernetes/scheduler.conf
    - --authorization-kubeconfig=/etc/kubernetes/scheduler.conf
    - --bind-address=127.0.0.1
    - --kubeconfig=/etc/kubernetes/scheduler.conf
    - --leader-elect=true
    image: registry.k8s.io/kube-scheduler:v1.36.3
    name: kube-scheduler
"""
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [{"level": "Metadata", "users": [IDENTITY]}, {"level": "None"}],
}


@dataclass(frozen=True)
class Host:
    """The control-plane node: its folders, and the port of its scheduler."""

    plane: ControlPlane
    folder: Path
    port: int

    @property
    def manifest(self) -> Path:
        return self.folder / "etc" / "kubernetes" / "manifests" / "kube-scheduler.yaml"

    def local(self, text: str) -> str:
        """Returns a text of the guide with this host's paths and port."""
        for name in ("/etc/kubernetes", "/root/"):
            text = text.replace(name, f"{self.folder}{name}")
        return text.replace(PORT, str(self.port))

    def general(self, text: str) -> str:
        """Returns an output as it is on a real node."""
        return text.replace(str(self.folder), "").replace(str(self.port), PORT)


@pytest.fixture
def host(programs: Path, tmp_path: Path) -> Iterator[Host]:
    policy = tmp_path / "audit-policy.json"
    policy.write_text(json.dumps(AUDIT_POLICY))
    flags = [f"--audit-policy-file={policy}", f"--audit-log-path={tmp_path / 'audit.log'}"]
    with ControlPlane(programs=programs, apiserver_arguments=flags) as plane:
        node = make_list(make_node("node-0"))
        plane.kubectl("create", "--filename=-", stdin=json.dumps(node))
        host = Host(plane, tmp_path / "host", free_port())
        host.manifest.parent.mkdir(parents=True)
        (host.folder / "root").mkdir()
        for name, identity in (("scheduler.conf", IDENTITY), ("admin.conf", "admin")):
            shutil.copy(plane.kubeconfig(identity), host.manifest.parent.parent / name)
        host.manifest.write_text(KUBEADMS)
        yield host


class Kubelet:
    """Runs the static pod kube-scheduler.

    Attributes:
        started: The program of each start: kube-scheduler or mooring.
    """

    def __init__(self, host: Host) -> None:
        self.started: list[str] = []
        self.logs: list[Path] = []
        self._host = host
        self._manifest = ""
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Kubelet:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def sync(self) -> None:
        """Starts, stops or replaces the container if the manifest has changed."""
        path = self._host.manifest
        manifest = path.read_text() if path.exists() else ""
        if manifest == self._manifest:
            return
        self._manifest = manifest
        if self._process is not None:
            self._process.terminate()
            assert self._process.wait(END_S) == 0
            self._process = None
        if manifest:
            self._start(manifest)

    def _start(self, manifest: str) -> None:
        (entry,) = yaml_documents(self._host.local(manifest).encode())
        (container,) = entry.value["spec"]["containers"]
        words: list[str] = [*container.get("command", []), *container.get("args", [])]
        first, flags = words[0], words[1:]
        plane = self._host.plane
        if first == "kube-scheduler":
            command = [str(plane.programs / first), *flags]
        else:  # the entry point of mooring's image
            assert first == "run"
            command = [sys.executable, "-m", "mooring", first, *flags]
        self.started.append("kube-scheduler" if first == "kube-scheduler" else "mooring")
        log = self._host.folder / f"container-{len(self.started)}.log"
        self.logs.append(log)
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [*command, f"--secure-port={self._host.port}"], stdout=out, stderr=out
            )


class Shell:
    """A shell on the host: what one command sets, the next one has."""

    def __init__(self, host: Host) -> None:
        tools = host.folder / "bin"
        tools.mkdir()
        program = tools / "mooring"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mooring "$@"\n')
        program.chmod(0o755)
        self._host = host
        self._variables = host.folder / "variables"
        self._variables.write_text(f'PATH="{tools}:{host.plane.programs}:$PATH"\n')

    def run(self, command: str) -> tuple[int, str]:
        """Runs a command of the guide; returns its exit code and its output."""
        script = (
            f"set -a; . {self._variables}\n{self._host.local(command)}\n"
            f"code=$?; export -p > {self._variables}; exit $code\n"
        )
        done = subprocess.run(
            ["bash", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
            timeout=COMMAND_S_MAX,
            check=False,
        )
        return done.returncode, self._host.general(done.stdout)


def commands() -> Iterator[tuple[str, str]]:
    """Yields the commands of the guide that are run, and what each prints."""
    for block in blocks_of(PAGE):
        assert block.info == "console no-run", f"line {block.line}"
        for command, expected in commands_of(block):
            if not command.startswith(NOT_RUN):
                yield command, expected


def test_the_guide_replaces_kube_scheduler_and_goes_back(host: Host) -> None:
    shell = Shell(host)
    with Kubelet(host) as kubelet:
        kubelet.sync()
        url = f"https://127.0.0.1:{PORT}/readyz"
        shell.run(f"timeout 60 sh -c 'until curl -skf {url}; do sleep 1; done'")
        for command, expected in commands():
            code, output = shell.run(command)
            assert matches(expected, output), f"$ {command} printed\n{output}\nnot\n{expected}"
            assert code == 0, command
            kubelet.sync()

    assert kubelet.started == ["kube-scheduler", "mooring", "kube-scheduler"]
    log = kubelet.logs[1].read_text()
    assert "forbidden" not in log
    assert "Traceback" not in log
    requests = requests_of(host, "mooring")
    assert {code for *_, code in requests} & {401, 403} == set(), requests
    assert requests["create", "pods/binding", 201] == 1
    assert requests_of(host, "kube-scheduler")["create", "pods/binding", 201] == 1


def requests_of(host: Host, program: str) -> Counter[Any]:
    """Returns the number of the user's requests by verb, resource and code, from the audit log."""
    text = (host.folder.parent / "audit.log").read_text()
    entries = [json.loads(line) for line in text.splitlines()]
    assert {entry["user"]["username"] for entry in entries} == {IDENTITY}
    counts: Counter[Any] = Counter()
    for entry in entries:
        if not entry["userAgent"].startswith(program):
            continue
        target = entry.get("objectRef", {})
        names = (target.get("resource", entry["requestURI"]), target.get("subresource"))
        resource = "/".join(name for name in names if name)
        counts[entry["verb"], resource, entry.get("responseStatus", {}).get("code")] += 1
    return counts
