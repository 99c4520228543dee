"""``mooring run`` and recorded answers of kube-scheduler to bad configurations: the same last line.

The files are those of ``tests/unit/config/test_golden.py``.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mooring.component.go_values import quote
from tests.helpers.command_line import restored_logging, run_command
from tests.helpers.paths import UNIT_DATA
from tests.unit.cli.test_run import kubeconfig

CASES: list[dict[str, Any]] = [
    json.loads(line)
    for line in gzip.decompress((UNIT_DATA / "configs.jsonl.gz").read_bytes()).splitlines()
]
BAD = [case for case in CASES if not case["ok"]]

#: Refused with the same exit code and another text.
OTHER_TEXT = {
    # Upstream reports another one of several errors, or in another order.
    *("removed-two", "args-nodeaffinity-two-bad", "own-postBind-twice"),
    # Other parsers.
    *("broken", "extender-tls-data", "extender-tls-data-bad"),
}


@pytest.fixture(autouse=True)
def _root() -> Iterator[None]:
    with restored_logging():
        yield


@pytest.mark.parametrize("case", BAD, ids=lambda case: str(case["name"]))
def test_the_last_line_is_that_of_kube_scheduler(
    case: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(case["text"])
    code, _, err = run_command(
        capsys,
        "run",
        f"--config={path}",
        "--secure-port=0",
        kubeconfig(tmp_path),
        f"--write-config-to={tmp_path / 'o'}",
    )
    assert code == 1
    lines = "".join(f"\t{line}\n" for line in case["error"].removesuffix("\n").split("\n"))
    expected = f"err=<\n{lines} >" if "\n" in case["error"] else f"err={quote(case['error'])}"
    is_equal = err.endswith(f'"command failed" {expected}\n')
    assert is_equal is (case["name"] not in OTHER_TEXT), err
