"""Builds the test binary: upstream's specs of scheduling and DRA, and a fake kubelet.

The packages of DRA are compiled from a copy with three changes, since no real kubelet registers
the test driver and no container runs: drivers publish ResourceSlices only, pods of these specs
must be Running as well, and the environment of a container is computed from its claims
(``devices/env.go``). All other packages are those of the module k8s.io/kubernetes.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from mooring.testing.controlplane.binaries import cache_folder, only_builder
from mooring.testing.controlplane.toolchain import find_go

SOURCE: Final = Path(__file__).parent
UPSTREAM: Final = "k8s.io/kubernetes/test/e2e/dra"
LOCAL: Final = "mooring/bench/e2e/dra"

FLAGS: Final = ("-mod=readonly", "-buildvcs=false")
ENVIRONMENT: Final = {"GO111MODULE": "on", "GOTOOLCHAIN": "local", "GOWORK": "off"}

#: File below test/e2e/dra, and the replacements in it; each text must occur.
CHANGES: Final = {
    "dra.go": [(f'"{UPSTREAM}/utils"', f'"{LOCAL}/utils"')],
    "deploy_device_plugin.go": [],
    "utils/deploy.go": [
        ("\td.Nodes = make(map", "\td.WithKubelet = false\n\td.Nodes = make(map"),
    ],
    "utils/builder.go": [
        ("\tif !b.Driver.WithKubelet {", "\tif false {"),
        ("e2epod.ExecWithOptionsTCtx(", "devices.ContainerEnv("),
        ('\tadmissionapi "', '\t"mooring/bench/e2e/devices"\n\tadmissionapi "'),
    ],
}


def build() -> Path:
    """Returns the test binary; builds it if no equal one is in the cache (minutes)."""
    digest = hashlib.sha256(repr((FLAGS, CHANGES)).encode())
    for path in sorted(SOURCE.rglob("*")):
        if path.suffix in {".go", ".mod", ".sum"}:
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    program = cache / f"e2e-{digest.hexdigest()[:16]}"
    with only_builder(cache / "e2e.lock", _report):
        if not program.exists():
            _build(program)
    return program


def _build(program: Path) -> None:
    go = find_go(SOURCE, program.parent, report=_report)
    environment = {**os.environ, **ENVIRONMENT}
    with tempfile.TemporaryDirectory(dir=program.parent) as folder:
        ignore = shutil.ignore_patterns("*.py", "__pycache__")
        copy, made = (
            shutil.copytree(SOURCE, Path(folder, "e2e"), ignore=ignore),
            Path(folder, "made"),
        )
        listing = subprocess.run(
            [str(go.path), "mod", "download", "-json", "k8s.io/kubernetes"],
            cwd=copy, env=environment, check=True, stdout=subprocess.PIPE,
        )  # fmt: skip
        _copy_specs(Path(json.loads(listing.stdout)["Dir"]) / "test/e2e/dra", copy)
        command = [str(go.path), "test", "-c", *FLAGS, "-o", str(made), "."]
        subprocess.run(command, cwd=copy, env=environment, check=True)
        made.replace(program)


def _copy_specs(upstream: Path, copy: Path) -> None:
    specs = copy / "specs_test.go"
    specs.write_text(specs.read_text().replace(f'"{UPSTREAM}"', f'"{LOCAL}"'))
    for name, replacements in CHANGES.items():
        text = (upstream / name).read_text()
        for old, new in replacements:
            if old not in text:
                raise ValueError(f"{name} does not contain {old!r}")
            text = text.replace(old, new)
        target = copy / "dra" / name
        target.parent.mkdir(exist_ok=True)
        target.write_text(text)


def _report(text: str) -> None:
    print(text, file=sys.stderr)
