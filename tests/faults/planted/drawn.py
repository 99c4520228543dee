"""Bugs at lines of the living parts that a seed drew, not yet sorted by part."""

from __future__ import annotations

from typing import Final

from mooring.client import coordinated_election, retry
from mooring.client.event_recorder import Recorder
from mooring.client.informer.replica import Replica
from mooring.client.informer.watch_events import EventReader
from mooring.client.rest import paths
from mooring.client.transport.auth import Credentials
from mooring.client.transport.http1_pool import _Connection
from mooring.extenders import wire
from mooring.framework.runtime.attempt import _Statuses
from mooring.framework.runtime.attempt_copy import AttemptCopy
from mooring.framework.runtime.filter_results import FilterResults
from mooring.framework.runtime.result_cache import CachedResults
from mooring.scheduler.plugin_handle import PluginHandle
from mooring.scheduler.reporting import Reporting
from mooring.scheduler.resource_claims.claim_writer import ClaimWriter
from mooring.scheduler.status_writer import StatusWriter
from mooring.state.audit import columns as audit_columns
from mooring.state.devices.allocated import AllocatedDevices
from mooring.state.devices.signatures import NodeSignatures
from mooring.state.kinds.budgets import Budgets
from mooring.state.tables.counters import PodCounters
from mooring.state.volumes.capacity import Capacities
from mooring.state.volumes.usage import VolumeUse
from tests.faults.planted.bug import PlantedBug

BUGS: Final = [
    PlantedBug(
        "unreadable_of_last_list",
        "Only the unreadable objects of the last list are counted",
        Replica,
        "replacing",
        "self.statistics.malformed += len(unreadable)",
        "self.statistics.malformed = len(unreadable)",
    ),
    PlantedBug(
        "every_wait_is_requested",
        "Every retry of a condition counts as requested by the server",
        StatusWriter,
        "_write",
        "is_requested=requested_wait_s(error) > 0",
        "is_requested=True",
    ),
    PlantedBug(
        "extra_statuses_forgotten",
        "Statuses without a column are no candidates of PostFilter",
        _Statuses,
        "rows_of",
        "in self._attempt.extra.items():",
        "in ():",
    ),
    PlantedBug(
        "quoted_by_its_head",
        "A name that begins with plain characters is not quoted in a path",
        paths,
        "_quoted",
        "_PLAIN.fullmatch(part)",
        "_PLAIN.match(part)",
    ),
    PlantedBug(
        "first_tied_lost",
        "The copy of an attempt has not the first of the tied nodes",
        AttemptCopy,
        "__init__",
        "[] if tied is None else tied.tolist()",
        "[] if tied is None else tied.tolist()[1:]",
    ),
    PlantedBug(
        "last_plugin_rejects",
        "Of several plugins the last one has rejected a node, if few rows are computed anew",
        FilterResults,
        "recompute_first",
        "self.set_first(row, next(rejections, 0))",
        "self.set_first(row, max(rejections, default=0))",
    ),
    PlantedBug(
        "bookmark_is_an_object",
        "A bookmark in the slow reader is read as an object",
        EventReader,
        "_read_slowly",
        'if event.type == "BOOKMARK":',
        'if event.type == "BOOKMARK" and not content:',
    ),
    PlantedBug(
        "shared_if_in_flight",
        "A device in shares is shared only while allocations are in flight",
        AllocatedDevices,
        "_update",
        "device in self._shares or bool(shares)",
        "bool(shares)",
    ),
    PlantedBug(
        "null_message_stays",
        "A null message of an extender stays null",
        wire,
        "_messages",
        'message or ""',
        "message",
    ),
    PlantedBug(
        "other_nodes_not_read",
        "Filters that read other nodes are not computed anew for all nodes",
        CachedResults,
        "refresh_filters",
        "if rows is None or columns & plugin.reads_other_nodes:",
        "if rows is None:",
    ),
    PlantedBug(
        "waiters_stay",
        "The last waiter for an object stays registered",
        PluginHandle,
        "until",
        "if not waiters:",
        "if len(waiters) > 1:",
    ),
    PlantedBug(
        "lookup_of_counter_replaced",
        "A new counter replaces those with its lookup key",
        PodCounters,
        "_new",
        "self._lookup.setdefault(lookup_key, {})[key] = counter",
        "self._lookup[lookup_key] = {key: counter}",
    ),
    PlantedBug(
        "head_bytes_of_all",
        "A head is limited by its last packet only",
        _Connection,
        "data_received",
        "self._head_bytes += len(data)",
        "self._head_bytes = len(data)",
    ),
    PlantedBug(
        "all_is_known",
        "A condition is written as a change though it is not known what is stored",
        StatusWriter,
        "_patch",
        "is_known=is_known",
        "is_known=True",
    ),
    PlantedBug(
        "single_events_are_refreshed",
        "Events that happened once are written anew in time, too",
        Recorder,
        "_refresh",
        "if series.event.series is not None:",
        "if series.event is not None:",
    ),
    PlantedBug(
        "size_stays",
        "The size of a removed capacity stays",
        Capacities,
        "remove",
        "self._sizes.pop(object_key, None)",
        "self._sizes.get(object_key)",
    ),
    PlantedBug(
        "waits_less_than_requested",
        "The jitter of a requested wait makes it shorter",
        retry.RetryPolicy,
        "wait_s",
        "(1 + REQUESTED_WAIT_JITTER * share)",
        "(1 - REQUESTED_WAIT_JITTER * share)",
    ),
    PlantedBug(
        "last_score_in_range",
        "Only the last changed node decides whether raw scores are in range",
        CachedResults,
        "refresh_scores",
        "self.in_range[number] &= MIN_SCORE",
        "self.in_range[number] = MIN_SCORE",
    ),
    PlantedBug(
        "old_volumes_stay",
        "The volumes of the older version of a placed pod stay",
        VolumeUse,
        "update",
        "self.remove(placed)\n",
        "self._last = None\n",
    ),
    PlantedBug(
        "label_class_not_audited",
        "The audit does not compare label classes of pods without a counter",
        audit_columns,
        "_audit_counters",
        "if label_class != expected:",
        "if label_class != expected and len(cache.counters):",
    ),
    PlantedBug(
        "event_tried_once_more",
        "An event is tried once more than the limit",
        Recorder,
        "_write",
        "if tries < TRIES_MAX:",
        "if tries <= TRIES_MAX:",
    ),
    PlantedBug(
        "evicted_results_stay",
        "New results begin with the rejections of the evicted ones",
        CachedResults,
        "__init__",
        "evicted.results.clear()",
        "evicted.results.count = 0",
    ),
    PlantedBug(
        "generation_read_late",
        "Signatures take the changes of nodes since now",
        NodeSignatures,
        "refresh",
        "nodes.log.rows_with(_OTHER_NODE, self._node_generation)",
        "nodes.log.rows_with(_OTHER_NODE, nodes.log.generation)",
    ),
    PlantedBug(
        "quarantine_not_in_message",
        "The condition does not say that the pod is quarantined",
        Reporting,
        "failed",
        'message = f"{message}; {text}"',
        'message = f"{message}"',
    ),
    PlantedBug(
        "renewals_not_limited",
        "Credentials are renewed at each 401",
        Credentials,
        "renew",
        "now_s - self._renewed_at_s < RENEW_S_MIN",
        "now_s - self._renewed_at_s < 0",
    ),
    PlantedBug(
        "capacity_to_the_byte",
        "A volume as large as the limit of a capacity cannot be provisioned",
        Capacities,
        "can_hold",
        "of_key.largest(column) >= size_bytes",
        "of_key.largest(column) > size_bytes",
    ),
    PlantedBug(
        "missing_label_not_audited",
        "The audit does not see a label that a node has no longer",
        audit_columns,
        "_audit_row",
        "labels.get(key))",
        "labels.get(key, value))",
    ),
    PlantedBug(
        "budgets_of_equal_labels",
        "Budgets are those of the first namespace with these labels",
        Budgets,
        "of",
        "label_class = namespace, labels",
        "label_class = labels",
    ),
    PlantedBug(
        "coordinated_fast_path",
        "A coordinated candidate that leads is not recorded on the slow path",
        coordinated_election.CoordinatedElector,
        "_try_once",
        "if self.is_leading:",
        "if not self.is_leading:",
    ),
    PlantedBug(
        "observed_at_once_or_never",
        "A created claim is stored in the cache only if the watch has reported it already",
        ClaimWriter,
        "observe",
        "in range(OBSERVED_WITHIN_S):",
        "in range(1):",
    ),
]
