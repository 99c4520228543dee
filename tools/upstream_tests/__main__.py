"""Runs Kubernetes' own integration tests of the scheduler with mooring in kube-scheduler's place.

    python -m tools.upstream_tests                      # all packages: an hour or more
    python -m tools.upstream_tests scheduler/taint --run 'TestTaint'
    python -m tools.upstream_tests scheduler/taint --go # the Go scheduler, to check a test

See docs/reference/parity.md for what is run and how.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from mooring.component.gate_support import MISSING  # noqa: E402
from mooring.testing.controlplane import build, kubernetes_version  # noqa: E402
from mooring.testing.controlplane.binaries import cache_folder, module_folder  # noqa: E402
from mooring.testing.controlplane.toolchain import find_go  # noqa: E402
from tools.upstream_tests.packages import PACKAGES, Package  # noqa: E402
from tools.upstream_tests.prepare import compile_tests, prepare  # noqa: E402
from tools.upstream_tests.report import Outcome, read_output, table  # noqa: E402

_HEAD = ("package", "pass", "fail", "does not apply")


def main() -> None:
    """Compiles and runs the packages one after the other, and prints the table."""
    arguments = _parser().parse_args()
    chosen = [
        item for item in PACKAGES if item.name in arguments.packages or not arguments.packages
    ]
    if not chosen:
        raise SystemExit("no such package; there are: " + ", ".join(item.name for item in PACKAGES))
    folder = arguments.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    programs = build(report=_say)
    go = find_go(module_folder(), cache_folder(), report=_say).path
    copy = prepare(go, module_folder(), folder, kubernetes_version())
    rows: list[tuple[str, ...]] = [_HEAD]
    failed: list[str] = []
    for package in chosen:
        binary = folder / (package.name.replace("/", "_") + ".test")
        _say(f"compiling {package.name}")
        compile_tests(go, copy, package.name, binary)
        _say(f"running {package.name}")
        output = _run(package, binary, copy, programs, arguments)
        outcome = read_output(output)
        rows.append(_row(package, outcome))
        failed += [
            f"{package.name}: {item.test}" for item in outcome.results if item.outcome == "FAIL"
        ]
        if not outcome.ended:
            failed.append(f"{package.name}: did not end")
    print(table(rows))
    for line in failed:
        print(f"FAIL {line}")
    sys.exit(bool(failed))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.upstream_tests", description=__doc__)
    parser.add_argument("packages", nargs="*", help="packages below test/integration; default: all")
    parser.add_argument("--run", default="", help="only these tests, as go test -run")
    parser.add_argument("--go", action="store_true", help="run the Go scheduler")
    parser.add_argument("--timeout", default="60m", help="of one package")
    parser.add_argument(
        "--folder",
        type=Path,
        default=cache_folder() / "upstream-tests",
        help="for the copy of the module, the test programs and all logs",
    )
    return parser


def _run(
    package: Package, binary: Path, copy: Path, programs: Path, arguments: argparse.Namespace
) -> str:
    """Runs the tests of a package; returns their output, which is also in a file."""
    skipped = "|".join(exclusion.tests for exclusion in package.excluded)
    command = [str(binary), "-test.v", f"-test.timeout={arguments.timeout}"]
    command += [f"-test.run={arguments.run}"] if arguments.run else []
    command += [f"-test.skip={skipped}"] if skipped and not arguments.go else []
    log = binary.with_suffix(".log")
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(
            command,
            # Some tests read files of their package.
            cwd=copy / "test" / "integration" / package.name,
            env=_environment(package, binary, programs, use_go=arguments.go),
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            process.wait()
        finally:
            _end_session(process.pid)
    return log.read_text("utf-8", errors="replace")


def _environment(package: Package, binary: Path, programs: Path, *, use_go: bool) -> dict[str, str]:
    refused = [f"{name}={str(value).lower()}" for name, value in MISSING]
    return {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "EXTERNAL_SCHEDULER": "" if use_go else f"{sys.executable} -m mooring run",
        "EXTERNAL_SCHEDULER_REFUSES": ",".join(refused),
        "EXTERNAL_SCHEDULER_INERT": ",".join(package.inert),
        "EXTERNAL_SCHEDULER_FOLDER": str(binary.with_suffix(".runs")),
    }


def _end_session(leader: int) -> None:
    """Ends what a test program has left behind: etcd, schedulers."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return


def _row(package: Package, outcome: Outcome) -> tuple[str, ...]:
    reasons = [f"{item.tests}: {item.reason}" for item in package.excluded] + outcome.reasons
    skipped = "; ".join(reasons).replace("|", "\\|")
    return (package.name, str(outcome.count("PASS")), str(outcome.count("FAIL")), skipped)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
