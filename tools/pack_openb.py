"""Pack the openb trace into the form that the package ships; run once per new version of the trace.

    python tools/pack_openb.py FOLDER_WITH_THE_CSV_FILES src/mooring/data/openb

One file per list, gzip'd JSON (``openb/1``), columns instead of rows: a column of few distinct
values is written as ``{"values": [...], "rows": [index, ...]}``; a time is written as its distance
to the column that its ``"after"`` names, or to the row before. ``mooring.traces.openb`` reads
it back. Nothing is lost: this program unpacks what it wrote and compares it with the csv.
"""

from __future__ import annotations

import csv
import gzip
import json
import sys
from pathlib import Path
from typing import Any

FORMAT = "openb/1"
DICTIONARY = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "pod_phase")
NODE_DICTIONARY = ("cpu_milli", "memory_mib", "gpu", "model")
NUMBERS = {"cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu"}
TIMES = {"creation_time": None, "deletion_time": "creation_time", "scheduled_time": "creation_time"}


def main(arguments: list[str]) -> int:
    """Pack every list of a folder; return an exit code."""
    if len(arguments) != 2:
        print(__doc__)
        return 2
    source, target = map(Path, arguments)
    for path in sorted(source.glob("openb_*_list_*.csv")):
        kind, _, name = path.stem.removeprefix("openb_").partition("_list_")
        rows = read_rows(path)
        document = pack(rows, prefix=f"openb-{kind}-")
        if unpack(document) != rows:
            raise SystemExit(f"{path}: does not survive packing")
        text = json.dumps(document, separators=(",", ":")).encode()
        packed = target / f"{kind}s_{name.removesuffix('_node')}.json.gz"
        packed.write_bytes(gzip.compress(text, 9, mtime=0))
        print(f"{packed.name}: {len(rows)} rows, {packed.stat().st_size} bytes")
    return 0


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a csv file, every value as text."""
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def pack(rows: list[dict[str, str]], *, prefix: str) -> dict[str, Any]:
    """Turn rows into columns; names must be the prefix and a number of four digits."""
    name_column = next(iter(rows[0]))
    columns: dict[str, Any] = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        if name == name_column:
            columns[name] = {"prefix": prefix, "numbers": _numbers(values, prefix)}
        elif name in TIMES:
            columns[name] = _times(values, name, rows)
        else:
            columns[name] = _dictionary(values, is_number=name in NUMBERS)
    return {"format": FORMAT, "rows": len(rows), "columns": columns}


def unpack(document: dict[str, Any]) -> list[dict[str, str]]:
    """The rows again, written straight from the description above: the check of ``pack``."""
    columns: dict[str, list[str]] = {}
    for name, column in document["columns"].items():
        if "prefix" in column:
            first, count = column["numbers"]
            names = range(first, first + count)
            columns[name] = [f"{column['prefix']}{number:04}" for number in names]
        elif "values" in column:
            columns[name] = [str(column["values"][index]) for index in column["rows"]]
        else:
            columns[name] = _times_back(column, columns)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _numbers(values: list[str], prefix: str) -> list[int]:
    first = int(values[0].removeprefix(prefix))
    if values != [f"{prefix}{first + index:04}" for index in range(len(values))]:
        raise SystemExit("names are not consecutive")
    return [first, len(values)]


def _dictionary(values: list[str], *, is_number: bool) -> dict[str, Any]:
    index = {value: position for position, value in enumerate(dict.fromkeys(values))}
    distinct = [int(value) if is_number else value for value in index]
    return {"values": distinct, "rows": [index[value] for value in values]}


def _times(values: list[str], name: str, rows: list[dict[str, str]]) -> dict[str, Any]:
    after = TIMES[name]
    start = ["0", *values[:-1]] if after is None else [row[after] for row in rows]
    distances = [
        int(value) - int(base) if value else None for value, base in zip(values, start, strict=True)
    ]
    return {"after": after, "distances_s": distances}


def _times_back(column: dict[str, Any], columns: dict[str, list[str]]) -> list[str]:
    if column["after"]:
        bases = map(int, columns[column["after"]])
        pairs = zip(bases, column["distances_s"], strict=True)
        return ["" if distance is None else str(base + distance) for base, distance in pairs]
    total, times = 0, []
    for distance in column["distances_s"]:
        total += distance
        times.append(str(total))
    return times


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
