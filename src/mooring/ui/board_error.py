"""The error of the page's server."""

from __future__ import annotations


class BoardError(Exception):
    """A question that cannot be answered.

    Attributes:
        status: The HTTP status.
    """

    def __init__(self, message: str, status: int = 404) -> None:
        super().__init__(message)
        self.status = status
