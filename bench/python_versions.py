"""Equal runs in other Pythons: the same scenarios in each interpreter, and their digests compared.

``python -m bench python_versions`` looks for Python 3.11 to 3.14 on the PATH and in pyenv, or takes
those of ``--python``. Each gets a virtual environment with the locked runtime dependencies, which
is made again when these change, and runs with a hash seed of its own. 1 if a digest differs, or if
there are fewer than two versions.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.machine import machine
from bench.scenarios import nodes, pod

VERSIONS: Final = ("3.11", "3.12", "3.13", "3.14")
SEEDS: Final = (1, 2)

ROOT: Final = Path(__file__).resolve().parent.parent
REQUIREMENTS: Final = ROOT / "requirements" / "runtime.txt"
CACHE: Final = Path.home() / ".cache" / "mooring" / "pythons"

PROGRAM: Final = """
import json, sys
from mooring.study.scenario import Scenario
for document in json.load(sys.stdin):
    print(Scenario(**document).run().digest)
"""


def main(arguments: list[str]) -> int:
    """Print a digest for each scenario and version; 1 if one differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--python", nargs="+", default=None, help="interpreters; default: all")
    options = parser.parse_args(arguments)
    print(machine())
    documents = [document(name, seed) for name in DOCUMENTS for seed in SEEDS]
    names = [f"{name}, seed {seed}" for name in DOCUMENTS for seed in SEEDS]
    found: dict[str, list[str]] = {}
    for number, python in enumerate(options.python or interpreters()):
        version = version_of(python)
        found[version] = digests(environment(python, version), documents, str(number))
    return report(names, found)


def report(names: Sequence[str], found: dict[str, list[str]]) -> int:
    """Print the digests; 1 if one differs, or if there is nothing to compare."""
    different = 0
    for index, name in enumerate(names):
        by_version = {version: each[index] for version, each in found.items()}
        is_equal = len(set(by_version.values())) == 1
        different += not is_equal
        print(f"{name}: {'equal' if is_equal else 'DIFFERENT'}")
        for version, digest in by_version.items():
            print(f"  Python {version:8} {digest[:32]}")
    if len(found) < 2:
        print(f"only {', '.join(found) or 'no version'}: nothing to compare with")
        return 1
    return int(different > 0)


# -- interpreters ----------------------------------------------------------------------------------


def interpreters() -> list[str]:
    """Return the interpreters of this machine, one of each version."""
    pyenv = Path(os.environ.get("PYENV_ROOT", str(Path.home() / ".pyenv"))) / "versions"
    found = []
    for version in VERSIONS:
        paths = [str(path) for path in sorted(pyenv.glob(f"{version}.*/bin/python"))]
        on_path = shutil.which(f"python{version}")
        # A shim of pyenv for a version that is not chosen does not run.
        paths += [on_path] if on_path is not None else []
        found += [path for path in paths if version_of(path).startswith(version)][:1]
    return found


def version_of(python: str) -> str:
    """Return the version of an interpreter; "" if it does not run."""
    program = "import platform; print(platform.python_version())"
    asked = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
    return asked.stdout.strip()


def environment(python: str, version: str) -> str:
    """Return the interpreter of a virtual environment with the runtime dependencies."""
    locked = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    folder = CACHE / version
    done, inside = folder / "requirements.sha256", str(folder / "bin" / "python")
    if not done.exists() or done.read_text() != locked:
        print(f"making {folder.name} ...", flush=True)
        subprocess.run([python, "-m", "venv", "--clear", str(folder)], check=True)
        install = [inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "--require-hashes", "-r", str(REQUIREMENTS)], check=True)
        done.write_text(locked)
    return inside


def digests(python: str, documents: list[dict[str, Any]], hash_seed: str) -> list[str]:
    """Run scenarios in another interpreter; return their digests."""
    ran = subprocess.run(
        [python, "-c", PROGRAM],
        input=json.dumps(documents),
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONHASHSEED": hash_seed},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return ran.stdout.split()


# -- scenarios -------------------------------------------------------------------------------------


def document(name: str, seed: int) -> dict[str, Any]:
    """Return the arguments of a ``Scenario``."""
    return {"seed": seed, **DOCUMENTS[name]}


def workload(kind: str, name: str, spec: dict[str, Any], cpu: str) -> dict[str, Any]:
    """Return a workload object of batch/v1 or apps/v1."""
    labels = {"app": name}
    template: dict[str, Any] = {"metadata": {"labels": labels}, "spec": pod(cpu)["spec"]}
    if kind == "Job":
        template["spec"] = {**template["spec"], "restartPolicy": "Never"}
    else:
        spec = {"selector": {"matchLabels": labels}, **spec}
    return {
        "apiVersion": "batch/v1" if kind == "Job" else "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {**spec, "template": template},
    }


DOCUMENTS: Final[dict[str, dict[str, Any]]] = {
    "a busy cluster": {
        "end": {"at": "4h"},
        "cluster": {
            "nodes": [nodes(6, "8")],
            "groups": [
                {"name": "g", "max": 4, "price": 1.0, "template": nodes(1, "8")["template"]}
            ],
        },
        "pods": {"start": "1s", "duration": {"exponential": {"mean": "8m"}}, "failure": 0.05},
        "workload": [
            {
                "name": "a",
                "arrive": {"poisson": {"rate": "4/min", "until": "3h"}},
                "object": pod("1500m"),
            },
            {
                "name": "j",
                "arrive": {"interval": {"every": "15m", "until": "3h"}},
                "object": workload("Job", "j", {"parallelism": 2, "completions": 3}, "1"),
            },
            {"name": "w", "at": "5m", "create": workload("Deployment", "w", {"replicas": 5}, "1")},
            {"name": "d", "at": "30m", "drain": {"node": "n-1"}},
        ],
        "failures": [{"mtbf": "3h", "mttr": "10m"}],
    },
    "pods come, run and leave": {
        "cluster": {"nodes": [nodes(200, "16")]},
        "pods": {"duration": {"exponential": {"mean": "10m"}}},
        "workload": [
            {
                "name": "p",
                "arrive": {"poisson": {"rate": "5/s", "count": 5_000}},
                "object": pod("1"),
            }
        ],
    },
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
