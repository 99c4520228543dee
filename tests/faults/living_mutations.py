"""Bugs at lines of queue, scheduler, client and extenders that a seeded generator drew.

``random.Random(20261202)`` drew 30 of the 4 335 statements in the functions of these packages, but
for what reads kubeconfigs, credentials and certificates, and opens sockets. In the order of the
draw each line got a bug, but for logs, audits and constructors that only store. They were committed
before any was run. The table in docs/concepts/faults.md has the results.
"""

from __future__ import annotations

from typing import Final

from mooring.client.event_recorder import Recorder
from mooring.client.informer.reflector import Reflector
from mooring.client.lease_candidate import Candidacy
from mooring.client.transport import transport
from mooring.client.transport.http1_pool import _Connection
from mooring.client.write_queue import WriteQueue
from mooring.queue.in_flight import InFlight
from mooring.scheduler.binding_cycle import BindingCycle
from mooring.scheduler.resource_claims.reservation import Reservation
from mooring.scheduler.service import Service
from tests.faults.planted import PlantedBug

LIVING_BUGS: Final = [
    PlantedBug(
        "idle_writers_are_forgotten",
        "Writers that were idle are not woken any more once another one is idle",
        WriteQueue,
        "_write_items",
        "self._idle.append(turn)",
        "self._idle.clear()\n            self._idle.append(turn)",
    ),
    PlantedBug(
        "no_pre_bind_after_permit",
        "PreBind without plugins is not recorded for a pod that waited in Permit",
        BindingCycle,
        "_bind",
        "    else:\n        framework.recorder",
        "    elif binding_ctx.waiting is None:\n        framework.recorder",
    ),
    PlantedBug(
        "interim_head_counts",
        "The head of an interim response counts as that of the answer",
        _Connection,
        "on_headers_complete",
        ">= 200",
        ">= 100",
    ),
    PlantedBug(
        "flushes_drift",
        "The queue is flushed a second after the last look, not at whole seconds",
        Service,
        "_flush",
        "FLUSH_INTERVAL_S * (math.floor(now_s / FLUSH_INTERVAL_S) + 1)",
        "now_s + FLUSH_INTERVAL_S",
    ),
    PlantedBug(
        "newest_events_are_dropped",
        "Of the events that are recorded for attempts the newest ones are dropped",
        InFlight,
        "_trim",
        "del self._events[:count]",
        "del self._events[len(self._events) - count :]",
    ),
    PlantedBug(
        "observed_at_the_beginning",
        "The last time of a series of events is that of its first event",
        Recorder,
        "_add_to_series",
        "last_observed_time=event.event_time",
        "last_observed_time=series.event.event_time",
    ),
    PlantedBug(
        "deleted_but_allocated",
        "A claim that is being deleted is reserved if it has its devices already",
        Reservation,
        "attempt",
        "if claim.metadata.deletion_timestamp is not None:",
        "if claim.metadata.deletion_timestamp is not None and self._allocation is not None:",
        "device",
    ),
    PlantedBug(
        "expired_is_no_error",
        "A version that the server no longer has is not the last error of an informer",
        Reflector,
        "ended",
        "self.last_error = error",
        "self.last_error = None if isinstance(error, Gone) else error",
    ),
    PlantedBug(
        "values_in_lower_case",
        "The values of headers are in lower case, too",
        transport,
        "lower_names",
        "name.lower(): value",
        "name.lower(): value.lower()",
    ),
    PlantedBug(
        "last_batch_is_limited",
        "The longest text of an error in a stream is that of a batch, not of all",
        transport,
        "read_all",
        "size += sum",
        "size = sum",
    ),
    PlantedBug(
        "renewed_without_version",
        "A renewal of a LeaseCandidate overwrites what was stored since it was read",
        Candidacy,
        "next_version",
        "msgspec.structs.replace(current, spec=spec)",
        "msgspec.structs.replace(\n"
        "            current,\n"
        "            metadata=msgspec.structs.replace(current.metadata, resource_version=''),\n"
        "            spec=spec,\n"
        "        )",
    ),
    PlantedBug(
        "recorded_while_bound",
        "Events are recorded for a pod until it is bound, if it has no PreBind",
        BindingCycle,
        "_bind",
        "    binding_ctx.in_flight.done()\n    if pre_binders:\n",
        "    if pre_binders:\n        binding_ctx.in_flight.done()\n",
    ),
]

#: Bug -> the run and the seed that detect it.
LIVING_SEED_OF: Final = {
    "idle_writers_are_forgotten": ("writes", 0),
    "no_pre_bind_after_permit": ("cycle", 3),
    "interim_head_counts": ("pool", 0),
    "flushes_drift": ("service", 1),
    "newest_events_are_dropped": ("queue", 3),
    "observed_at_the_beginning": ("recorder", 0),
    "deleted_but_allocated": ("claims", 3),
    "expired_is_no_error": ("informer", 1),
    "values_in_lower_case": ("layers", 0),
    "last_batch_is_limited": ("layers", 0),
    "renewed_without_version": ("candidate", 0),
    "recorded_while_bound": ("cycle", 3),
}
