"""A difference between two decisions, as a value and as a line of text."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

#: The beginning of a PostFilter plugin's message, after the full stop that ends the histogram.
_POST_FILTER_TEXT: Final = re.compile(
    r"\. (?=no new claims to deallocate|still not schedulable|deallocation of ResourceClaim"
    r"|preemption: |not found$)"
)

ABSENT: Final = "absent"


class Difference(msgspec.Struct, frozen=True):
    """A field of a step with different values; ``plugin`` and ``node`` if they apply."""

    step: int
    pod: str
    field: str
    plugin: str | None
    node: str | None
    recorded: Any
    decided: Any

    def __str__(self) -> str:
        """Returns one line of text.

        Example:
            >>> print(Difference(3, "default/a", "scores", "NodeResourcesFit", "n1", 55, 54))
            step 3, pod default/a: scores of NodeResourcesFit on node n1: recorded 55, decided 54
        """
        field = self.field
        if self.plugin:
            field += f" of {self.plugin}"
        if self.node:
            field += f" on node {self.node}"
        position = f"step {self.step}, pod {self.pod}"
        return (
            f"{position}: {field}: recorded {_text(self.recorded)}, decided {_text(self.decided)}"
        )


def histogram_part(message: str | None) -> str | None:
    """Returns a failure's message without the messages of the PostFilter plugins.

    Example:
        >>> histogram_part("0/1 nodes are available: 1 Too many pods. preemption: no.")
        '0/1 nodes are available: 1 Too many pods.'
    """
    if message is None:
        return None
    match = _POST_FILTER_TEXT.search(message)
    return message if match is None else message[: match.start() + 1]


def _text(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict) and "plugin" in value:
        return f"{value['plugin']} {value['code']} ({'; '.join(value['reasons'])})"
    return repr(value) if isinstance(value, str) else str(value)
