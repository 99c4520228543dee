"""The two servers of the contract suite: the real one, and the embedded one as users start it."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.testing.controlplane import Access
from tests.integration.contract.api import Api


@pytest.fixture(scope="session")
def real(plane: Access) -> Api:
    """The real kube-apiserver, as an administrator."""
    return admin_of(plane)


def admin_of(plane: Access) -> Api:
    """Returns the real kube-apiserver of a control plane, as an administrator."""
    context = ssl.create_default_context(cafile=str(plane.authority))
    pair = plane.certificate("admin")
    context.load_cert_chain(pair.certificate, pair.key)
    return Api(plane.url, context)


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """``mooring apiserver``, as an administrator."""
    file = tmp_path_factory.mktemp("embedded") / "kubeconfig"
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "mooring",
            "apiserver",
            "--port",
            "0",
            "--kubeconfig-out",
            str(file),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()  # it listens, and the file is there
        yield api_of(file)
    finally:
        process.terminate()
        process.communicate(timeout=30)


def api_of(kubeconfig: Path) -> Api:
    """Returns the API server that a kubeconfig file in JSON names."""
    config = json.loads(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    return Api(cluster["server"], context, headers={"authorization": f"Bearer {user['token']}"})
