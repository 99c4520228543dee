r"""Classes of characters such as ``\p{Greek}``: Go 1.26's regexp is the reference.

The recorded patterns name every category, script and alias of Go's package unicode, with and
without ``(?i)`` and negation; each has the error, or which of the recorded code points match.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from mooring.cel.regex.pattern import PatternError, compile_pattern

FILE = Path(__file__).parent / "data" / "cel-unicode-classes.jsonl.gz"


def answer(pattern: str, characters: list[str]) -> dict[str, Any]:
    """Returns what mooring says of a pattern, as recorded."""
    try:
        compiled = compile_pattern(pattern)
    except PatternError as error:
        return {"pattern": pattern, "error": str(error)}
    matched = [index for index, text in enumerate(characters) if compiled.matches(text)]
    return {"pattern": pattern} | ({"matched": matched} if matched else {})


def test_every_class_has_the_characters_that_it_has_in_go() -> None:
    first, *cases = map(json.loads, gzip.decompress(FILE.read_bytes()).splitlines())
    characters = [chr(code) for code in first["codes"]]

    assert first["unicode"] == "15.0.0"
    different = [case for case in cases if answer(case["pattern"], characters) != case]
    assert different == []
    assert len(cases) > 300
    assert sum("error" in case for case in cases) > 20
