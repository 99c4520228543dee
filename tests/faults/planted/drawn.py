"""Bugs at lines of the living parts that another seed drew, not yet sorted by part."""

from __future__ import annotations

from typing import Final

from mooring.client import coordinated_election
from mooring.client.transport.auth import Credentials
from mooring.client.transport.http import HttpTransport
from mooring.client.transport.idle_timer import IdleTimer
from mooring.extenders.http_extender import HTTPExtender
from mooring.framework.runtime import bind, registry, timings
from mooring.framework.runtime.framework import Framework
from mooring.queue.queues import PodQueues
from mooring.scheduler import bind_pod
from mooring.scheduler.binding_tasks import BindingTasks
from mooring.scheduler.event_handlers import EventHandlers
from mooring.scheduler.plugin_handle import PluginHandle
from mooring.state.volumes.free_index.first_match import FirstMatchIndex
from mooring.state.volumes.free_index.groups import ByCode
from tests.faults.planted.bug import PlantedBug

BUGS: Final = [
    PlantedBug(
        "names_cached_by_length",
        "The encoded names of an attempt are used again for a list of the same length",
        HTTPExtender,
        "_named",
        "self._names.names is not names",
        "len(self._names.names) != len(names)",
    ),
    PlantedBug(
        "keys_of_positions_collide",
        "Two free volumes have one key: of neighbours in the order",
        ByCode,
        "remaining",
        "codes[:-1] * (none + 1) + positions[:-1]",
        "codes[:-1] * none + positions[:-1]",
    ),
    PlantedBug(
        "certificate_is_not_renewed",
        "A client certificate is not read again after a 401",
        Credentials,
        "renew",
        "elif self.tls is not None and",
        "elif self.tls is None and",
    ),
    PlantedBug(
        "end_of_binding_is_silent",
        "The end of a binding wakes nothing that waits for the last one",
        BindingTasks,
        "_ended",
        "self._changed.set()",
        "self._changed",
    ),
    PlantedBug(
        "last_state_is_older",
        "The last version of a deleted pod is the one before",
        EventHandlers,
        "_on_pod",
        "last = change.last if change.last is not None else old",
        "last = old",
    ),
    PlantedBug(
        "backoff_is_not_ready",
        "A pod in the backoff queue does not wake an idle scheduler",
        PodQueues,
        "_move_to_backoff",
        "self._call_ready()",
        "self._call_ready",
    ),
    PlantedBug(
        "first_wait_is_not_timed",
        "The wait for the first chunk of a stream has no limit",
        IdleTimer,
        "__init__",
        "self._waits_since_s: float | None = self._loop.time()",
        "self._waits_since_s: float | None = None",
    ),
    PlantedBug(
        "failed_bind_is_not_recorded",
        "A failed Bind is not recorded",
        bind,
        "bind",
        'recorder.point("Bind", code, started_s)\n        raise',
        "raise",
    ),
    PlantedBug(
        "sent_first",
        "An unanswered binding may arrive after its first try only",
        bind_pod,
        "bind_pod",
        "sent_at_s = clock.monotonic_s()\n",
        "sent_at_s = max(sent_at_s, -1.0) if tries else clock.monotonic_s()\n",
    ),
    PlantedBug(
        "renewal_is_not_observed",
        "The renewed lease of a coordinated candidate is not observed",
        coordinated_election.CoordinatedElector,
        "_try_once",
        "self._observe(await self._requests.replace(self._held_lease(lease)))",
        "await self._requests.replace(self._held_lease(lease))",
    ),
    PlantedBug(
        "cleared_after_a_hit",
        "Cached results are invalidated only once some were used",
        Framework,
        "clear_cached_results",
        "self._cache.clear()",
        "self._cache.hits and self._cache.clear()",
    ),
    PlantedBug(
        "added_plugins_bind_last",
        "Plugins of the caller bind after those of the profile",
        registry,
        "build",
        'if point == "bind" else',
        'if point == "post_bind" else',
    ),
    PlantedBug(
        "code_of_post_filter",
        "Whatever PostFilter returns counts as a success",
        timings,
        "code_of",
        "result = result.status",
        "result = None",
    ),
    PlantedBug(
        "reason_is_action",
        "The event of a plugin has its action as the reason",
        PluginHandle,
        "report",
        "(pod, reason, action, note)",
        "(pod, action, reason, note)",
    ),
    PlantedBug(
        "closed_transport_opens",
        "A closed transport opens connections again",
        HttpTransport,
        "_session",
        "if self._is_closed:",
        "if self._is_closed and pool in self._sessions:",
    ),
    PlantedBug(
        "one_byte_less",
        "The last volume that is too small matches, too",
        FirstMatchIndex,
        "_matches",
        "self._list.first_position(request.nanos)]",
        "max(self._list.first_position(request.nanos) - 1, 0)]",
    ),
]
