"""Ask the real kube-scheduler what it makes of configuration files.

Reads ``tests/unit/data/configs.jsonl.gz`` (lines with ``name`` and ``text``; further lines may come
on standard input) and writes it anew, each line with ``ok``, ``defaulted`` (what --write-config-to
wrote) and ``error`` (its message, if it refused the file)::

    .venv/bin/python tools/record_configs.py < more.jsonl
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from mooring.testing.controlplane.binaries import build
from mooring.testing.controlplane.programs import run_program

DATA = Path(__file__).parent.parent / "tests" / "unit" / "data" / "configs.jsonl.gz"

#: The address of an API server that is never asked: without one the file must name a kubeconfig.
MASTER = "http://127.0.0.1:1"

_ONE_LINE = re.compile(r'"command failed" err=("(?:[^"\\]|\\.)*")')
_BLOCK = re.compile(r'"command failed" err=<\n(.*?)\n >', re.DOTALL)


def verdict(kube_scheduler: Path, name: str, text: str) -> dict[str, Any]:
    """What kube-scheduler makes of one file."""
    with tempfile.TemporaryDirectory() as folder:
        given, written = Path(folder, "config.yaml"), Path(folder, "written.yaml")
        given.write_text(text)
        command: list[str | Path] = [kube_scheduler, "--config", given, "--master", MASTER]
        ended = run_program([*command, "--write-config-to", written], limit_s=30)
        if written.exists():
            return {"name": name, "text": text, "ok": True, "defaulted": written.read_text()}
        return {"name": name, "text": text, "ok": False, "error": message(ended.stderr)}


def message(log: str) -> str:
    """The error in a log, as one text."""
    found = _ONE_LINE.search(log)
    if found:
        return str(json.loads(found[1]))
    block = _BLOCK.search(log)
    if block is None:
        raise SystemExit(f"no error in the log:\n{log}")
    return "\n".join(line.removeprefix("\t") for line in block[1].splitlines())


def main() -> None:
    """Record every file again, and the new ones."""
    lines = gzip.decompress(DATA.read_bytes()).decode().splitlines()
    lines += [] if sys.stdin.isatty() else sys.stdin.read().splitlines()
    cases = {case["name"]: case["text"] for case in map(json.loads, lines)}
    kube_scheduler = build() / "kube-scheduler"
    verdicts = [verdict(kube_scheduler, name, text) for name, text in cases.items()]
    packed = "".join(json.dumps(found) + "\n" for found in verdicts).encode()
    DATA.write_bytes(gzip.compress(packed, mtime=0))
    good = sum(found["ok"] for found in verdicts)
    print(f"{len(verdicts)} files, {good} good, written to {DATA}")


if __name__ == "__main__":
    main()
