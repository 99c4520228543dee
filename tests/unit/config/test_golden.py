"""Configurations against kube-scheduler v1.36.3: the same files are good, and mean the same.

The answers are those of kube-scheduler itself (``data/README.md``). Where mooring refuses more, the
names are listed below with the reason; nothing that upstream refuses gets through.
"""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from mooring import cli
from mooring.config import loads
from mooring.errors import ConfigErrors
from tests.helpers.paths import UNIT_DATA

DATA = UNIT_DATA / "configs.jsonl.gz"
CASES: list[dict[str, Any]] = [
    json.loads(line) for line in gzip.decompress(DATA.read_bytes()).splitlines()
]
GOOD = [case for case in CASES if case["ok"]]
BAD = [case for case in CASES if not case["ok"]]

#: Refused here, accepted by upstream's reader.
STRICTER = {
    # client-go's elector refuses them when it starts.
    "leader-renewDeadline: 2s",
    "leader-renewDeadline: 2.4s",
    "leader-retryPeriod: 9s",
    "leader-retryPeriod: 8.5s",
    # The framework gives nothing to a plugin without a name.
    "args-noname",
    # On purpose: what the file says must be what it means.
    "profile-null",
    "two-documents",
}

_UPSTREAM_PATH = re.compile(
    r"(?:^|[\[,] ?)([a-zA-Z][\w.\[\]]*): (?:Invalid|Required|Duplicate|Unsupported|Forbidden)\b"
)


def ids(case: dict[str, Any]) -> str:
    return str(case["name"])


@pytest.mark.parametrize("case", GOOD, ids=ids)
def test_good_files_are_written_out_to_the_byte(
    case: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(case["text"])
    if case["name"] in STRICTER:
        assert cli.main(["config", "check", str(path)]) == 2
        return
    assert cli.main(["config", "check", str(path)]) == 0
    capsys.readouterr()
    assert cli.main(["config", "view", str(path)]) == 0
    assert capsys.readouterr().out == case["defaulted"]


@pytest.mark.parametrize("case", BAD, ids=ids)
def test_bad_files_are_refused(
    case: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(case["text"])
    if case["name"] == "client-kubeconfig: /x":
        # The file may be checked on another machine than the one that it is for.
        assert cli.main(["config", "check", str(path)]) == 0
        assert (
            "note: clientConnection.kubeconfig does not exist here: /x" in capsys.readouterr().err
        )
        return
    assert cli.main(["config", "check", str(path)]) == 2
    assert capsys.readouterr().err.startswith(f"mooring config: {path}: ")


#: The checks of NodeResourcesFit were asked without saying where the arguments stand.
FIT_ARGS = re.compile(r"^profiles\[0\]\.pluginConfig\[0\]\.args\.(?=scoring|ignored)")

WITH_PATHS = [case for case in BAD if _UPSTREAM_PATH.search(case["error"])]


@pytest.mark.parametrize("case", WITH_PATHS, ids=ids)
def test_the_same_places_are_at_fault(case: dict[str, Any]) -> None:
    with pytest.raises(ConfigErrors) as caught:
        loads(case["text"])
    found = {FIT_ARGS.sub("", error.path or "") for error in caught.value.errors}
    expected = {FIT_ARGS.sub("", path) for path in _UPSTREAM_PATH.findall(case["error"])}
    assert found == expected


def test_the_recorded_files_are_many_enough() -> None:
    assert (len(GOOD), len(BAD)) == (246, 386)
    assert {case["name"] for case in GOOD} >= STRICTER
