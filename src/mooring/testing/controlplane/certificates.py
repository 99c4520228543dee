"""Who may talk to a control plane, and the certificates that prove it.

Several authorities, so that a client of the API server is nobody to etcd::

    ca ── server          the API server and the other programs' own endpoints
       └─ one per identity: admin, mooring, nobody, ...
    etcd-ca ── etcd       etcd, as server and as its own client
            └─ etcd-client  kube-apiserver
    front-proxy-ca        nobody: there is no proxy in front

Keys are made for one control plane, live in its folder (0600) and end after 30 days.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from mooring.testing.controlplane.failures import ControlPlaneFailed
from mooring.testing.controlplane.programs import run_program

__all__ = ["IDENTITIES", "Identity", "Pair", "file_name", "make_certificates"]

LOOPBACK = ("127.0.0.1", "localhost")
#: Clients inside of a cluster use these; the address is the first one of the service range.
IN_CLUSTER = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "10.0.0.1")

#: Making a dozen keys takes milliseconds.
MAKE_S_MAX = 30.0


class Identity(NamedTuple):
    """A client as kube-apiserver sees it: the name and the groups in its certificate."""

    user: str
    groups: tuple[str, ...] = ()


#: By the name that ``ControlPlane.kubeconfig`` takes.
IDENTITIES = {
    "admin": Identity("admin", ("system:masters",)),
    "system:kube-scheduler": Identity("system:kube-scheduler"),
    "system:kube-controller-manager": Identity("system:kube-controller-manager"),
    "mooring": Identity("mooring"),
    "nobody": Identity("nobody"),
}


class Pair(NamedTuple):
    """A certificate and its key, as files in PEM."""

    certificate: Path
    key: Path

    @classmethod
    def of(cls, folder: Path, name: str) -> Pair:
        """Returns the pair called ``name`` in a folder of ``make_certificates``."""
        return cls(folder / f"{name}.crt", folder / f"{name}.key")


def file_name(identity: str) -> str:
    """Returns the name of an identity's files: a colon would split a path in ``$KUBECONFIG``."""
    return identity.replace(":", "-")


def make_certificates(tool: Path, folder: Path) -> None:
    """Writes every certificate and key of one control plane into ``folder``, which must be empty.

    Raises:
        ControlPlaneFailed: the tool could not.
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
    done = run_program([tool, "certificates"], stdin=json.dumps(request), limit_s=MAKE_S_MAX)
    if done.returncode:
        raise ControlPlaneFailed(done.stderr.strip(), part="certificates")
