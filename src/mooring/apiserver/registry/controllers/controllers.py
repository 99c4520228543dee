"""Runs what controllers do at once after a change.

Upstream these are loops of their own; here they run with the request that has changed something.
"""

from __future__ import annotations

from typing import Protocol


class Controller(Protocol):
    """Follows changes of the store."""

    def run(self) -> object:
        """Handles the changes since the last call."""
        ...


class Controllers:
    """The controllers of a server, in their order."""

    def __init__(self, *controllers: Controller) -> None:
        self._controllers = controllers
        self._is_running = False
        self._has_changes = False

    def run(self) -> None:
        """Runs all of them once.

        A write may come in the middle of them, while one of them deletes many objects: its changes
        are handled when they are done.
        """
        self._has_changes = True
        if self._is_running:
            return
        self._is_running = True
        try:
            while self._has_changes:
                self._has_changes = False
                for controller in self._controllers:
                    controller.run()
        finally:
            self._is_running = False
