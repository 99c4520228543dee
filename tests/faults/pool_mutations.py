"""Bugs of the connection pool, written before a run of it had detected any."""

from __future__ import annotations

from typing import Final

from mooring.client.transport import http1_pool
from mooring.client.transport.deadlines import Deadlines
from mooring.client.transport.http1_pool import Http1Pool
from mooring.client.transport.turns import Turns
from tests.faults.planted import PlantedBug

_Connection = http1_pool._Connection

_BUGS: Final = [
    PlantedBug(
        "oldest_idle_first",
        "The connection that is idle the longest is used first",
        Http1Pool,
        "_take_idle",
        "self._idle.pop()",
        "self._idle.popleft()",
    ),
    PlantedBug(
        "limit_is_one_less",
        "A connection is closed when the limit is reached, not exceeded",
        Http1Pool,
        "_release",
        "len(self._all) > self._limit",
        "len(self._all) >= self._limit",
    ),
    PlantedBug(
        "failed_connect_wakes_none",
        "A connection that cannot be opened wakes no request that waits",
        Http1Pool,
        "_open",
        "        self._turns.wake_next()\n        raise",
        "        raise",
    ),
    PlantedBug(
        "lost_connection_wakes_none",
        "The end of a connection wakes no request that waits",
        Http1Pool,
        "_lost",
        "    self._turns.wake_next()",
        "    pass",
    ),
    PlantedBug(
        "woken_at_its_deadline",
        "A request that is woken at its deadline wakes no other",
        Http1Pool,
        "_acquire",
        "            self._turns.wake_next()\n            raise TimeoutError",
        "            raise TimeoutError",
    ),
    PlantedBug(
        "failed_connection_is_kept",
        "A connection whose request has failed takes the next one",
        _Connection,
        "_fail",
        "    self._keeps_alive = False\n",
        "",
    ),
    PlantedBug(
        "close_is_not_read",
        "Connection: close is ignored",
        _Connection,
        "on_message_complete",
        "self._keeps_alive and self._parser.should_keep_alive()",
        "self._keeps_alive",
    ),
    PlantedBug(
        "unasked_response_is_ignored",
        "A response that belongs to no request does not end the connection",
        _Connection,
        "on_message_begin",
        "        self._keeps_alive = False\n        self.abort()",
        "        pass",
    ),
    PlantedBug(
        "limit_of_last_request",
        "A response is limited by the request before",
        _Connection,
        "exchange",
        "self._bytes_max, self.due_s = bytes_max, due_s",
        "self._bytes_max, self.due_s = self._bytes_max or bytes_max, due_s",
    ),
    PlantedBug(
        "timer_of_later_deadline",
        "The timer is set for a later deadline, not for an earlier one",
        Http1Pool,
        "request",
        "if due_s < self._deadlines.due_s:",
        "if due_s > self._deadlines.due_s or self._deadlines.due_s == math.inf:",
    ),
    PlantedBug(
        "last_deadline_is_next",
        "The timer is set for the last deadline that is left",
        Deadlines,
        "_expire",
        "next_s = min(next_s, request.due_s)",
        "next_s = request.due_s",
    ),
    PlantedBug(
        "newest_idle_sets_timer",
        "The timer of idle connections is that of the newest",
        Http1Pool,
        "_close_idle",
        "self._idle[0].idle_since_s + IDLE_S_MAX\n        self._idle_timer",
        "self._idle[-1].idle_since_s + IDLE_S_MAX\n        self._idle_timer",
    ),
    PlantedBug(
        "cancelled_turn_is_lost",
        "A connection is not passed on if its request is cancelled at that moment",
        Turns,
        "wait",
        "self._release(turn.result())",
        "pass",
    ),
    PlantedBug(
        "early_hints_are_final",
        "A response of 103 is the final one",
        _Connection,
        "on_message_complete",
        "if status < 200:",
        "if status < 103:",
    ),
    PlantedBug(
        "sizes_add_up",
        "The size of a response counts for the next one on the connection",
        _Connection,
        "on_message_begin",
        "self._headers, self._parts, self._size, self._has_head = [], [], 0, False",
        "self._headers, self._parts, self._has_head = [], [], False",
    ),
    PlantedBug(
        "last_waiting_first",
        "The request that waits for the shortest time is the next",
        Turns,
        "wake_next",
        "self._turns.popleft()",
        "self._turns.pop()",
    ),
    PlantedBug(
        "cut_response_is_complete",
        "A response without a length is complete though its connection failed",
        _Connection,
        "connection_lost",
        "exc is None and self._has_head",
        "self._has_head",
    ),
    PlantedBug(
        "one_idle_is_retired",
        "A retired pool closes one idle connection",
        Http1Pool,
        "retire",
        "while self._idle:",
        "if self._idle:",
    ),
    PlantedBug(
        "slow_counts",
        "A slow request counts for the limit until it has waited twice as long",
        Http1Pool,
        "_slow_count",
        "now_s - SLOW_S",
        "now_s - 2 * SLOW_S",
    ),
    PlantedBug(
        "opening_does_not_count",
        "A connection that is being opened does not count for the limit",
        Http1Pool,
        "_acquire",
        "len(self._all) + self._opening - self._slow_count(now_s)",
        "len(self._all) - self._slow_count(now_s)",
    ),
    PlantedBug(
        "closed_while_connecting",
        "A request is sent although the pool was closed while it connected",
        Http1Pool,
        "_open",
        "if self._is_closed:",
        "if self._is_closed and not self._all:",
    ),
    PlantedBug(
        "second_address_is_enough",
        "The error of the first address ends the attempt",
        Http1Pool,
        "_connect",
        "            failure = error\n",
        "            failure = error\n            break\n",
    ),
]

POOL_BUGS: Final = [bug._replace(runs="pool") for bug in _BUGS]
