"""Coverage-guided fuzzing by atheris, which ``requirements/fuzz.txt`` installs."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from bench.fuzz import CORPUS, check


def fuzz(name: str, inputs: int) -> int:
    """Fuzzes one target; an input that fails ends the process, and is written to a file."""
    try:
        atheris: Any = importlib.import_module("atheris")
    except ImportError:
        print("install requirements/fuzz.txt for --guided", file=sys.stderr)
        return 2
    # Modules are instrumented when they are imported.
    for module in [module for module in sys.modules if module.startswith("mooring")]:
        del sys.modules[module]
    sys.modules.pop("bench.fuzz.targets", None)
    with atheris.instrument_imports(include=["mooring"]):
        target = importlib.import_module("bench.fuzz.targets").TARGETS[name]

    def feed(data: bytes) -> None:
        failure = check(target, data)
        if failure is not None:
            raise AssertionError(failure.problem)

    options = [sys.argv[0], f"-runs={inputs}", "-max_len=16384", "-timeout=10"]
    atheris.Setup([*options, str(CORPUS / name)], feed)
    atheris.Fuzz()
    return 0
