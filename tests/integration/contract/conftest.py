"""The two servers of the contract suite: the real one, and the embedded one as users start it."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.testing.controlplane import Access
from tests.integration.contract.api import Api
from tests.integration.embedded import administrator, running


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
    with running(tmp_path_factory.mktemp("embedded")) as server:
        yield api_of(server.kubeconfig)


def api_of(kubeconfig: Path) -> Api:
    """Returns the API server that a kubeconfig file in JSON names."""
    url, context, headers = administrator(kubeconfig)
    return Api(url, context, headers=headers)
