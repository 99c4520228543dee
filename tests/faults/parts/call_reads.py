"""For how long a pod is read after an extender was called to bind it.

Not at all if the call was certainly not sent, or has succeeded; once after an answer that refuses
it; and without a usable answer for as long as the call may still have an effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

from mooring.state import PodInfo

#: A binding without an answer may have an effect within so long.
ARRIVES_S: Final = 125.0


class BindingReads:
    """The reads of pods, which are not bound: that is the subject of another run.

    Attributes:
        due_s: For how long the pod of the next call is to be read.
    """

    def __init__(self) -> None:
        self.due_s: list[float] = []
        self._read_s: list[float] = []

    def expect(self, meaning: Any, result: Any, *, is_sent: bool) -> None:
        """Expects the reads after a call: with what the answer means, and the due result."""
        self._read_s.clear()
        if not isinstance(result, str) or not is_sent:
            self.due_s = []
        else:
            self.due_s = [0.0] if result == meaning else [ARRIVES_S]

    def expect_late(self) -> None:
        """Expects the reads after a call that is given up before its answer."""
        self.due_s = [ARRIVES_S]

    async def read(self, pod: PodInfo, node_name: str, arrives_within_s: float) -> bool:
        """Returns that the pod is not bound."""
        del pod, node_name
        self._read_s.append(arrives_within_s)
        await asyncio.sleep(0)
        return False

    def problems(self, what: str) -> Iterator[str]:
        """Yields a difference."""
        if self._read_s != self.due_s:
            yield f"{what}: the pod is read for {self._read_s} s, not for {self.due_s} s"
