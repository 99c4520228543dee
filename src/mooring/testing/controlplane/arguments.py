"""The command lines of all parts, with reasons for the flags.

Loopback only, RBAC enabled, TLS with client certificates everywhere, also for etcd, since a machine
may have other users.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from mooring.testing.controlplane.certificates import Pair

__all__ = ["LOOPBACK", "Layout"]

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Layout:
    """The folder and the ports of a control plane."""

    folder: Path
    etcd_port: int
    etcd_peer_port: int
    apiserver_port: int
    scheduler_port: int
    controller_manager_port: int

    #: Number of ports.
    PORTS: ClassVar[int] = 5

    @property
    def pki(self) -> Path:
        """The folder of certificates and keys."""
        return self.folder / "pki"

    @property
    def etcd_url(self) -> str:
        """The URL of etcd, for clients with the certificate ``etcd-client``."""
        return f"https://{LOOPBACK}:{self.etcd_port}"

    @property
    def apiserver_url(self) -> str:
        """The URL of kube-apiserver."""
        return f"https://{LOOPBACK}:{self.apiserver_port}"

    def etcd(self) -> list[str]:
        """Returns the arguments of a single-member etcd without fsync: test data may be lost."""
        peer_url = f"https://{LOOPBACK}:{self.etcd_peer_port}"
        authority, pair = self.pki / "etcd-ca.crt", Pair.of(self.pki, "etcd")
        return [
            "--name=plane",
            f"--data-dir={self.folder / 'data'}",
            f"--listen-client-urls={self.etcd_url}",
            f"--advertise-client-urls={self.etcd_url}",
            f"--listen-peer-urls={peer_url}",
            f"--initial-advertise-peer-urls={peer_url}",
            f"--initial-cluster=plane={peer_url}",
            "--client-cert-auth",
            f"--trusted-ca-file={authority}",
            f"--cert-file={pair.certificate}",
            f"--key-file={pair.key}",
            "--peer-client-cert-auth",
            f"--peer-trusted-ca-file={authority}",
            f"--peer-cert-file={pair.certificate}",
            f"--peer-key-file={pair.key}",
            # The only candidate: no need to wait a second for an election.
            "--heartbeat-interval=20",
            "--election-timeout=100",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]

    def apiserver(self) -> list[str]:
        """Returns kube-apiserver's arguments, without features that need controllers."""
        etcd, signing = Pair.of(self.pki, "etcd-client"), Pair.of(self.pki, "service-account")
        return [
            f"--etcd-servers={self.etcd_url}",
            f"--etcd-cafile={self.pki / 'etcd-ca.crt'}",
            f"--etcd-certfile={etcd.certificate}",
            f"--etcd-keyfile={etcd.key}",
            f"--bind-address={LOOPBACK}",
            # The default is the interface of the default route, which may not exist.
            f"--advertise-address={LOOPBACK}",
            # A loopback address may not stand in the endpoints of the Service `kubernetes`.
            "--endpoint-reconciler-type=none",
            *self._serving(self.apiserver_port),
            f"--client-ca-file={self.pki / 'ca.crt'}",
            "--authorization-mode=RBAC",
            "--allow-privileged=true",  # as kubeadm starts it
            # No client has a certificate of this CA, but readers of the ConfigMap
            # extension-apiserver-authentication, such as kube-scheduler, require one.
            f"--requestheader-client-ca-file={self.pki / 'front-proxy-ca.crt'}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.pki / 'service-account.pub'}",
            f"--service-account-signing-key-file={signing.key}",
            # ServiceAccount: pods would need the account `default`, which a controller creates.
            # TaintNodesByCondition: no controller would remove the taint `not-ready` of a new node.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
        ]

    def controller_manager(self, kubeconfig: Path) -> list[str]:
        """Returns kube-controller-manager's arguments, without the node lifecycle."""
        return [
            *self._client(self.controller_manager_port, kubeconfig),
            f"--kubeconfig={kubeconfig}",
            "--leader-elect=false",
            "--use-service-account-credentials",
            f"--service-account-private-key-file={self.pki / 'service-account.key'}",
            f"--root-ca-file={self.pki / 'ca.crt'}",
            "--controllers=*,-node-lifecycle-controller",
        ]

    def scheduler(self, kubeconfig: Path, configuration: Mapping[str, object]) -> list[str]:
        """Writes the KubeSchedulerConfiguration and returns kube-scheduler's arguments."""
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            **configuration,
        }
        connection = configuration.get("clientConnection")
        settings = connection if isinstance(connection, Mapping) else {}
        document["clientConnection"] = {**settings, "kubeconfig": str(kubeconfig)}
        path = self.folder / "kube-scheduler.json"
        path.write_text(json.dumps(document, indent=2), encoding="utf-8")
        return [*self._client(self.scheduler_port, kubeconfig), f"--config={path}"]

    def _client(self, port: int, kubeconfig: Path) -> list[str]:
        """Returns the common arguments of the clients, which delegate authorization."""
        return [
            f"--bind-address={LOOPBACK}",
            *self._serving(port),
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
        ]

    def _serving(self, port: int) -> list[str]:
        pair = Pair.of(self.pki, "server")
        return [
            f"--secure-port={port}",
            f"--tls-cert-file={pair.certificate}",
            f"--tls-private-key-file={pair.key}",
        ]
