"""The notebooks of the guides are run in a kernel, and print what they show."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "docs/guides/notebook.ipynb"
NOTEBOOKS = sorted((ROOT / "docs").rglob("*.ipynb"))


def check(notebook: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools/notebook.py"), "--check", str(notebook)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_its_cells_print(notebook: Path) -> None:
    result = check(notebook)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.slow
def test_an_output_that_differs_is_shown(tmp_path: Path) -> None:
    notebook: dict[str, Any] = json.loads(NOTEBOOK.read_text())
    cell = next(own for own in notebook["cells"] if own["cell_type"] == "code")
    wrong = {"output_type": "stream", "name": "stdout", "text": ["3\n"]}
    notebook["cells"] = [{**cell, "id": "cell-1", "source": ["print(1 + 1)"], "outputs": [wrong]}]
    file = tmp_path / "wrong.ipynb"
    file.write_text(json.dumps(notebook, indent=1, sort_keys=True) + "\n")

    result = check(file)

    assert result.returncode == 1
    assert '-      "3\\n"' in result.stdout
    assert '+      "2\\n"' in result.stdout


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_no_trace_of_a_machine(file: Path) -> None:
    notebook = json.loads(file.read_text())
    assert notebook["metadata"]["language_info"] == {"name": "python"}
    assert all(cell["metadata"] == {} for cell in notebook["cells"])
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert not any(output["output_type"] == "error" for cell in code for output in cell["outputs"])
