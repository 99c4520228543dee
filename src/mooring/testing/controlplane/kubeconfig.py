"""Access to a running control plane: kubeconfig files and kubectl."""

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

#: Longer than any response of a healthy server; `kubectl wait` and `drain` have own timeouts.
KUBECTL_S_MAX = 120.0

SERVICE_ACCOUNT = "mooring"
SERVICE_ACCOUNT_NAMESPACE = "kube-system"


class Access:
    """Access to a running control plane: its address, kubeconfig files and kubectl.

    Attributes:
        folder: The folder with the certificates (``pki/``), ``kubeconfig/`` and ``logs/``.
        programs: The folder of the programs (``build``).
        url: The API server's URL, ``https://127.0.0.1:PORT``.
    """

    def __init__(self, folder: Path, *, programs: Path, url: str) -> None:
        """Stores the arguments; reads and starts nothing."""
        self.folder = folder
        self.programs = programs
        self.url = url

    @property
    def authority(self) -> Path:
        """The PEM file of the CA that signed the API server's certificate."""
        return self.folder / "pki" / "ca.crt"

    def certificate(self, identity: str = "admin") -> Pair:
        """Returns the files of an identity's certificate and key.

        Raises:
            KeyError: there is no such identity; the message lists all identities.
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
        """Runs ``kubectl ARGUMENTS``; returns its output.

        Raises:
            ControlPlaneFailed: a nonzero exit code; the message is kubectl's.
        """
        result = self.kubectl_result(*arguments, identity=identity, stdin=stdin)
        if result.returncode:
            message = result.stderr.strip() or result.stdout.strip()
            raise ControlPlaneFailed(message, part=f"kubectl {' '.join(arguments)}")
        return result.stdout

    def kubectl_result(
        self, *arguments: str, identity: str = "admin", stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Runs kubectl; returns output and exit code. A nonzero code is no error."""
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
        """Returns a bearer token of a ServiceAccount, valid for ``duration_s`` seconds (>= 600).

        By default of mooring's ServiceAccount, with the same rights as the identity ``mooring``.
        """
        arguments = ["create", "token", name, f"--namespace={namespace}"]
        return self.kubectl(*arguments, f"--duration={duration_s}s").strip()

    def environment(self) -> dict[str, str]:
        """Returns the programs' environment: PATH and HOME only, no proxies or user settings."""
        return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.folder / "home")}


def write_kubeconfig(
    path: Path, *, url: str, authority: Path, pair: Pair | None = None, token: str | None = None
) -> None:
    """Writes a kubeconfig file with embedded credentials, mode 0600.

    Args:
        path: The file's path; its folder must exist, an existing file is replaced.
        url: The API server's URL.
        authority: PEM file of the CA that signed the server's certificate.
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
    # Created with its mode: a later chmod would leave the file readable for a moment.
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(content, file, indent=2)
    partial.replace(path)


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode("ascii")
