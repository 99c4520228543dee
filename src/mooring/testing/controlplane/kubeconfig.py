"""Kubeconfig files, and kubectl: how others get at a running control plane."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from pathlib import Path

from mooring.testing.controlplane.certificates import IDENTITIES, Pair, file_name
from mooring.testing.controlplane.failures import ControlPlaneFailed
from mooring.testing.controlplane.programs import run_program

__all__ = ["Access", "write_kubeconfig"]

#: Longer than any answer of a healthy server, `kubectl wait` and `drain` set their own limits.
KUBECTL_S_MAX = 120.0

SERVICE_ACCOUNT = "mooring"
SERVICE_ACCOUNT_NAMESPACE = "kube-system"


class Access:
    """The way to one running control plane: its address, kubeconfig files and kubectl.

    Attributes:
        folder: Where the certificates (``pki/``), ``kubeconfig/`` and ``logs/`` are.
        programs: The folder of the programs (``build``).
        url: Of the API server, ``https://127.0.0.1:PORT``.
    """

    def __init__(self, folder: Path, *, programs: Path, url: str) -> None:
        """Nothing is read or started yet."""
        self.folder = folder
        self.programs = programs
        self.url = url

    @property
    def authority(self) -> Path:
        """The certificate (PEM file) that the API server's own is signed by."""
        return self.folder / "pki" / "ca.crt"

    def certificate(self, identity: str = "admin") -> Pair:
        """Returns the files of an identity's certificate and key.

        Raises:
            KeyError: there is no such identity; the message lists all.
        """
        if identity not in IDENTITIES:
            raise KeyError(f"no identity {identity!r}; there are {', '.join(IDENTITIES)}")
        return Pair.of(self.folder / "pki", file_name(identity))

    def kubeconfig(self, identity: str = "admin") -> Path:
        """Returns the kubeconfig file (0600, keys inside) of an identity.

        Raises:
            KeyError: there is no such identity.
        """
        pair = self.certificate(identity)
        path = self.folder / "kubeconfig" / f"{file_name(identity)}.kubeconfig"
        if not path.exists():
            write_kubeconfig(path, url=self.url, authority=self.authority, pair=pair)
        return path

    def kubectl(self, *arguments: str, identity: str = "admin", stdin: str = "") -> str:
        """What ``kubectl ARGUMENTS`` prints.

        Raises:
            ControlPlaneFailed: it exited with an error; the message is kubectl's.
        """
        done = self.kubectl_result(*arguments, identity=identity, stdin=stdin)
        if done.returncode:
            said = done.stderr.strip() or done.stdout.strip()
            raise ControlPlaneFailed(said, part=f"kubectl {' '.join(arguments)}")
        return done.stdout

    def kubectl_result(
        self, *arguments: str, identity: str = "admin", stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Runs kubectl to its end and returns all of it; an exit code other than 0 is no error."""
        return run_program(
            [self.programs / "kubectl", "--kubeconfig", self.kubeconfig(identity), *arguments],
            environment=self.environment(),
            stdin=stdin,
            limit_s=KUBECTL_S_MAX,
        )

    def service_account_token(
        self,
        name: str = SERVICE_ACCOUNT,
        *,
        namespace: str = SERVICE_ACCOUNT_NAMESPACE,
        duration_s: int = 3600,
    ) -> str:
        """A bearer token of a ServiceAccount, good for ``duration_s`` seconds (at least 600).

        By default that of mooring's own, which has the same rights as the identity ``mooring``.
        """
        arguments = ["create", "token", name, f"--namespace={namespace}"]
        return self.kubectl(*arguments, f"--duration={duration_s}s").strip()

    def environment(self) -> dict[str, str]:
        """What the programs see of the caller's environment: no proxy, no settings of a user."""
        return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.folder / "home")}


def write_kubeconfig(
    path: Path, *, url: str, authority: Path, pair: Pair | None = None, token: str | None = None
) -> None:
    """Writes a kubeconfig file that nobody else can read, with all credentials inside.

    Args:
        path: Of the file; its folder must exist, an old file is replaced as a whole.
        url: Of the API server.
        authority: PEM file of who signed the server's certificate.
        pair: A client certificate, or
        token: a bearer token.
    """
    user: dict[str, str] = {}
    if pair is not None:
        user["client-certificate-data"] = _encoded(pair.certificate)
        user["client-key-data"] = _encoded(pair.key)
    if token is not None:
        user["token"] = token
    cluster = {"server": url, "certificate-authority-data": _encoded(authority)}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "plane", "cluster": cluster}],
        "users": [{"name": path.stem, "user": user}],
        "contexts": [{"name": "plane", "context": {"cluster": "plane", "user": path.stem}}],
        "current-context": "plane",
    }
    partial = path.with_name(f"{path.name}.{os.getpid()}.new")
    # Made with its mode, not given it later: there is no moment at which others could read it.
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(content, file, indent=2)
    partial.replace(path)


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode("ascii")
