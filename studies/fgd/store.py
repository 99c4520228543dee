"""Results on disk: one JSON line for each run, so that an interrupted study goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from mooring.errors import ConfigError
from studies.fgd.experiment import Result


class Store:
    """Reads and appends results.

    Args:
        path: The file; it need not exist.

    Raises:
        ConfigError: a line before the last one is no result.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.results: dict[tuple[str, str, int], Result] = {}
        whole = b""
        for line in self._lines():
            try:
                result = msgspec.json.decode(line, type=Result)
            except msgspec.DecodeError as error:
                if line.endswith(b"\n"):
                    number = len(self.results) + 1
                    raise ConfigError(str(error), file=str(path), line=number) from error
                break  # the run was interrupted in the middle of a write
            whole += line
            self.results[result.pods, result.policy, result.seed] = result
        if path.exists() and path.stat().st_size != len(whole):
            path.write_bytes(whole)

    def _lines(self) -> Iterator[bytes]:
        if self._path.exists():
            with self._path.open("rb") as file:
                yield from file

    def add(self, result: Result) -> None:
        """Appends a result."""
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(result) + b"\n")
        self.results[result.pods, result.policy, result.seed] = result
