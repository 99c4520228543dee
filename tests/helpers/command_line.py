"""Commands in this process, and the small clusters that they read from files."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mooring.cli import main


def run_command(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Runs ``mooring`` with these words; returns its exit code, stdout and stderr."""
    code = main(words)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def run_redirected(redirection: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs ``mooring`` as a process with a redirection of the shell, such as ``>&-``."""
    shell = ["sh", "-c", f'exec "$@" {redirection}', "sh"]
    return subprocess.run(
        [*shell, sys.executable, "-m", "mooring", *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )


@contextmanager
def restored_logging() -> Iterator[None]:
    """Undoes after the block what a command did to the root logger."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    root.handlers[:] = before[0]
    root.setLevel(before[1])


def node_yaml(name: str, cpu: str) -> str:
    """Returns a node with memory for every pod of these tests."""
    return f"""
apiVersion: v1
kind: Node
metadata: {{name: {name}}}
status: {{allocatable: {{cpu: "{cpu}", memory: 4Gi, pods: "10"}}}}
"""


def pod_yaml(name: str, cpu: str, *, node: str = "", namespace: str = "default") -> str:
    """Returns a pod that requests CPU; without ``node`` it is pending."""
    bound = f"nodeName: {node}, " if node else ""
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: {namespace}}}
spec: {{{bound}containers: [{{name: c, image: i, resources: {{requests: {{cpu: "{cpu}"}}}}}}]}}
"""


def write_workload(folder: Path, cluster: list[str], pods: list[str]) -> list[str]:
    """Writes cluster.yaml and pods.yaml; returns the options that name them."""
    options = []
    for name, documents in (("cluster", cluster), ("pods", pods)):
        file = folder / f"{name}.yaml"
        file.write_text("---".join(documents))
        options.append(f"--{name}={file}")
    return options
