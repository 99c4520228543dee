"""One difference between two decisions, as a value and as a line of text."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

#: How the text of a PostFilter plugin may begin, after the full stop that closes the histogram.
_POST_FILTER_TEXT: Final = re.compile(
    r"\. (?=no new claims to deallocate|still not schedulable|deallocation of ResourceClaim"
    r"|preemption: |not found$)"
)

ABSENT: Final = "absent"


class Difference(msgspec.Struct, frozen=True):
    """One field of one step that came out otherwise; ``plugin`` and ``node`` where they apply."""

    step: int
    pod: str
    field: str
    plugin: str | None
    node: str | None
    recorded: Any
    decided: Any

    def __str__(self) -> str:
        """Returns one line for a person.

        Example:
            >>> print(Difference(3, "default/a", "scores", "NodeResourcesFit", "n1", 55, 54))
            step 3, pod default/a: scores of NodeResourcesFit on node n1: recorded 55, decided 54
        """
        what = self.field
        if self.plugin:
            what += f" of {self.plugin}"
        if self.node:
            what += f" on node {self.node}"
        where = f"step {self.step}, pod {self.pod}"
        return f"{where}: {what}: recorded {_shown(self.recorded)}, decided {_shown(self.decided)}"


def histogram_part(message: str | None) -> str | None:
    """Returns a failure's message up to the full stop where the PostFilter plugins begin to speak.

    Example:
        >>> histogram_part("0/1 nodes are available: 1 Too many pods. preemption: no.")
        '0/1 nodes are available: 1 Too many pods.'
    """
    if message is None:
        return None
    found = _POST_FILTER_TEXT.search(message)
    return message if found is None else message[: found.start() + 1]


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict) and "plugin" in value:
        return f"{value['plugin']} {value['code']} ({'; '.join(value['reasons'])})"
    return repr(value) if isinstance(value, str) else str(value)
