"""Packing the trace loses nothing, and refuses what its form cannot hold."""

from __future__ import annotations

import csv
import gzip
import importlib.util
import json
import random
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.traces import openb
from tests.helpers.paths import ROOT


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pack_openb", ROOT / "tools" / "pack_openb.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tool = loaded()


def pod_rows(seed: int, count: int) -> list[dict[str, str]]:
    rng = random.Random(seed)
    rows = []
    for index in range(count):
        created_s = rng.randrange(10_000)
        scheduled = str(created_s + rng.randrange(100)) if rng.random() < 0.8 else ""
        rows.append(
            {
                "name": f"openb-pod-{index:04}",
                "cpu_milli": str(rng.randrange(1000, 9000)),
                "memory_mib": str(rng.choice([0, 1024, 4096])),
                "num_gpu": str(rng.choice([0, 1, 8])),
                "gpu_milli": str(rng.choice([0, 460, 1000])),
                "gpu_spec": rng.choice(["", "T4", "G2|T4"]),
                "qos": rng.choice(["LS", "BE"]),
                "pod_phase": "Running",
                "creation_time": str(created_s),
                "deletion_time": str(created_s + rng.randrange(-5, 5000)),
                "scheduled_time": scheduled,
            }
        )
    return rows


@given(seed=st.integers(0, 2**32), count=st.integers(1, 40))
def test_what_is_packed_is_read_back_by_the_package(seed: int, count: int) -> None:
    rows = pod_rows(seed, count)
    text = json.dumps(tool.pack(rows, prefix="openb-pod-"))
    packed = msgspec.json.decode(text, type=openb._Packed)
    columns: dict[str, list[Any]] = {}
    for title, column in packed.columns.items():
        columns[title] = column.unpacked(columns)
    assert packed.rows == count
    for title in rows[0]:
        read = ["" if value is None else str(value) for value in columns[title]]
        assert read == [row[title] for row in rows]


@given(seed=st.integers(0, 2**32))
def test_the_tool_s_own_check_reads_back_the_same(seed: int) -> None:
    rows = pod_rows(seed, 12)
    assert tool.unpack(tool.pack(rows, prefix="openb-pod-")) == rows


def test_numbers_are_packed_as_numbers_and_words_as_words() -> None:
    columns = tool.pack(pod_rows(1, 5), prefix="openb-pod-")["columns"]
    assert all(isinstance(value, int) for value in columns["cpu_milli"]["values"])
    assert all(isinstance(value, str) for value in columns["qos"]["values"])
    assert columns["name"] == {"prefix": "openb-pod-", "numbers": [0, 5]}


def test_names_with_a_gap_cannot_be_packed() -> None:
    rows = pod_rows(1, 3)
    rows[2]["name"] = "openb-pod-0007"
    with pytest.raises(SystemExit, match="not consecutive"):
        tool.pack(rows, prefix="openb-pod-")


def test_a_folder_of_csv_files_becomes_one_file_a_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = pod_rows(7, 9)
    with (tmp_path / "openb_pod_list_mine.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    nodes = "sn,cpu_milli,memory_mib,gpu,model\nopenb-node-0000,64000,262144,2,P100\n"
    (tmp_path / "openb_node_list_gpu_node.csv").write_text(nodes)
    assert tool.main([str(tmp_path), str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("nodes_gpu.json.gz: 1 rows, ")
    first = (tmp_path / "pods_mine.json.gz").read_bytes()
    assert tool.unpack(json.loads(gzip.decompress(first))) == rows
    tool.main([str(tmp_path), str(tmp_path)])
    assert (tmp_path / "pods_mine.json.gz").read_bytes() == first


def test_without_two_folders_the_tool_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main([]) == 2
    assert "python tools/pack_openb.py" in capsys.readouterr().out


def test_what_is_shipped_stays_below_a_megabyte_with_its_terms() -> None:
    folder = ROOT / "src" / "mooring" / "data" / "openb"
    files = {path.name: path.stat().st_size for path in folder.iterdir()}
    assert sum(files.values()) < 1_000_000
    assert len([name for name in files if name.endswith(".json.gz")]) == 19
    notice = (folder / "NOTICE").read_text()
    for words in ("github.com/alibaba/clusterdata", "no licence file", "USENIX ATC 2023"):
        assert words in notice
