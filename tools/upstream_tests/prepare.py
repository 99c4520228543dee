"""Prepares Kubernetes' own tests for a scheduler that is another program.

Copies the module k8s.io/kubernetes from Go's module cache, adds the three Go files of this folder
and changes a few lines of the copy by the rules below. Nothing of Kubernetes is kept in this
repository. A rule that does not apply exactly once fails: another version needs other rules.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

#: Added files: name here -> path in the module.
ADDED = {
    "external_scheduler.go": "pkg/scheduler/external_scheduler.go",
    "external_server.go": "cmd/kube-scheduler/app/testing/external_server.go",
    "external_queue.go": "test/integration/scheduler/queueing/external_queue.go",
}

#: Path -> lines that occur once -> what they become.
RULES = {
    "pkg/scheduler/scheduler.go": {
        "type Scheduler struct {\n": (
            "type Scheduler struct {\n\texternalOptions schedulerOptions\n\tExternalPort int\n"
        ),
        "\tsched.applyDefaultHandlers()\n": (
            "\tsched.applyDefaultHandlers()\n\tsched.externalOptions = options\n"
        ),
    },
    "cmd/kube-scheduler/app/testing/testserver.go": {
        '\t"k8s.io/kubernetes/cmd/kube-scheduler/app/options"\n': (
            '\t"k8s.io/kubernetes/cmd/kube-scheduler/app/options"\n'
            '\t"k8s.io/kubernetes/pkg/scheduler"\n'
        ),
        "\tcc, sched, err := app.Setup(ctx, opts)\n": (
            "\tif scheduler.IsExternal() {\n"
            "\t\tresult, err = startExternalServer(ctx, opts, customFlags, result)\n"
            "\t\tresult.TearDownFn = tearDown\n"
            "\t\treturn result, err\n"
            "\t}\n"
            "\tcc, sched, err := app.Setup(ctx, opts)\n"
        ),
    },
    "test/integration/scheduler/batch/batch_test.go": {
        'scheduler.Profiles["default-scheduler"].(batchGetter)': (
            'scheduler.ExternalBatches("default-scheduler")'
        ),
    },
    "test/integration/scheduler/queueing/queue.go": {
        "\tswitch tt.ExpectedInitialRejectingPhase {\n": (
            "\tif isExternal() {\n\t\trunExternal(t, tt, testCtx)\n\t\treturn\n\t}\n"
            "\tswitch tt.ExpectedInitialRejectingPhase {\n"
        ),
    },
    "test/integration/util/util.go": {
        "\t\teventBroadcaster.Shutdown()\n\t}\n\n\treturn testCtx\n": (
            "\t\teventBroadcaster.Shutdown()\n\t}\n"
            '\tif reason := testCtx.Scheduler.DoesNotApply(); reason != "" {\n'
            "\t\tt.Skip(reason)\n\t}\n\treturn testCtx\n"
        ),
    },
}

#: A scheduler that a test starts with `go`: the test goes on when it is ready.
STARTS = re.compile(r"\bgo (testCtx\.Scheduler|sched)\.Run\(")
STAGING = re.compile(r"=> \./staging/src/(k8s\.io/\S+)$", re.MULTILINE)


def prepare(go: Path, module: Path, folder: Path, version: str) -> Path:
    """Returns the changed copy of the module in ``folder``; makes it if missing or out of date."""
    copy = folder / "kubernetes"
    stamp = copy / ".prepared"
    wanted = "\0".join([Path(__file__).read_text("utf-8"), version])
    if not stamp.exists() or stamp.read_text("utf-8") != wanted:
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(_source(go, module, version), copy, symlinks=True)
        for path in [copy, *copy.rglob("*")]:
            path.chmod(path.stat().st_mode | 0o200)
        _change(copy, version)
        stamp.write_text(wanted, "utf-8")
    for name, target in ADDED.items():
        _write_if_changed(copy / target, (HERE / name).read_text("utf-8"))
    return copy


def compile_tests(go: Path, copy: Path, package: str, target: Path) -> None:
    """Compiles the tests of a package below ``test/integration`` into one program."""
    subprocess.run(
        [go, "test", "-c", "-ldflags=-s -w", "-o", target, f"./test/integration/{package}"],
        cwd=copy,
        env={**os.environ, "GOFLAGS": "-mod=mod", "CGO_ENABLED": "0", "GOWORK": "off"},
        check=True,
    )


def _source(go: Path, module: Path, version: str) -> Path:
    """Returns the folder of k8s.io/kubernetes in Go's module cache; downloads it if missing."""
    answer = subprocess.run(
        [go, "mod", "download", "-json", f"k8s.io/kubernetes@{version}"],
        cwd=module,
        check=True,
        capture_output=True,
        text=True,
    )
    return Path(json.loads(answer.stdout)["Dir"])


def _change(copy: Path, version: str) -> None:
    """Applies the rules to a fresh copy."""
    for name in ("go.work", "go.work.sum"):
        (copy / name).unlink(missing_ok=True)
    # Outside of the repository of Kubernetes each staging module has a version of its own.
    staging = "v0." + version.removeprefix("v1.")
    _replace(copy / "go.mod", lambda text: STAGING.sub(rf"=> \1 {staging}", text))
    for path, lines in RULES.items():
        text = (copy / path).read_text("utf-8")
        for old, new in lines.items():
            if text.count(old) != 1:
                raise SystemExit(f"{path}: {text.count(old)} times instead of once: {old!r}")
            text = text.replace(old, new)
        (copy / path).write_text(text, "utf-8")
    for source in sorted((copy / "test" / "integration").rglob("*.go")):
        _replace(source, lambda text: STARTS.sub(r"\1.Go(", text))


def _replace(path: Path, change: Callable[[str], str]) -> None:
    _write_if_changed(path, change(path.read_text("utf-8")))


def _write_if_changed(path: Path, text: str) -> None:
    """Writes a file unless it has this text: Go compiles less again."""
    if not path.exists() or path.read_text("utf-8") != text:
        path.write_text(text, "utf-8")
