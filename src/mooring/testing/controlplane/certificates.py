"""The identities of a control plane's clients and servers, and their certificates.

Several CAs, so that clients of the API server have no access to etcd::

    ca ── server          the API server and the other programs' own endpoints
       └─ one per identity: admin, mooring, ...
    etcd-ca ── etcd       etcd, as server and as its own client
            └─ etcd-client  kube-apiserver
    front-proxy-ca        no certificates: there is no front proxy

Keys belong to one control plane, are stored in its folder (0600) and expire after 30 days.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from mooring.testing.controlplane.failures import ControlPlaneFailed
from mooring.testing.controlplane.programs import run_program

__all__ = ["IDENTITIES", "CertificateIdentity", "Pair", "file_name", "make_certificates"]

LOOPBACK = ("127.0.0.1", "localhost")
#: Host names for clients inside a cluster; the address is the first one of the service range.
IN_CLUSTER = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "10.0.0.1")

#: Timeout; a dozen keys take milliseconds.
MAKE_S_MAX = 30.0


class CertificateIdentity(NamedTuple):
    """The user name and groups in a client's certificate."""

    user: str
    groups: tuple[str, ...] = ()


#: Identities by the name used in ``ControlPlane.kubeconfig``.
IDENTITIES = {
    "admin": CertificateIdentity("admin", ("system:masters",)),
    "system:kube-scheduler": CertificateIdentity("system:kube-scheduler"),
    "system:kube-controller-manager": CertificateIdentity("system:kube-controller-manager"),
    "mooring": CertificateIdentity("mooring"),
    "nobody": CertificateIdentity("nobody"),
}


class Pair(NamedTuple):
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path

    @classmethod
    def of(cls, folder: Path, name: str) -> Pair:
        """Returns the pair ``name`` in a folder of ``make_certificates``."""
        return cls(folder / f"{name}.crt", folder / f"{name}.key")


def file_name(identity: str) -> str:
    """Returns the base name of an identity's files, without colons, which split $KUBECONFIG."""
    return identity.replace(":", "-")


def make_certificates(tool: Path, folder: Path) -> None:
    """Writes all certificates and keys of a control plane into ``folder``, which must be empty.

    Raises:
        ControlPlaneFailed: the tool failed.
    """
    identities = [
        {"name": file_name(name), "user": identity.user, "groups": list(identity.groups)}
        for name, identity in IDENTITIES.items()
    ]
    server = {"name": "server", "user": "kube-apiserver", "hosts": [*LOOPBACK, *IN_CLUSTER]}
    request = {
        "folder": str(folder),
        "authorities": {
            "ca": [server, *identities],
            "etcd-ca": [
                {"name": "etcd", "user": "etcd", "hosts": list(LOOPBACK)},
                {"name": "etcd-client", "user": "kube-apiserver"},
            ],
            "front-proxy-ca": [],
        },
        "key_pairs": ["service-account"],
    }
    result = run_program([tool, "certificates"], stdin=json.dumps(request), limit_s=MAKE_S_MAX)
    if result.returncode:
        raise ControlPlaneFailed(result.stderr.strip(), part="certificates")
