"""The published results: means and medians of ten seeds, for each list, policy and per cent.

``published.json.gz`` has them from the files that the authors published with their simulator (see
NOTICE); ``python -m studies.fgd.published FOLDER`` makes it of those files.
"""

from __future__ import annotations

import csv
import gzip
import statistics
import sys
from importlib import resources
from pathlib import Path
from typing import Final

import msgspec

from studies.fgd.experiment import LAST
from studies.fgd.policies import POLICIES

_FILE: Final = "published.json.gz"
_SOURCES: Final = {
    "allocated": "analysis_allo_discrete.csv",
    "fragmented": "analysis_frag_discrete.csv",
}


class Curve(msgspec.Struct, frozen=True):
    """Ten runs of one list and policy, by requested GPUs in per cent.

    Attributes:
        mean: Means of the seeds.
        median: Medians of the seeds.
        deviation: Standard deviations of the seeds.
    """

    mean: list[float]
    median: list[float]
    deviation: list[float]


#: What is measured -> list -> policy -> curve.
Published = dict[str, dict[str, dict[str, Curve]]]


def read_published() -> Published:
    """Returns the published curves: "allocated" and "fragmented", in per cent of all GPUs."""
    data = resources.files("studies.fgd").joinpath(_FILE).read_bytes()
    return msgspec.json.decode(gzip.decompress(data), type=Published)


def curve_of(rows: list[list[float]]) -> Curve:
    """Returns the curve of several runs; each row has the values of one."""
    columns = [list(column) for column in zip(*rows, strict=True)]
    return Curve(
        [round(statistics.fmean(column), 3) for column in columns],
        [round(statistics.median(column), 3) for column in columns],
        [round(statistics.stdev(column), 3) if len(column) > 1 else 0.0 for column in columns],
    )


def _packed(folder: Path) -> Published:
    published: Published = {}
    for measure, file in _SOURCES.items():
        rows: dict[tuple[str, str], list[list[float]]] = {}
        with (folder / file).open(newline="", encoding="utf-8") as lines:
            for row in csv.DictReader(lines):
                pods = row["workload"].removeprefix("openb_pod_list_")
                policy = POLICIES[int(row["sc_policy"][:2]) - 1]
                values = [float(row[str(percent)]) for percent in range(LAST + 1)]
                rows.setdefault((pods, policy), []).append(values)
        lists = published[measure] = {}
        for (pods, policy), runs in sorted(rows.items()):
            lists.setdefault(pods, {})[policy] = curve_of(runs)
    return published


if __name__ == "__main__":
    data = msgspec.json.encode(_packed(Path(sys.argv[1])))
    (Path(__file__).parent / _FILE).write_bytes(gzip.compress(data, mtime=0))
