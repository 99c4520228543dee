"""A real Kubernetes control plane on this machine, for tests and benchmarks.

etcd, kube-apiserver, kube-scheduler, kube-controller-manager and kubectl, built from Go modules
once (minutes) and started in seconds; no container, no root, nothing outside of the loopback
address::

    from mooring.testing.controlplane import ControlPlane

    with ControlPlane(scheduler=True) as plane:
        print(plane.kubectl("version"))

``python -m mooring.testing.controlplane build`` builds ahead of time, ``... run`` runs one
in a terminal.
"""

from mooring.testing.controlplane.binaries import build, built, kubernetes_version
from mooring.testing.controlplane.certificates import IDENTITIES
from mooring.testing.controlplane.control_plane import ControlPlane
from mooring.testing.controlplane.failures import ControlPlaneFailed, ControlPlaneUnavailable
from mooring.testing.controlplane.kubeconfig import Access, write_kubeconfig
from mooring.testing.controlplane.processes import Process
from mooring.testing.controlplane.shared_plane import shared

__all__ = [
    "IDENTITIES",
    "Access",
    "ControlPlane",
    "ControlPlaneFailed",
    "ControlPlaneUnavailable",
    "Process",
    "build",
    "built",
    "kubernetes_version",
    "shared",
    "write_kubeconfig",
]
