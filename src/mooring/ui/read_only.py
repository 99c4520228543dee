"""A board that cannot be written to."""

from __future__ import annotations

from collections.abc import Mapping

from mooring.ui.board import Applied
from mooring.ui.board_error import BoardError


class ReadOnly:
    """Refuses writes.

    Args:
        source: The name of the source, for messages.
    """

    def __init__(self, source: str) -> None:
        self._source = source

    def watched(self, count: int) -> None:
        """Does nothing: nothing is collected for pages."""
        del count

    async def apply(self, text: str) -> list[Applied]:
        """Raises BoardError."""
        del text
        raise self._refusal()

    async def delete(self, reference: Mapping[str, str]) -> str:
        """Raises BoardError."""
        del reference
        raise self._refusal()

    async def load(self, text: str, *, replaces: bool) -> list[Applied]:
        """Raises BoardError."""
        del text, replaces
        raise self._refusal()

    async def reset(self) -> str:
        """Raises BoardError."""
        raise self._refusal()

    async def export(self) -> bytes:
        """Raises BoardError."""
        raise self._refusal()

    def _refusal(self) -> BoardError:
        return BoardError(f"{self._source} is read-only", 405)
