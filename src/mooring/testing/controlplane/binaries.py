"""Builds the programs of the control plane from Go modules, once, into a cache folder.

The name of the result's folder is a hash of the Go module (with its ``go.sum``), the flags below
and the machine's architecture. A complete folder never changes; it is created by one rename, under
a lock.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from mooring.testing.controlplane.failures import ControlPlaneUnavailable
from mooring.testing.controlplane.toolchain import Go, find_go

__all__ = [
    "CACHE_VARIABLE",
    "PROGRAMS",
    "Report",
    "build",
    "built",
    "cache_folder",
    "kubernetes_version",
    "only_builder",
]

#: The environment variable with the cache folder.
CACHE_VARIABLE = "MOORING_CONTROLPLANE_CACHE"

PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "plane-tool",
)

#: A cold build takes six minutes on two cores; with a slow line and disk ten times that.
BUILD_S_MAX = 3600.0
#: Linking kube-apiserver takes more than 1 GB: more at once would fill a small machine.
JOBS_MAX = 4

# As Kubernetes' own release build: static, stripped, and grpcnotrace lets the linker drop more.
FLAGS = ("-mod=readonly", "-trimpath", "-buildvcs=false", "-tags=selinux,notest,grpcnotrace")
ENVIRONMENT = {"CGO_ENABLED": "0", "GO111MODULE": "on", "GOTOOLCHAIN": "local", "GOWORK": "off"}
STAMPED_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")

Report = Callable[[str], None]


def build(
    *,
    report: Report = lambda _: None,
    environment: Mapping[str, str] = os.environ,
    module: Path | None = None,
) -> Path:
    """Returns the folder with ``PROGRAMS``; builds them if missing.

    Args:
        report: Called with a line of text before each long step.
        environment: The build's environment: PATH, proxies and Go's variables are used.
        module: The Go module; by default mooring's own.

    Raises:
        ControlPlaneUnavailable: they are missing and cannot be built; the message is one line.
    """
    module = module or module_folder()
    cache = cache_folder(environment)
    folder = cache / _key(module)
    if _is_complete(folder):
        return folder
    if sys.platform != "linux":
        raise ControlPlaneUnavailable(f"the control plane needs Linux, this is {sys.platform}")
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with only_builder(cache / f"{folder.name}.lock", report):
            if not _is_complete(folder):
                go = find_go(module, cache, report=report, environment=environment)
                _build(go, module, folder, environment, report)
    except OSError as why:
        raise ControlPlaneUnavailable(f"the control plane cannot be built: {why}") from why
    return folder


def built(*, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Returns the folder of ``build`` if it exists, without building."""
    folder = cache_folder(environment) / _key(module_folder())
    return folder if _is_complete(folder) else None


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Returns ``$MOORING_CONTROLPLANE_CACHE``, else a folder in the user's cache."""
    if folder := environment.get(CACHE_VARIABLE):
        return Path(folder).absolute()
    base = environment.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "mooring" / "controlplane"


def module_folder() -> Path:
    """Returns the Go module's folder: beside this file if installed, else in the checkout's root.

    Raises:
        ControlPlaneUnavailable: neither exists.
    """
    this_file = Path(__file__).resolve()
    for folder in (this_file.parent / "module", this_file.parents[4] / "controlplane"):
        if (folder / "go.mod").is_file():
            return folder
    raise ControlPlaneUnavailable("this installation of mooring came without its Go module")


def kubernetes_version(module: Path | None = None) -> str:
    """Returns the Kubernetes version that the module builds, as in ``v1.36.3``."""
    text = ((module or module_folder()) / "go.mod").read_text("utf-8")
    match = re.search(r"^\s+k8s\.io/kubernetes (v\S+)$", text, re.MULTILINE)
    if match is None:
        raise ControlPlaneUnavailable("go.mod names no version of k8s.io/kubernetes")
    return match[1]


def linker_flags(version: str) -> str:
    """Returns the ``-ldflags`` that set the version; without them it is v0.0.0-master."""
    major, minor, *_ = version.removeprefix("v").split(".")
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    stamps = [
        f"-X {package}.{name}={value}"
        for package in STAMPED_PACKAGES
        for name, value in values.items()
    ]
    return " ".join(["-s", "-w", *stamps])


def _key(module: Path) -> str:
    digest = hashlib.sha256()
    inputs = [*FLAGS, *map("=".join, ENVIRONMENT.items()), *PROGRAMS, platform.machine()]
    for text in (linker_flags(kubernetes_version(module)), *inputs):
        digest.update(text.encode() + b"\0")
    for path in sorted(path for path in module.rglob("*") if path.is_file()):
        digest.update(path.relative_to(module).as_posix().encode() + b"\0")
        digest.update(path.read_bytes() + b"\0")
    return f"{kubernetes_version(module)}-{digest.hexdigest()[:16]}"


def _is_complete(folder: Path) -> bool:
    return all(os.access(folder / program, os.X_OK) for program in PROGRAMS)


@contextmanager
def only_builder(path: Path, report: Report) -> Iterator[None]:
    """Holds the file lock ``path``, so that only one process builds."""
    with path.open("a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("waiting for another process that builds the same")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(
    go: Go, module: Path, folder: Path, environment: Mapping[str, str], report: Report
) -> None:
    """Builds a copy of the module, so that the build never changes the original."""
    partial = folder.with_name(folder.name + ".partial")
    log = folder.with_name(folder.name + ".log")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(module, partial / "module")
    (partial / "bin").mkdir()
    version = ".".join(map(str, go.version))
    report(f"building the control plane with Go {version}, once, in minutes; log: {log}")
    jobs = min(JOBS_MAX, os.cpu_count() or 1)
    command = [str(go.path), "build", *FLAGS, f"-p={jobs}"]
    command += [f"-ldflags={linker_flags(kubernetes_version(module))}", "-o", str(partial / "bin")]
    with log.open("w", encoding="utf-8") as output:
        try:
            result = subprocess.run(  # noqa: S603 - a list of arguments, no shell
                [*command, *(f"./cmd/{program}" for program in PROGRAMS)],
                cwd=partial / "module",
                env={**environment, **ENVIRONMENT},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=BUILD_S_MAX,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ControlPlaneUnavailable(
                f"building the control plane took more than {BUILD_S_MAX:g} s; log: {log}"
            ) from None
    if result.returncode:
        raise ControlPlaneUnavailable(
            f"the control plane cannot be built: {_error_line(log)}; log: {log}"
        )
    shutil.rmtree(folder, ignore_errors=True)
    (partial / "bin").rename(folder)
    shutil.rmtree(partial, ignore_errors=True)


def _error_line(log: Path) -> str:
    """Returns the last line of Go's output that is no progress message; it names the cause."""
    lines = [line.strip() for line in log.read_text("utf-8", errors="replace").splitlines()]
    messages = [line for line in lines if line and not line.startswith("go: downloading ")]
    return messages[-1] if messages else "go build gave no reason"
