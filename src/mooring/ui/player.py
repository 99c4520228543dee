"""The position in something that is played back: steps of a recording.

The position is computed when it is asked for: nothing runs while no page looks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from mooring.clock import Clock
from mooring.ui.board_error import BoardError

#: Speeds that can be chosen, in units per second.
SPEEDS: Final = (1, 10, 100, 1_000)
#: Markers that a page draws; of more, the first ones.
MARKERS_MAX: Final = 2_000


class Marker(msgspec.Struct, rename="camel"):
    """A position worth a look.

    Attributes:
        position: Where.
        kind: The result of the attempt there.
        text: What happened.
    """

    position: int
    kind: str
    text: str


class PlayerState(msgspec.Struct, rename="camel"):
    """The state of a player.

    Attributes:
        position: Now, from 0.
        end: The last position.
        is_playing: Whether the position rises by itself.
        speed: Units per second.
    """

    position: int
    end: int
    is_playing: bool
    speed: int


class Timeline(msgspec.Struct, rename="camel"):
    """The part of a player that does not change while a page is open.

    Attributes:
        unit: The name of a unit: ``step``.
        speeds: The speeds to choose from.
        markers: Positions worth a look, ascending.
    """

    unit: str
    speeds: Sequence[int]
    markers: Sequence[Marker]


class Player:
    """Plays, pauses and seeks.

    Args:
        clock: Real time.
        end: The last position.
    """

    def __init__(self, clock: Clock, end: int) -> None:
        self._clock = clock
        self._end = end
        self._speed = SPEEDS[0]
        self._from = 0.0
        self._since_s: float | None = None

    def state(self) -> PlayerState:
        """Returns the state now; at the end it stops."""
        position = self._position()
        if position >= self._end:
            self._from, self._since_s = float(self._end), None
        is_playing = self._since_s is not None
        return PlayerState(math.floor(position), self._end, is_playing, self._speed)

    def command(self, body: Mapping[str, Any]) -> PlayerState:
        """Carries out ``position``, ``speed`` and ``isPlaying``, as far as they are given.

        Playing at the end begins anew.

        Raises:
            BoardError: an unknown field, or a value out of range.
        """
        for name in body.keys() - {"position", "speed", "isPlaying"}:
            raise BoardError(f'unknown field "{name}": position, speed or isPlaying', 400)
        position, speed = body.get("position"), body.get("speed", self._speed)
        playing = body.get("isPlaying", self._since_s is not None)
        if position is not None and not _is_within(position, self._end):
            raise BoardError(f"position must be from 0 to {self._end}, got {position!r}", 400)
        if speed not in SPEEDS:
            raise BoardError(f"speed must be one of {SPEEDS}, got {speed!r}", 400)
        if not isinstance(playing, bool):
            raise BoardError(f"isPlaying must be true or false, got {playing!r}", 400)
        self._from = self._position() if position is None else float(position)
        if playing and position is None and self._from >= self._end:
            self._from = 0.0
        self._speed = int(speed)
        self._since_s = self._clock.monotonic_s() if playing else None
        return self.state()

    def _position(self) -> float:
        if self._since_s is None:
            return self._from
        passed_s = self._clock.monotonic_s() - self._since_s
        return min(float(self._end), self._from + passed_s * self._speed)


def _is_within(position: Any, end: int) -> bool:
    return isinstance(position, int) and not isinstance(position, bool) and 0 <= position <= end
