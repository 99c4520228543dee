"""Bugs of queue, scheduler, client and extenders by reviewers who had read the sources alone.

List 35 of ``docs/concepts/planted-bugs.md``.
"""

from __future__ import annotations

from typing import Final

from mooring.client import retry
from mooring.client.coordinated_election import CoordinatedElector
from mooring.client.informer.reflector import Reflector
from mooring.client.rest import requested_waits
from mooring.client.transport.rate_limit import RateLimitedTransport
from mooring.client.write_queue import WriteQueue
from mooring.extenders import wire
from mooring.extenders.full_objects import FullObjectCache
from mooring.extenders.http import HttpExtenderTransport
from mooring.extenders.http_extender import HTTPExtender
from mooring.extenders.tls import ClientPair
from mooring.queue import event_diff, scheduling_queue
from mooring.queue.backoff_queue import BackoffQueue
from mooring.queue.heap import PodHeap
from mooring.queue.in_flight import InFlight
from mooring.queue.quarantine import Quarantine
from mooring.queue.scheduling_queue import SchedulingQueue
from mooring.scheduler.event_handlers import EventHandlers
from mooring.scheduler.evictor import Evictor
from mooring.scheduler.informer_health import InformerHealth
from mooring.scheduler.schedule_one import Scheduler
from mooring.scheduler.service import Service
from tests.faults.planted.bug import PlantedBug

BUGS: Final = [
    PlantedBug(
        "failures_of_several_plugins_add_up",
        "Exceptions of different plugins count as in a row",
        Quarantine,
        "failed",
        "if entry.failing_plugin != plugin:",
        "if not entry.failing_plugin:",
        runs="broken",
        seed=0,
    ),
    PlantedBug(
        "newest_attempt_keeps_events",
        "Events are dropped up to the newest attempt in flight",
        InFlight,
        "done",
        "needed_from = next(iter(self._attempts.values())).first_event",
        "needed_from = next(reversed(self._attempts.values())).first_event",
        runs="handlers",
        seed=0,
    ),
    PlantedBug(
        "refusals_before_errors",
        "The backoff after an error is that of the refusals before it",
        BackoffQueue,
        "expiration_s",
        "count = entry.consecutive_errors or entry.unschedulable_count",
        "count = entry.unschedulable_count or entry.consecutive_errors",
        runs="cycle",
        seed=3,
    ),
    PlantedBug(
        "further_resource_is_no_change",
        "A node that gains a further resource gives no event",
        event_diff,
        "_same_amounts",
        "return before.keys() == after.keys() and all(",
        "return before.keys() <= after.keys() and all(",
        runs="diffs",
        seed=0,
    ),
    PlantedBug(
        "first_helpful_event_ends",
        "The first event that helps ends the search for a better one",
        scheduling_queue,
        "_strategy_after_attempt",
        "if strategy is RequeueStrategy.IMMEDIATELY:",
        "if strategy is not RequeueStrategy.SKIP:",
        runs="queue",
        seed=4,
    ),
    PlantedBug(
        "unschedulable_are_not_gated",
        "PreEnqueue is not run for unschedulable pods that are activated",
        SchedulingQueue,
        "activate",
        "gate = entry.queue_name is not QueueName.BACKOFF",
        "gate = entry.queue_name is QueueName.GATED",
        runs="queue",
        seed=17,
    ),
    PlantedBug(
        "stale_item_is_current",
        "An item of a heap that a pod has left and entered again counts",
        PodHeap,
        "pop",
        "if entry.heap_sequence == heap_sequence and pods.get(entry.uid) is entry:",
        "if pods.get(entry.uid) is entry:",
        runs="queue",
        seed=0,
    ),
    PlantedBug(
        "same_name_is_same_pod",
        "Changes of two pods of one name are merged during a call of an extender",
        EventHandlers,
        "_buffer",
        "at = kind, obj.metadata.uid or key(obj)",
        "at = kind, key(obj)",
        runs="audit",
        seed=0,
    ),
    PlantedBug(
        "any_conflict_of_a_victim",
        "A victim that was created anew counts as a failed eviction",
        Evictor,
        "evict",
        "if isinstance(error, Conflict) and await self._exists(pod):",
        "if isinstance(error, Conflict):",
        runs="errors",
        seed=1,
    ),
    PlantedBug(
        "failing_kind_recovers",
        "A kind that fails with another error counts as watched again",
        InformerHealth,
        "_check_kind",
        "if before is not None and informer.last_error is None:",
        "if before is not None:",
        runs="health",
        seed=0,
    ),
    PlantedBug(
        "unchanged_nomination_is_cleared",
        "A nomination that PostFilter leaves as it is gets cleared",
        Scheduler,
        "_handle_no_fit",
        "nominated=post_filter_result.node_name)",
        'nominated=post_filter_result.node_name or "")',
        runs="cycle",
        seed=4,
    ),
    PlantedBug(
        "lease_of_late_bindings",
        "The lease is released though bindings have not ended",
        Service,
        "_run",
        "if self._elector is not None and is_finished:",
        "if self._elector is not None:",
        runs="service",
        seed=3,
    ),
    PlantedBug(
        "writers_per_namespace",
        "Each failing namespace may occupy two writers",
        WriteQueue,
        "_may_write",
        "return sum(self._writing[other] for other in self._failing) < WRITERS_OF_FAILING",
        "return self._writing[namespace] < WRITERS_OF_FAILING",
        runs="writes",
        seed=0,
    ),
    PlantedBug(
        "term_ends_before_it_began",
        "A preferred holder ends a term that has not begun",
        CoordinatedElector,
        "_try_once",
        "self.is_term_over = self.is_leading",
        "self.is_term_over = True",
        runs="coordinated",
        seed=1,
    ),
    PlantedBug(
        "failed_write_waits_as_usual",
        "The Retry-After of a failure that answers a write is ignored",
        retry,
        "requested_wait_s",
        "cause = error.__cause__ if isinstance(error, OutcomeUnknown) else error",
        "cause = error",
        runs="client",
        seed=0,
    ),
    PlantedBug(
        "fresh_when_applied",
        "A list is fresh as of its end, not as of its request",
        Reflector,
        "listed",
        "self.fresh_at_s = self._started_at_s",
        "self.fresh_at_s = self._clock.monotonic_s()",
        runs="watching",
        seed=0,
    ),
    PlantedBug(
        "refused_binding_may_come_again",
        "The next attempt does not wait as the refusal of a binding asked",
        requested_waits,
        "_is_creation",
        'return request.method == "POST" and not request.path.endswith("/binding")',
        'return request.method == "POST"',
        runs="client",
        seed=2,
    ),
    PlantedBug(
        "waiting_costs_no_time",
        "A request that waited for the rate limit gets its whole deadline",
        RateLimitedTransport,
        "_wait",
        "return request._replace(deadline_s=left_s)",
        "return request",
        runs="layers",
        seed=1,
    ),
    PlantedBug(
        "object_of_another_victim",
        "An extender gets the object of another pod of the same name",
        FullObjectCache,
        "pods",
        "if full_objects is not None and full_objects.metadata.uid == pod.uid:",
        "if full_objects is not None:",
        runs="full_objects",
        seed=0,
    ),
    PlantedBug(
        "refused_connection_is_cut_off",
        "An extender that is down is called twice",
        HttpExtenderTransport,
        "__call__",
        "is_cut_off = is_sent and isinstance(error, ConnectionError)",
        "is_cut_off = isinstance(error, ConnectionError)",
        runs="calls",
        seed=0,
    ),
    PlantedBug(
        "init_containers_want_nothing",
        "An extender is not asked for resources of init containers",
        HTTPExtender,
        "is_interested",
        "for container in (*spec.containers, *spec.init_containers)",
        "for container in spec.containers",
        runs="calls",
        seed=0,
    ),
    PlantedBug(
        "unread_pod_is_unbound",
        "A pod that cannot be read counts as not bound by the extender",
        HTTPExtender,
        "_is_bound_in_the_end",
        "if is_bound or (is_bound is not None and not may_arrive):",
        "if is_bound or not may_arrive:",
        runs="bind_extender",
        seed=0,
    ),
    PlantedBug(
        "mismatched_pair_is_loaded",
        "A certificate that does not match its key counts as loaded",
        ClientPair,
        "refresh",
        "    self._loaded = None",
        "    self._loaded = certificate, key",
        runs="trust",
        seed=7,
    ),
    PlantedBug(
        "violations_are_lost",
        "The number of violated budgets in a response of an extender is lost",
        wire,
        "_victims",
        'return Victims(tuple(uids), _part(fields, "numpdbviolations", int) or 0)',
        "return Victims(tuple(uids), 0)",
        runs="preempt_extender",
        seed=1,
    ),
    PlantedBug(
        "failed_names_are_lost",
        "Failed nodes are dropped if all names are sent back",
        wire,
        "read_filter",
        "return FilterResult(requested.names, failed, failed_and_unresolvable)",
        "return FilterResult(requested.names, {}, {})",
        runs="calls",
        seed=1,
    ),
]
