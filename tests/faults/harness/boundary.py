"""Records what the code of a run gets from the code under test: each result that crosses over.

::

    tests/faults/parts/*.py ── calls ──> src/mooring
                            <─ result ──            ──> an entry "function returned ..."

A run of a part calls its part directly, so what it gets back is all that the part shows. Only
calls from the tests into ``mooring`` count: how the code under test is divided does not matter.
Left out are special methods, since hash tables and sorts call them as they like, and the end of a
call by an exception, which the run sees itself.
"""

from __future__ import annotations

import dataclasses
import dis
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import msgspec
import numpy as np

import mooring
from tests.faults.harness.texts import text_of, without_addresses

#: Where the code under test is, and the code of the runs.
SOURCE: Final = str(Path(mooring.__file__).parent)
TESTS: Final = str(Path(__file__).resolve().parents[1])
#: The modules that record: their calls are not those of a run.
RECORDERS: Final = frozenset({"recording.py", "boundary.py", "texts.py", "records.py"})

#: Entries have at most so many characters of a result, and so many levels of it.
TEXT_MAX: Final = 20_000
DEPTH_MAX: Final = 4
#: Of each function so many results are entries; a check after each step would have thousands.
RESULTS_MAX: Final = 30

_RETURNS: Final = frozenset(
    dis.opmap[name] for name in ("RETURN_VALUE", "RETURN_CONST") if name in dis.opmap
)


@contextmanager
def recorded_results(add: Callable[[str], None]) -> Iterator[None]:
    """Calls ``add`` with a text for each result that crosses over during the block."""
    labels: dict[CodeType, str] = {}
    callers: dict[CodeType, bool] = {}
    counts: Counter[CodeType] = Counter()

    def on_event(frame: FrameType, event: str, result: Any) -> None:
        if event != "return":
            return
        code = frame.f_code
        label = labels.get(code)
        if label is None:
            label = labels[code] = _label(code, frame.f_globals)
        back = frame.f_back
        if not label or back is None:
            return
        is_test = callers.get(back.f_code)
        if is_test is None:
            is_test = callers[back.f_code] = _is_test(back.f_code)
        # A coroutine that waits, or an exception that passes, is no result.
        if is_test and result is not None and code.co_code[frame.f_lasti] in _RETURNS:
            counts[code] += 1
            if counts[code] >= RESULTS_MAX:
                labels[code] = ""
            sys.setprofile(None)
            try:
                add(f"{label} returned {full_text(result)[:TEXT_MAX]}")
            finally:
                sys.setprofile(on_event)

    before = sys.getprofile()
    sys.setprofile(on_event)
    try:
        yield
    finally:
        sys.setprofile(before)


def _label(code: CodeType, names: Mapping[str, Any]) -> str:
    """Returns the name of a function of the code under test whose results count, else "".

    A function with a cache is called in the first run of a process only, and metrics of the process
    differ from run to run.
    """
    if not code.co_filename.startswith(SOURCE) or code.co_name.startswith(("<", "__")):
        return ""
    if hasattr(names.get(code.co_qualname), "cache_info") or code.co_name.startswith("expose"):
        return ""
    return f"{Path(code.co_filename).stem}.{code.co_qualname}"


def _is_test(code: CodeType) -> bool:
    path = Path(code.co_filename)
    return code.co_filename.startswith(TESTS) and path.name not in RECORDERS


def full_text(value: Any, depth: int = 0) -> str:
    """Returns a text of a value with what is in it; the same in every process."""
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, np.ndarray):
        return full_text(value.tolist(), depth)
    if depth >= DEPTH_MAX:
        return text_of(value)
    if isinstance(value, msgspec.Struct):
        return without_addresses(_json_of(value))
    if isinstance(value, Mapping):
        pairs = (f"{text_of(key)}: {full_text(it, depth + 1)}" for key, it in value.items())
        # Of counters by name the order may be that of a set.
        return "{" + ", ".join(sorted(pairs)) + "}"
    if isinstance(value, Set):
        return "{" + ", ".join(sorted(full_text(it, depth + 1) for it in value)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(full_text(it, depth + 1) for it in value) + "]"
    if dataclasses.is_dataclass(value):
        fields = (
            f"{it.name}={full_text(getattr(value, it.name, None), depth + 1)}"
            for it in dataclasses.fields(value)
            if it.repr and not it.name.startswith("_")
        )
        return f"{type(value).__name__}({', '.join(fields)})"
    return text_of(value)


def _json_of(value: msgspec.Struct) -> str:
    try:
        encoded = msgspec.json.encode(value, enc_hook=_type_name, order="deterministic")
        return encoded.decode()
    except (TypeError, ValueError, msgspec.MsgspecError):
        return text_of(value)


def _type_name(value: object) -> str:
    return type(value).__name__
