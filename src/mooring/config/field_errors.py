"""A fault found in a configuration, and all of them together as one error.

Whoever edits a file wants to hear of every mistake at once, so checks collect ``Fault`` values;
only ``load`` makes an error of them, since only it knows the text and its lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from mooring.errors import ConfigError
from mooring.objects.files.documents import Path


class Fault(NamedTuple):
    """What is wrong at a place; ``value`` is what was found there, None if nothing was."""

    path: Path
    problem: str
    value: Any = None
    suggestion: str | None = None


class ConfigFaults(ConfigError):
    """A configuration with one or more faults: the attributes are those of the first.

    Attributes:
        faults: All faults, each an error of its own; ``str()`` has a line for each.
    """

    def __init__(self, faults: Sequence[ConfigError]) -> None:
        first = faults[0]
        self.faults = tuple(faults)
        super().__init__(
            first.problem,
            file=first.file,
            document=first.document,
            line=first.line,
            path=first.path,
            value=first.value,
            suggestion=first.suggestion,
        )

    def located(
        self,
        *,
        file: str | None = None,
        document: int | None = None,
        line: int | None = None,
        path: str | None = None,
    ) -> ConfigFaults:
        """Returns the same faults with their place, where they do not say one themselves."""
        return ConfigFaults(
            [
                fault.located(file=file, document=document, line=line, path=path)
                for fault in self.faults
            ]
        )

    def _text(self) -> str:
        return "\n".join(map(str, self.faults))
