"""A real control plane for tests and benchmarks: etcd, kube-apiserver, and optional parts.

::

    ControlPlane ──┬── etcd
                   ├── kube-apiserver            ready about 3 s after the start
                   ├── kube-scheduler            scheduler=True
                   └── kube-controller-manager   controller_manager=True

Not included: kubelets (pods stay Pending or bound) and a network.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from mooring.testing.controlplane.arguments import LOOPBACK, Layout
from mooring.testing.controlplane.binaries import Report, build, cache_folder
from mooring.testing.controlplane.certificates import Pair, make_certificates
from mooring.testing.controlplane.failures import ControlPlaneFailed
from mooring.testing.controlplane.kubeconfig import Access
from mooring.testing.controlplane.ports import Ports
from mooring.testing.controlplane.processes import Process, Readiness
from mooring.testing.controlplane.programs import run_program

__all__ = ["ControlPlane"]

RBAC_FILE = Path(__file__).with_name("mooring-rbac.yaml")
#: Created by kube-apiserver shortly after it is ready; objects need them.
NAMESPACES = ("default", "kube-system")
COMPACT_S_MAX = 30.0


class ControlPlane(Access):
    """A control plane that runs for the duration of a ``with`` block.

    Parts are ``Process`` objects: ``plane.apiserver.kill()``, ``plane.apiserver.restart()`` and so
    on. The programs always end with the Python process.

    Example::

        with ControlPlane(scheduler=True) as plane:
            plane.kubectl("get", "nodes", identity="mooring")
            client = connect(plane.kubeconfig("mooring"))

    Args:
        scheduler: True to start kube-scheduler.
        controller_manager: True to start kube-controller-manager (Deployments, garbage collection,
            the ``status`` of PodDisruptionBudgets, claims of pods).
        scheduler_configuration: A KubeSchedulerConfiguration without clientConnection.kubeconfig.
        etcd_arguments, apiserver_arguments, scheduler_arguments, controller_manager_arguments:
            Further flags, appended to ours: the last of equal flags counts.
        folder: Folder for data, logs and certificates, not removed; must be empty or missing. By
            default a temporary folder, removed at the end.
        programs: The folder of the programs; by default they are built if missing.
        report: Called with a line of text if a build is necessary.
        start_s_max: Timeout of each part's start, in seconds.
    """

    etcd: Process
    apiserver: Process

    def __init__(
        self,
        *,
        scheduler: bool = False,
        controller_manager: bool = False,
        scheduler_configuration: Mapping[str, object] | None = None,
        etcd_arguments: Sequence[str] = (),
        apiserver_arguments: Sequence[str] = (),
        scheduler_arguments: Sequence[str] = (),
        controller_manager_arguments: Sequence[str] = (),
        folder: Path | None = None,
        programs: Path | None = None,
        report: Report = lambda _: None,
        start_s_max: float = 60.0,
    ) -> None:
        self._has_scheduler = scheduler
        self._has_controller_manager = controller_manager
        self._configuration = scheduler_configuration or {}
        self._extra_arguments = {
            "etcd": etcd_arguments,
            "kube-apiserver": apiserver_arguments,
            "kube-scheduler": scheduler_arguments,
            "kube-controller-manager": controller_manager_arguments,
        }
        self._folder = folder
        self._programs = programs
        self._report = report
        self._start_s_max = start_s_max
        self._clients: dict[str, Process] = {}
        self._exit = ExitStack()

    @property
    def scheduler(self) -> Process:
        """kube-scheduler; KeyError if not started."""
        return self._clients["kube-scheduler"]

    @property
    def controller_manager(self) -> Process:
        """kube-controller-manager; KeyError if not started."""
        return self._clients["kube-controller-manager"]

    @property
    def parts(self) -> list[Process]:
        """All parts, in start order."""
        return [self.etcd, self.apiserver, *self._clients.values()]

    def __enter__(self) -> Self:
        """Starts every part and waits until it is ready.

        Raises:
            ControlPlaneUnavailable: the programs are missing and cannot be built.
            ControlPlaneFailed: a part did not start; the message has the reason and the log.
        """
        programs = self._programs or build(report=self._report)
        with ExitStack() as cleanup:
            layout = self._prepare(cleanup)
            super().__init__(layout.folder, programs=programs, url=layout.apiserver_url)
            make_certificates(programs / "plane-tool", layout.pki)
            self._make_servers(layout)
            self._start(cleanup)
            self._exit = cleanup.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Kills all parts, and removes a temporary folder."""
        self._exit.close()

    def compact(self) -> int:
        """Compacts etcd to the latest revision, and returns its number.

        Continuing an older paged list is 410 Gone afterwards. A watch is served from
        kube-apiserver's watch cache: it is affected only after ``apiserver.restart()``, or with
        ``apiserver_arguments=["--watch-cache=false"]``.

        Raises:
            ControlPlaneFailed: etcd rejected it, for example without changes since the last one.
        """
        tool = self.programs / "plane-tool"
        flags = self.etcd.readiness.flags()
        result = run_program([tool, "compact", *flags], limit_s=COMPACT_S_MAX)
        if result.returncode:
            raise ControlPlaneFailed(result.stderr.strip(), part="etcd")
        return int(result.stdout)

    def _prepare(self, cleanup: ExitStack) -> Layout:
        """Creates the folder and reserves the ports; ``cleanup`` reverts both."""
        ports = Ports(cache_folder() / "ports")
        cleanup.callback(ports.release)
        if self._folder is None:
            folder = Path(tempfile.mkdtemp(prefix="mooring-plane-"))
            cleanup.push(lambda kind, *_: _remove(folder, keep_logs=kind is not None))
        else:
            folder = self._folder.absolute()
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise ControlPlaneFailed(f"{folder} is not empty", part="control plane")
        for name in ("pki", "kubeconfig", "logs", "home"):
            (folder / name).mkdir(mode=0o700)
        return Layout(folder, *(ports.reserve() for _ in range(Layout.PORTS)))

    def _make_servers(self, layout: Layout) -> None:
        pki = layout.pki
        self.etcd = self._process(
            "etcd",
            layout.etcd(),
            Readiness(
                layout.etcd_url, ["/health"], pki / "etcd-ca.crt", Pair.of(pki, "etcd-client")
            ),
        )
        self.apiserver = self._process(
            "kube-apiserver",
            layout.apiserver(),
            self._readiness(
                layout.apiserver_url,
                "/readyz",
                *(f"/api/v1/namespaces/{name}" for name in NAMESPACES),
            ),
        )
        self._clients = {}
        if self._has_controller_manager:
            name = "kube-controller-manager"
            port, kubeconfig = layout.controller_manager_port, self.kubeconfig(f"system:{name}")
            self._clients[name] = self._process(
                name,
                layout.controller_manager(kubeconfig),
                self._readiness(f"https://{LOOPBACK}:{port}", "/healthz"),
            )
        if self._has_scheduler:
            name = "kube-scheduler"
            port, kubeconfig = layout.scheduler_port, self.kubeconfig(f"system:{name}")
            self._clients[name] = self._process(
                name,
                layout.scheduler(kubeconfig, self._configuration),
                self._readiness(f"https://{LOOPBACK}:{port}", "/healthz", "/readyz"),
            )

    def _readiness(self, url: str, *paths: str) -> Readiness:
        return Readiness(url, paths, self.authority, self.certificate("admin"))

    def _process(self, name: str, arguments: Sequence[str], readiness: Readiness) -> Process:
        # One guard is enough to remove a temporary folder: that of etcd, which has the most data.
        is_temporary = self._folder is None
        return Process(
            name,
            [str(self.programs / name), *arguments, *self._extra_arguments[name]],
            tool=self.programs / "plane-tool",
            folder=self.folder,
            readiness=readiness,
            environment=self.environment(),
            temporary_folder=self.folder if is_temporary and name == "etcd" else None,
            start_s_max=self._start_s_max,
        )

    def _start(self, cleanup: ExitStack) -> None:
        """Starts the servers one by one, then their clients concurrently."""
        for part in (self.etcd, self.apiserver):
            cleanup.callback(part.kill)
            part.launch()
            part.wait_until_ready()
        for part in self._clients.values():
            cleanup.callback(part.kill)
            part.launch()
        self.kubectl("create", "--validate=false", "--filename", str(RBAC_FILE))
        for part in self._clients.values():
            part.wait_until_ready()


def _remove(folder: Path, *, keep_logs: bool) -> None:
    """Removes a temporary folder; after a failure keeps the logs, but no keys or data."""
    for path in folder.iterdir():
        if keep_logs and path.name == "logs":
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    if not keep_logs:
        folder.rmdir()
