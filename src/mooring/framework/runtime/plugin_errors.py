"""Counts and logs the errors of plugins."""

from __future__ import annotations

import logging
from typing import Any, Final

from mooring.errors import PluginError

_log = logging.getLogger(__name__)

#: Limit of the time series: a plugin may raise PluginErrors with any name and extension point.
PAIRS_MAX: Final = 1000

#: Stands for the plugin and the extension point of errors beyond ``PAIRS_MAX``.
OTHER: Final = ("other", "other")


class PluginErrors:
    """(plugin name, extension point) -> how many errors; one per profile."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}

    def count(self, error: PluginError) -> None:
        """Counts an error that is reported elsewhere, for example in the status of its pod."""
        pair = (error.plugin, error.point)
        if pair not in self._counts and len(self._counts) >= PAIRS_MAX:
            pair = OTHER
        self._counts[pair] = self._counts.get(pair, 0) + 1

    def log(self, error: PluginError, **facts: Any) -> None:
        """Counts and logs an error that does not fail its pod, with its traceback.

        Args:
            error: The error that ``Framework.call`` raised.
            facts: Additional log fields: ``pod="default/web"``.
        """
        self.count(error)
        fields = {"plugin": error.plugin, "extension_point": error.point, **facts}
        fields["error"] = str(error)
        if error.location:
            fields["at"] = error.location
        _log.error("a plugin failed", extra=fields, exc_info=error)

    def statistics(self) -> dict[tuple[str, str], int]:
        """Returns a copy of the counts, in order of the first error."""
        return dict(self._counts)
