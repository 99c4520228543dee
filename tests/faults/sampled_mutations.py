"""Twenty bugs in functions that a seed has drawn from all living parts, written before any was run.

The functions are those of ``random.Random(20261127)``, a number from each package, without those
that only report (a Decision for display) or need sockets. The table in docs/concepts/faults.md has
the result.
"""

from __future__ import annotations

from typing import Final

from mooring.client.event_recorder import Recorder
from mooring.client.informer.reflector import Reflector
from mooring.client.write_queue import WriteQueue
from mooring.extenders import wire
from mooring.framework.runtime import filter as filtering
from mooring.plugins.default_preemption import dry_run
from mooring.plugins.dynamic_resources.attempt import DeviceAttempt
from mooring.plugins.dynamic_resources.shared_results import ResultsByTemplate, SharedResults
from mooring.plugins.volume_binding import hints, provisioning
from mooring.queue.quarantine import Quarantine
from mooring.queue.queued_pod import QueuedPod
from mooring.scheduler.binding_cycle import BindingCycle
from mooring.scheduler.service import Service
from mooring.scheduler.with_extenders import ExtenderScheduler
from mooring.state.kinds.workloads import Workloads
from mooring.state.tables.affinity_terms import PodTermTable, TermIndex
from tests.faults.planted import PlantedBug

_SCHEDULER: Final = [
    PlantedBug(
        "rejected_wait_is_success",
        "A wait in Permit that ends with a rejection is reported as a success",
        BindingCycle,
        "_wait_on_permit",
        "if status is None else",
        "if status is None or status.is_rejection else",
    ),
    PlantedBug(
        "evictions_awaited_for_extended",
        "Evictions are awaited only after a pod that extenders decide",
        ExtenderScheduler,
        "schedule_batch",
        "        self.schedule_one(entry)\n",
        "        self.schedule_one(entry)\n        return True\n",
        "extender",
    ),
    PlantedBug(
        "slot_when_idle",
        "Scheduling waits for a slot of the bindings only when no pod is ready",
        Service,
        "_schedule",
        "await self.bindings.wait_for_slot()\n"
        "        if not await self.scheduler.schedule_batch():\n",
        "if not await self.scheduler.schedule_batch():\n"
        "            await self.bindings.wait_for_slot()\n",
    ),
]

_QUEUE_AND_STATE: Final = [
    PlantedBug(
        "broken_at_the_share",
        "A plugin counts as broken at just the share above which it does",
        Quarantine,
        "broken_plugin",
        "count <= BROKEN_SHARE * pods",
        "count < BROKEN_SHARE * pods",
    ),
    PlantedBug(
        "flushed_for_ever",
        "A pod that was flushed once counts as flushed in later attempts",
        QueuedPod,
        "end_attempt",
        "self.was_flushed = False",
        "pass",
    ),
    PlantedBug(
        "repeated_preference_counts_once",
        "A preferred term that a pod has twice counts once",
        PodTermTable,
        "_acquire",
        "(term, weight) for weight, term in (*terms.preferred, *terms.preferred_anti)",
        "{(term, weight): 1 for weight, term in (*terms.preferred, *terms.preferred_anti)}",
    ),
    PlantedBug(
        "other_services_forgotten",
        "The removal of a service forgets other services with the same label",
        Workloads,
        "_remove_service",
        "    del self._by_label[lookup_key][service]\n    if not self._by_label[lookup_key]:\n"
        "        del self._by_label[lookup_key]",
        "    self._by_label.pop(lookup_key, None)",
    ),
    PlantedBug(
        "terms_of_all_namespaces_missed",
        "Terms of all namespaces are not looked up if there are none of the pod's namespace",
        TermIndex,
        "candidates",
        "            continue\n",
        "            return\n",
    ),
]

_CLIENT: Final = [
    PlantedBug(
        "empty_line_is_fresh",
        "Lines without an event count as fresh",
        Reflector,
        "received",
        "if has_news:",
        "if lines:",
    ),
    PlantedBug(
        "each_wait_is_requested",
        "The backoff of an event counts as a wait that the server asks for",
        Recorder,
        "_write",
        "is_requested=requested_wait_s(error) > 0",
        "is_requested=requested_wait_s(error) >= 0",
    ),
    PlantedBug(
        "requested_wait_is_remembered",
        "A backoff after a wait that the server asked for counts as one of these",
        WriteQueue,
        "_after",
        "_State.WAITING, retry.is_requested",
        "_State.WAITING, item.is_wait_requested or retry.is_requested",
    ),
]

_PLUGINS: Final = [
    PlantedBug(
        "rejected_before_nominated",
        "A node rejected with its nominated pods counts as rejected by the plugin before",
        filtering,
        "_with_nominated",
        "results.set_many(rows[refused], number + 1)",
        "results.set_many(rows[refused], number)",
        "crowd",
    ),
    PlantedBug(
        "node_without_victims",
        "A node without victims in the answer to preempt is left out",
        wire,
        "read_preempt",
        "for node, body_of_node in by_node.items()}",
        'for node, body_of_node in by_node.items() if bytes(body_of_node) != b"{}"}',
        "extender",
    ),
    PlantedBug(
        "one_violating_less",
        "One candidate with violations less than the limit is kept",
        dry_run,
        "_limit_violating",
        "n_violating <= limit",
        "n_violating < limit",
        "crowd",
    ),
    PlantedBug(
        "special_node_as_shared",
        "The plan of a node with devices of its own is that of its signature",
        DeviceAttempt,
        "allocation_on",
        "self._not_searched.get(node_name)",
        "None",
        "device",
    ),
    PlantedBug(
        "special_verdict_is_shared",
        "A rejection by assumed devices of one node counts for its signature",
        DeviceAttempt,
        "_allocate",
        "results.put(signature, shared)",
        "self._results.put(signature, shared)",
        "device",
    ),
    PlantedBug(
        "searches_of_old_epoch",
        "Searches from which results follow outlive the numbering of the signatures",
        SharedResults,
        "refresh",
        "self._searched.clear()",
        "pass",
        "device",
    ),
    PlantedBug(
        "distinct_is_not_read",
        "Attributes of distinctAttribute do not count as read",
        ResultsByTemplate,
        "_names_read",
        'constraint.match_attribute or constraint.distinct_attribute or ""',
        'constraint.match_attribute or ""',
        "device",
    ),
    PlantedBug(
        "new_csi_node_is_skipped",
        "A new CSINode requeues no pod",
        hints,
        "_after_csi_node_change",
        "return QueueingHint.QUEUE\n",
        "return QueueingHint.SKIP\n",
        "volume",
    ),
    PlantedBug(
        "capacity_hides_topology",
        "Missing capacity is reported although the topology forbids the node as well",
        provisioning,
        "_bits",
        "bits[~storage.reaches.reachable_rows(reach, rows)] = NO_VOLUME_TO_BIND",
        "bits[(bits == 0) & ~storage.reaches.reachable_rows(reach, rows)] = NO_VOLUME_TO_BIND",
        "volume",
    ),
]

SAMPLED_BUGS: Final = [*_SCHEDULER, *_QUEUE_AND_STATE, *_CLIENT, *_PLUGINS]
