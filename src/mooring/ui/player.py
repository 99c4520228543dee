"""The position in something that is played back: steps of a recording, or a virtual time.

The position is computed when it is asked for: nothing runs while no page looks.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from mooring.clock import Clock
from mooring.ui.board_error import BoardError

#: Speeds that can be chosen, in units per second.
SPEEDS: Final = (1, 10, 100, 1_000)
#: Units of a time in a second: a position is a number of microseconds.
TIME_UNITS: Final = 1_000_000
#: Speeds over a time, in virtual seconds per second: up to a day.
TIME_SPEEDS: Final = (1, 10, 60, 600, 3_600, 21_600, 86_400)
#: The names of units.
STEP: Final = "step"
TIME: Final = "time"
#: Markers that a page draws; of more, the first ones.
MARKERS_MAX: Final = 2_000


class Marker(msgspec.Struct, rename="camel"):
    """A position worth a look.

    Attributes:
        position: Where.
        kind: The result of the attempt there, or what happened.
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
        speed: Steps, or virtual seconds, per second.
    """

    position: int
    end: int
    is_playing: bool
    speed: int


class Timeline(msgspec.Struct, rename="camel"):
    """The part of a player that does not change while a page is open.

    Attributes:
        unit: ``step``, or ``time``: then a position is a number of microseconds.
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
        stops: The positions that a step goes to, ascending, first and last one included; None =
            all positions, and speeds count them. With stops a position is a time.
    """

    def __init__(self, clock: Clock, end: int, stops: Sequence[int] | None = None) -> None:
        self._clock = clock
        self._end = end
        self._stops = range(end + 1) if stops is None else stops
        self._units = 1 if stops is None else TIME_UNITS
        self.speeds: Final = SPEEDS if stops is None else TIME_SPEEDS
        self._speed = self.speeds[0]
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
        """Carries out ``position`` or ``step``, ``speed`` and ``isPlaying``, if they are given.

        ``step`` is 1 or -1: to the next stop, or the one before. Playing at the end begins anew.

        Raises:
            BoardError: an unknown field, or a value out of range.
        """
        for name in sorted(body.keys() - {"position", "step", "speed", "isPlaying"}):
            raise BoardError(f'unknown field "{name}": position, step, speed or isPlaying', 400)
        if "step" in body:
            body = {**body, "position": self._stepped(body)}
        position, speed = body.get("position"), body.get("speed", self._speed)
        playing = body.get("isPlaying", self._since_s is not None)
        if position is not None and not _is_within(position, self._end):
            raise BoardError(f"position must be from 0 to {self._end}, got {position!r}", 400)
        if speed not in self.speeds:
            raise BoardError(f"speed must be one of {self.speeds}, got {speed!r}", 400)
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
        return min(float(self._end), self._from + passed_s * self._speed * self._units)

    def _stepped(self, body: Mapping[str, Any]) -> int:
        step, position = body["step"], math.floor(self._position())
        if isinstance(step, bool) or step not in (1, -1) or "position" in body:
            raise BoardError(f"step must be 1 or -1, without a position, got {step!r}", 400)
        if step == 1:
            index = min(bisect_right(self._stops, position), len(self._stops) - 1)
        else:
            index = max(0, bisect_left(self._stops, position) - 1)
        return self._stops[index]


def _is_within(position: Any, end: int) -> bool:
    return isinstance(position, int) and not isinstance(position, bool) and 0 <= position <= end
