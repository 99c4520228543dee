"""A real Prometheus for tests: found, or fetched from Debian's archive; it needs no root."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from mooring.testing.controlplane.binaries import cache_folder

#: apt-get keeps what it knows and loads in a folder of ours, so it needs no root.
_STATE = ("lists/partial", "cache/archives/partial")


def find_prometheus() -> Path | None:
    """Returns the program; None if this machine has none and cannot fetch it."""
    found = shutil.which("prometheus")
    if found:
        return Path(found)
    folder = cache_folder().parent / "prometheus"
    program = folder / "usr" / "bin" / "prometheus"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            _fetch(folder)
    return program if program.exists() else None


def _fetch(folder: Path) -> None:
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        return
    for part in _STATE:
        (folder / part).mkdir(parents=True, exist_ok=True)
    options = [f"Dir::State::Lists={folder}/lists", f"Dir::Cache={folder}/cache"]
    apt = ["apt-get", "-qq", *(word for option in options for word in ("-o", option))]
    subprocess.run([*apt, "update"], cwd=folder, check=False, timeout=300)
    subprocess.run([*apt, "download", "prometheus"], cwd=folder, check=False, timeout=300)
    for package in folder.glob("prometheus_*.deb"):
        subprocess.run(["dpkg-deb", "-x", package, folder], check=True, timeout=60)


@pytest.fixture(scope="session")
def prometheus_program() -> Path:
    """Returns the program; skips the test where it is unavailable, but not in CI."""
    found = find_prometheus()
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("there is no Prometheus, and apt-get cannot fetch it")
        pytest.skip("there is no Prometheus, and apt-get cannot fetch it")
    return found


@contextmanager
def running(
    program: Path, folder: Path, port: int, targets: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Prometheus on a port, scraping ``targets``: the name of a node -> host:port/path."""
    static = []
    for name, target in targets.items():
        host, _, path = target.partition("/")
        static.append(
            {"targets": [host], "labels": {"__metrics_path__": f"/{path}", "instance": name}}
        )
    scrape = {"job_name": "nodes", "scrape_interval": "200ms", "scrape_timeout": "200ms"}
    config = {"scrape_configs": [{**scrape, "static_configs": static}]}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
    command = [
        str(program),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
        try:
            yield process
        finally:
            process.kill()
            process.wait()
