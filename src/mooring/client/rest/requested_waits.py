"""Remembers for which objects the API server asked to wait (Retry-After).

The request that was refused is repeated after this wait. Others for the same object wait as well:
the eviction of a second preemptor with the same victim, or a new read after one was given up.
"""

from __future__ import annotations

import asyncio
from typing import Final

from mooring.client.retry import Sleep, requested_wait_s
from mooring.client.transport.transport import Request
from mooring.errors import SchedulerError

#: Objects that are remembered; beyond that the oldest is forgotten.
OBJECTS_MAX: Final = 1_000

_Key = tuple[str, str]


class RequestedWaits:
    """Method and path of a request -> when it may be sent again.

    Requests to collections are not remembered: each creates another object.

    Args:
        sleep: Waits.
    """

    def __init__(self, sleep: Sleep) -> None:
        self._sleep = sleep
        #: On the event loop's clock.
        self._waits: dict[_Key, float] = {}

    def __len__(self) -> int:
        """Returns the number of remembered objects."""
        return len(self._waits)

    async def wait(self, request: Request) -> None:
        """Waits as long as the server asked to wait with this request."""
        key, waited = (request.method, request.path), None
        # Again, if meanwhile another task was refused again.
        while (wait := self._waits.get(key)) is not None and wait != waited:
            left_s = wait - asyncio.get_running_loop().time()
            if left_s <= 0:
                del self._waits[key]
            else:
                waited = wait
                await self._sleep(left_s)

    def left_s(self, method: str, path: str) -> float:
        """Returns how many seconds the server asks to wait with such a request; 0 if none."""
        due_s = self._waits.get((method, path))
        return 0.0 if due_s is None else max(0.0, due_s - asyncio.get_running_loop().time())

    def note(self, request: Request, error: SchedulerError) -> None:
        """Remembers the wait that a response asks for, if any."""
        wait_s = requested_wait_s(error)
        if not wait_s or _is_creation(request):
            return
        now_s = asyncio.get_running_loop().time()
        key = request.method, request.path
        self._waits.pop(key, None)
        self._waits[key] = now_s + wait_s
        if len(self._waits) > OBJECTS_MAX:
            del self._waits[next(iter(self._waits))]


def _is_creation(request: Request) -> bool:
    return request.method == "POST" and not request.path.endswith("/binding")
