"""Runs a notebook in a kernel, and writes or checks its outputs.

    python tools/notebook.py docs/guides/notebook.ipynb           writes the outputs
    python tools/notebook.py --check docs/guides/notebook.ipynb   exits with 1 if they differ

A notebook is kept without what differs from run to run: execution counts are numbers from 1, and
there are no times and no metadata of the machine. It needs nbclient and ipykernel.
"""

from __future__ import annotations

import difflib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

#: How long one cell may run.
CELL_S = 60

#: The kernel, without the version of the machine's Python.
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def executed(text: str) -> str:
    """Returns a notebook with the outputs of a new run.

    Raises:
        CellExecutionError: a cell raises; the message has its traceback.
    """
    import nbformat
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient

    notebook = nbformat.reads(text, as_version=4)  # type: ignore[no-untyped-call]
    paths = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    with tempfile.TemporaryDirectory() as folder:
        # No port is opened: sockets of this folder.
        manager = AsyncKernelManager(kernel_name="python3", transport="ipc", ip=f"{folder}/kernel")
        client = NotebookClient(notebook, km=manager, timeout=CELL_S)
        client.execute(env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)})
    return clean(dict(notebook))


def clean(notebook: dict[str, Any]) -> str:
    """Returns the JSON of a notebook without what differs from run to run."""
    cells: list[dict[str, Any]] = []
    count = 0
    for number, cell in enumerate(notebook["cells"], 1):
        kept = {
            "cell_type": cell["cell_type"],
            "id": f"cell-{number}",
            "metadata": {},
            "source": _lines(cell["source"]),
        }
        if cell["cell_type"] == "code":
            count += 1
            kept["execution_count"] = count
            kept["outputs"] = [_output(output, count) for output in cell["outputs"]]
        cells.append(kept)
    document = {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(document, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def _output(output: dict[str, Any], count: int) -> dict[str, Any]:
    kind = output["output_type"]
    if kind == "stream":
        return {"output_type": kind, "name": output["name"], "text": _lines(output["text"])}
    data = {
        # A chart is a mapping, all else is text.
        name: value if isinstance(value, dict) else _lines(value)
        for name, value in output["data"].items()
    }
    kept = {"output_type": kind, "data": data, "metadata": {}}
    return kept | {"execution_count": count} if kind == "execute_result" else kept


def _lines(text: str | list[str]) -> list[str]:
    return "".join(text).splitlines(keepends=True)


def main(arguments: list[str]) -> int:
    """Writes or checks the outputs of notebooks; returns the exit code."""
    is_check = arguments[:1] == ["--check"]
    code = 0
    for file in map(Path, arguments[is_check:]):
        before = file.read_text(encoding="utf-8")
        after = executed(before)
        if not is_check:
            file.write_text(after, encoding="utf-8")
        elif before != after:
            lines = difflib.unified_diff(
                before.splitlines(), after.splitlines(), "kept", "new run", lineterm=""
            )
            print(f"{file}: the outputs differ", *lines, sep="\n")
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
