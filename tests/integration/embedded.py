"""``mooring apiserver`` as people run it: a process of its own, and kubectl pointed at it."""

from __future__ import annotations

import base64
import json
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

START_S = 20.0
KUBECTL_S = 60.0


class Embedded:
    """A running embedded API server.

    Attributes:
        url: ``https://127.0.0.1:PORT``.
        kubeconfig: The administrator's.
        process: ``mooring apiserver``.
    """

    def __init__(self, process: subprocess.Popen[str], url: str, kubeconfig: Path) -> None:
        self.process = process
        self.url = url
        self.kubeconfig = kubeconfig

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Stops it, and waits for its end."""
        self.process.send_signal(number)
        return self.process.wait(START_S)


@contextmanager
def running(folder: Path, *options: str) -> Iterator[Embedded]:
    """Starts ``mooring apiserver`` with its files in ``folder``; end it with the block."""
    kubeconfig = folder / "kubeconfig"
    words = ["apiserver", "--port=0", f"--kubeconfig-out={kubeconfig}", *options]
    # A client may be connected at the end. As an error, uvloop's warning about it leaves the
    # connection open, and the loop waits for it for ever.
    unclosed = "default:unclosed resource <TCPTransport:ResourceWarning"
    command = [sys.executable, "-W", "error", "-W", unclosed, "-m", "mooring", *words]
    with (
        (folder / "stderr").open("w") as stderr,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            listening, export = process.stdout.readline(), process.stdout.readline()
            assert export == f"export KUBECONFIG={kubeconfig}\n", (folder / "stderr").read_text()
            yield Embedded(process, listening.split()[-1], kubeconfig)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(START_S)


def administrator(kubeconfig: Path) -> tuple[str, ssl.SSLContext, dict[str, str]]:
    """Returns URL, TLS context and headers that a kubeconfig file of the server names."""
    config = json.loads(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    return cluster["server"], context, {"authorization": f"Bearer {user['token']}"}


class Kubectl:
    """The real kubectl, with a home folder of its own."""

    def __init__(self, program: Path, server: Embedded, home: Path) -> None:
        self._program = program
        self._kubeconfig = server.kubeconfig
        self._environment = {"HOME": str(home), "PATH": os.environ["PATH"]}

    def run(
        self, *words: str, stdin: Any = None, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs it to its end, whatever comes of it; ``stdin`` may be objects, sent as JSON."""
        text = stdin if stdin is None or isinstance(stdin, str) else json.dumps(stdin)
        return subprocess.run(
            [str(self._program), "--kubeconfig", str(self._kubeconfig), *words],
            input=text or "",
            env={**self._environment, **(env or {})},
            capture_output=True,
            text=True,
            timeout=KUBECTL_S,
            check=False,
        )

    def __call__(self, *words: str, stdin: Any = None) -> str:
        """Returns what it prints; it must succeed."""
        done = self.run(*words, stdin=stdin)
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}{done.stdout}"
        return done.stdout

    def json(self, *words: str, stdin: Any = None) -> Any:
        """Returns what it prints with ``-o json``."""
        return json.loads(self(*words, "-o", "json", stdin=stdin))

    @contextmanager
    def watching(self, *words: str) -> Iterator[Iterator[str]]:
        """Yields the lines of a running kubectl; stopped at the end of the block."""
        with subprocess.Popen(
            [str(self._program), "--kubeconfig", str(self._kubeconfig), *words],
            env=self._environment,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            try:
                yield iter(process.stdout.readline, "")
            finally:
                process.terminate()


def make_pod(name: str, *, node: str = "", **spec: Any) -> dict[str, Any]:
    """Returns a pod as a person writes it."""
    obj = {"containers": [{"name": "main", "image": "registry.local/app:1"}], **spec}
    if node:
        obj["nodeName"] = node
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": obj,
    }


def make_node(name: str, *, pods: int = 110, cpu: str = "4") -> dict[str, Any]:
    """Returns a node that says it is ready, as a kubelet would report it."""
    room = {"cpu": cpu, "memory": "16Gi", "pods": str(pods)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def make_list(*objects: dict[str, Any]) -> dict[str, Any]:
    """Objects in one document."""
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}
