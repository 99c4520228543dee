"""Bugs of behaviour over time by a reviewer who had read the sources alone.

List 37 of ``docs/concepts/planted-bugs.md``.
"""

from __future__ import annotations

from typing import Final

from mooring.client.event_recorder import Recorder
from mooring.client.informer.replica import Replica
from mooring.client.retry import Backoff
from mooring.client.transport.auth import Credentials
from mooring.client.transport.rate_limit import RateLimitedTransport
from mooring.client.transport.turns import Turns
from mooring.client.write_queue import WriteQueue
from mooring.dra.ledger import Ledger
from mooring.dra.slices import Slices
from mooring.extenders.http_extender import HTTPExtender
from mooring.framework import equal_nodes
from mooring.framework.runtime import post_filter
from mooring.framework.runtime.combined_results import CombinedResults
from mooring.framework.runtime.filter_results import FilterResults
from mooring.framework.runtime.opportunistic_batch import OpportunisticBatch
from mooring.framework.waiting_pods import WaitingPod
from mooring.plugins.dynamic_resources.hints import _Hints
from mooring.plugins.dynamic_resources.plugin import DynamicResources
from mooring.plugins.dynamic_resources.shared_results import SharedResults
from mooring.plugins.pod_topology_spread.domains import DomainLayouts
from mooring.plugins.volume_binding.bind_volumes import VolumeBinder
from mooring.plugins.volume_binding.provisioning import ProvisioningChecks
from mooring.queue.queued_pod import QueuedPod
from mooring.queue.queues import PodQueues
from mooring.scheduler.binding_tasks import BindingTasks
from mooring.scheduler.event_handlers import EventHandlers
from mooring.scheduler.metrics import Totals
from mooring.scheduler.plugin_handle import PluginHandle
from mooring.scheduler.preemption import PreemptionExecutor
from mooring.scheduler.resource_claims.claim_writer import ClaimWriter
from mooring.scheduler.resource_claims.reservation import Reservation
from mooring.scheduler.service import Service
from mooring.scheduler.status_writer import _Requests
from mooring.scheduler.with_extenders import ExtenderScheduler
from mooring.state.cache import Cache
from mooring.state.devices.signatures import NodeSignatures
from mooring.state.tables.counters import PodCounters
from mooring.state.volumes import storage as volumes_storage
from mooring.state.volumes.attachments import AttachedVolumes
from tests.faults.planted.bug import PlantedBug

BUGS: Final = [
    PlantedBug(
        "refusal_does_not_end_errors",
        "After an error the backoff stays at that of the error",
        QueuedPod,
        "end_attempt",
        "self.consecutive_errors = 0",
        "self.plugin_failures = 0",
        runs="cycle",
        seed=0,
    ),
    PlantedBug(
        "quarantine_outlives_its_attempt",
        "A popped pod keeps the time of its quarantine",
        PodQueues,
        "pop",
        "        entry.quarantine_s = 0.0",
        "        entry.backoff_expiration_s = None",
        runs="queue",
        seed=32,
    ),
    PlantedBug(
        "unanswered_status_counts_as_stored",
        "After a patch without an answer the status counts as certain",
        _Requests,
        "are_known",
        "return uid not in self._open and uid not in self._unknown",
        "return uid not in self._open",
        runs="status",
        seed=0,
    ),
    PlantedBug(
        "equal_nominations_end",
        "Nominations of equal priority are cleared as lower ones are",
        PreemptionExecutor,
        "_clear_lower_priority_nominations",
        "if pod.priority >= preemptor.priority or live is None:",
        "if pod.priority > preemptor.priority or live is None:",
        runs="preemption",
        seed=0,
    ),
    PlantedBug(
        "waiting_bindings_take_room",
        "Bindings that wait for slow requests count for the limit",
        BindingTasks,
        "_in_progress",
        "return len(self._running) - self._waiting - self._requests",
        "return len(self._running) - self._idle - self._requests",
        runs="slots",
        seed=3,
    ),
    PlantedBug(
        "newest_devices_are_reserved",
        "A claim is compared with its newest devices, not those that were chosen",
        ClaimWriter,
        "reserve",
        "devices=devices_in(allocation or claim.status.allocation),",
        "devices=devices_in(allocation or newest.status.allocation),",
        runs="claims",
        seed=15,
    ),
    PlantedBug(
        "stale_finalizer_again",
        "After a conflict the finalizer is removed from the same version",
        ClaimWriter,
        "_remove_finalizer",
        "        newest = None",
        "        newest = current",
        runs="claim_errors",
        seed=0,
    ),
    PlantedBug(
        "unknown_writes_without_backoff",
        "Waits after writes without an answer follow the conflicts",
        Reservation,
        "write_until_known",
        "UNKNOWN_POLICY.wait_s(tries, error, rng)",
        "UNKNOWN_POLICY.wait_s(conflicts, error, rng)",
        runs="reservation",
        seed=0,
    ),
    PlantedBug(
        "creation_becomes_update",
        "An object that is created and changed while events are buffered is updated",
        EventHandlers,
        "_buffer",
        "change = change._replace(old=before.old)",
        "change = change._replace(old=before.old or change.old)",
        runs="audit",
        seed=5,
    ),
    PlantedBug(
        "victims_on_a_deleted_node",
        "A node that was deleted during the calls of extenders counts as there",
        ExtenderScheduler,
        "_are_victims_there",
        'row = self._cache.nodes.live_row(post_filter_result.node_name or "")',
        'row = self._cache.nodes.row(post_filter_result.node_name or "")',
        runs="cycle",
        seed=42,
    ),
    PlantedBug(
        "background_claims_are_cancelled",
        "A stop does not wait for writes of claims",
        Service,
        "_has_flushed_writes",
        "is_writing = len(self.writer) or len(self.handle.claim_writer)",
        "is_writing = len(self.writer)",
        runs="service",
        seed=17,
    ),
    PlantedBug(
        "first_waiter_is_woken",
        "Of several bindings that wait for an object only the first is woken",
        PluginHandle,
        "changed",
        "for event in self._awaited.get((kind, key), ()):",
        "for event in self._awaited.get((kind, key), ())[:1]:",
        runs="wiring",
        seed=0,
    ),
    PlantedBug(
        "metrics_are_reset_for_ever",
        "After a reset the base is the live table of totals",
        Totals,
        "reset",
        "self._base = dict(self._last)",
        "self._base = self._last",
        runs="metrics",
        seed=0,
    ),
    PlantedBug(
        "every_value_was_parked",
        "A new value of a waiting key counts as its return",
        WriteQueue,
        "put",
        "self._parked -= item.is_removed",
        "self._parked -= 1",
        runs="writes",
        seed=0,
    ),
    PlantedBug(
        "series_ends_after_its_first",
        "The time of a series is that of its first event",
        Recorder,
        "_add_to_series",
        "series.last_at_s = happened_at_s",
        "happened_at_s = series.last_at_s",
        runs="recorder",
        seed=0,
    ),
    PlantedBug(
        "version_never_goes_back",
        "A list does not set the number of the version back",
        Replica,
        "replacing",
        "self.version, self._number = version, number_of(version)",
        "self.version, self._number = version, self._number or number_of(version)",
        runs="informer",
        seed=0,
    ),
    PlantedBug(
        "pause_is_not_in_the_deadline",
        "Only the computed wait for a token counts for the deadline",
        RateLimitedTransport,
        "_wait",
        "left_s = request.deadline_s - max(wait_s, self._clock.monotonic_s() - started_s)",
        "left_s = request.deadline_s - wait_s",
        runs="layers",
        seed=1,
    ),
    PlantedBug(
        "rotated_token_is_read_late",
        "After 401 the token file is not read at once",
        Credentials,
        "renew",
        "    self._read_at_s = None",
        "    self._failure = None",
        runs="credentials",
        seed=1,
    ),
    PlantedBug(
        "cancelled_turn_is_not_passed_on",
        "A connection that a cancelled request got is not passed on",
        Turns,
        "wait",
        "if turn.done() and not turn.cancelled():",
        "if turn.done() and turn.cancelled():",
        runs="pool",
        seed=0,
    ),
    PlantedBug(
        "last_wait_is_the_first",
        "The time of the last wait is never updated",
        Backoff,
        "next_s",
        "self._called_at_s = now_s",
        "self._called_at_s = self._called_at_s or now_s",
        runs="client",
        seed=0,
    ),
    PlantedBug(
        "every_sent_call_is_repeated",
        "A call that times out is repeated as a broken connection is",
        HTTPExtender,
        "_asked",
        "if not error.is_cut_off:",
        "if not error.is_sent:",
        runs="preempt_extender",
        seed=3,
    ),
    PlantedBug(
        "settled_pod_was_waiting",
        "The state of a waiting pod is read after it was settled",
        WaitingPod,
        "preempt",
        "return was_waiting",
        "return self.status is not None",
        runs="waiting",
        seed=0,
    ),
    PlantedBug(
        "limits_of_pods_are_equal",
        "Nodes that differ in the number of allowed pods share results",
        equal_nodes,
        "amounts_of",
        "nodes.allowed_pods.item(row),",
        "nodes.alive.item(row),",
        runs="batched",
        seed=0,
    ),
    PlantedBug(
        "copies_share_counts",
        "A copy of results shares the list of counts",
        FilterResults,
        "copy",
        "copy._refused_counts = self._refused_counts.copy()",
        "copy._refused_counts = self._refused_counts",
        runs="points",
        seed=6,
    ),
    PlantedBug(
        "other_changes_are_skipped",
        "Changes of other results are skipped if devices have changed",
        CombinedResults,
        "update",
        "rows = {*changed, *also_changed}",
        "rows = {*changed} or {*also_changed}",
        runs="device_columns",
        seed=5,
    ),
    PlantedBug(
        "violations_of_the_dry_run",
        "The violations that an extender reports are replaced",
        post_filter,
        "_checked",
        "pods, victims.violations))",
        "pods, candidate.violations))",
        runs="preempt_extender",
        seed=1,
    ),
    PlantedBug(
        "first_node_is_hinted",
        "The node of the last pod is remembered once",
        OpportunisticBatch,
        "_store",
        "self._last_number, self._last_node = cycle.number, node",
        "self._last_number, self._last_node = cycle.number, self._last_node or node",
        runs="batch",
        seed=0,
    ),
    PlantedBug(
        "node_after_its_pods_is_old",
        "A node whose pods arrived before it is not new",
        Cache,
        "put_node",
        "is_new = self.nodes.live_row(node.metadata.name) < 0",
        "is_new = self.nodes.row(node.metadata.name) < 0",
        runs="volume_tables",
        seed=4,
    ),
    PlantedBug(
        "ending_pod_is_unchanged",
        "A pod that begins to terminate counts as unchanged",
        PodCounters,
        "update",
        "(before.deletion_timestamp is None) == (after.deletion_timestamp is None)",
        "(before.deletion_timestamp is None) or (after.deletion_timestamp is None)",
        runs="state",
        seed=0,
    ),
    PlantedBug(
        "pools_of_equal_names",
        "Pools of the same names count as the same",
        NodeSignatures,
        "of",
        "if static is None or static.pools is not pools:",
        "if static is None or static.pools.keys != pools.keys:",
        runs="node_devices",
        seed=1,
    ),
    PlantedBug(
        "versions_are_compared_as_texts",
        "An assumed object stays when its version gets a digit",
        volumes_storage,
        "_is_newer",
        "return not after or before != after",
        "return not after or before < after",
        runs="volumes",
        seed=2,
    ),
    PlantedBug(
        "attached_volume_does_not_count",
        "A volume without pods does not count while it is attached",
        AttachedVolumes,
        "_remove_if_unused",
        "if users.pods or users.attachments:",
        "if users.pods:",
        runs="twin_volumes",
        seed=6,
    ),
    PlantedBug(
        "user_by_the_first_version",
        "The version from PreFilter says whether the pod is a user",
        DynamicResources,
        "unreserve",
        "is_reserved = latest is not None and is_reserved_for(cycle.pod.uid, latest)",
        "is_reserved = latest is not None and is_reserved_for(cycle.pod.uid, claim)",
        runs="device_columns",
        seed=6,
    ),
    PlantedBug(
        "searches_of_old_signatures",
        "Searches stay when signatures are numbered anew",
        SharedResults,
        "refresh",
        "self._searched.clear()",
        "self.plans.clear()",
        runs="node_devices",
        seed=36,
    ),
    PlantedBug(
        "status_of_devices_wakes_none",
        "A change of a claim beside its allocation requeues no pod",
        _Hints,
        "after_claim_change",
        "queue_if(old is None or old.status != new.status)",
        "queue_if(old is None or old.status.allocation != new.status.allocation)",
        runs="hint_rules",
        seed=2,
    ),
    PlantedBug(
        "written_volume_is_not_remembered",
        "The version of a written volume is not remembered",
        VolumeBinder,
        "_write",
        "binding.volume = await handle.patch(VOLUME",
        "await handle.patch(VOLUME",
        runs="tight",
        seed=6,
    ),
    PlantedBug(
        "number_of_masks_is_the_version",
        "The number of cached masks is compared instead of their version",
        ProvisioningChecks,
        "_invalidate_if_stale",
        "versions = storage.room_version, storage.reaches.version",
        "versions = storage.room_version, len(storage.reaches)",
        runs="volumes",
        seed=11,
    ),
    PlantedBug(
        "tainted_domains_stay",
        "Changes of taints do not change the domains",
        DomainLayouts,
        "__init__",
        "Change.TAINTS",
        "Change.LABELS",
        runs="twin_spreading",
        seed=378,
    ),
    PlantedBug(
        "own_node_of_a_slice",
        "A change of a slice changes its own node alone",
        Slices,
        "_invalidate",
        "for name in self.nodes_of(changed.pool_key):",
        "for name in {changed.only_node}:",
        runs="allocator",
        seed=0,
    ),
    PlantedBug(
        "first_constraint_is_not_rolled_back",
        "The first constraint is not rolled back",
        Ledger,
        "_is_allowed",
        "for counted in constraints[:number]:",
        "for counted in constraints[1:number]:",
        runs="allocator",
        seed=30,
    ),
]
