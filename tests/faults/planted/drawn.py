"""Bugs at lines that a seed drew, in all parts."""

from __future__ import annotations

from typing import Final

from mooring.client.leader_election import Elector
from mooring.client.rest import responses
from mooring.client.transport import exec_plugin
from mooring.client.transport.auth import Credentials
from mooring.client.transport.http1_pool import _Connection
from mooring.dra.slices import Slices
from mooring.framework import pod_deltas, selector_matching
from mooring.framework.runtime import score
from mooring.framework.runtime.filter_results import FilterResults
from mooring.plugins import volume_zone
from mooring.plugins.node_resources import fit
from mooring.plugins.node_volume_limits import plugin as node_volume_limits
from mooring.plugins.pod_topology_spread import plugin as pod_topology_spread
from mooring.plugins.volume_binding import capacity_score
from mooring.plugins.volume_binding.find_volumes import _Search
from mooring.queue import watched_kinds
from mooring.queue.queues import PodQueues
from mooring.scheduler import reporting
from mooring.scheduler.binding_cycle import BindingCycle
from mooring.scheduler.event_handlers import EventHandlers
from mooring.scheduler.metrics import SchedulerMetrics
from mooring.scheduler.service import Service
from mooring.state.columns.visit_order import VisitOrder
from mooring.state.devices.taint_rules import SlicesWithRules
from mooring.state.kinds.budgets import Budgets
from mooring.state.tables.counters import PodCounters
from mooring.state.volumes import topology
from mooring.state.volumes.topology import TopologyMasks
from tests.faults.planted.bug import PlantedBug

BUGS: Final = [
    PlantedBug(
        "class_name_is_no_request",
        "A new class of devices helps pods that name its resource alone",
        fit,
        "_after_device_class_change",
        'names = [f"{DEVICE_CLASS_PREFIX}{new.metadata.name}", resource]',
        "names = [resource]",
        runs="hint_rules",
        seed=5,
    ),
    PlantedBug(
        "class_gives_up_a_resource",
        "A class that gets another resource helps those that want the former one",
        fit,
        "_after_device_class_change",
        "names = [resource]",
        "names = [old.spec.extended_resource_name]",
        runs="hint_rules",
        seed=21,
    ),
    PlantedBug(
        "removed_pods_are_not_picked",
        "Of removed pods those of all nodes are taken for those of some",
        pod_deltas,
        "pick",
        "return pods.pick(positions)",
        "return pods",
        runs="crowd",
        seed=3,
    ),
    PlantedBug(
        "first_budget_alone",
        "Of several budgets of a pod the first one counts",
        Budgets,
        "of",
        "return [of_namespace[name] for name in names]",
        "return [of_namespace[name] for name in names][:1]",
        runs="budgets",
        seed=0,
    ),
    PlantedBug(
        "rejectors_of_a_removed_pod",
        "The plugins that have rejected a removed pod are still counted",
        PodQueues,
        "remove",
        "del self.pods[entry.uid]\n    self.count_rejectors(entry, -1)",
        "del self.pods[entry.uid]",
        runs="queue",
        seed=0,
    ),
    PlantedBug(
        "first_topology_label_alone",
        "The labels of a volume end at the first that it does not have",
        volume_zone,
        "topologies_of",
        "continue",
        "break",
        runs="rules",
        seed=5,
    ),
    PlantedBug(
        "no_zone_is_not_left",
        "A node that gets a zone stays in the visit order of those without",
        VisitOrder,
        "put",
        "if before is not None:",
        "if before:",
        runs="spreading",
        seed=2,
    ),
    PlantedBug(
        "last_claim_of_a_class",
        "Of several claims of a class the last one counts for the score",
        capacity_score,
        "_requests",
        "requested + amount(",
        "amount(",
        runs="volumes",
        seed=12,
    ),
    PlantedBug(
        "last_term_of_a_volume",
        "Of the terms of a topology the last one counts",
        topology,
        "_mask",
        "mask |= of_term",
        "mask = of_term",
        runs="volume_tables",
        seed=4,
    ),
    PlantedBug(
        "skew_at_the_limit",
        "A skew that is the limit is rejected on hypothetical nodes",
        pod_topology_spread,
        "_codes",
        "is_exceeded = shifted.counts - shifted.smallest > limit",
        "is_exceeded = shifted.counts - shifted.smallest >= limit",
        runs="scalar",
        seed=5,
    ),
    PlantedBug(
        "removed_slice_is_not_new",
        "What was computed from a removed slice stays",
        Slices,
        "remove",
        "return\n    self._invalidate(prepared)\n    _remove(self._of_pool",
        "return\n    _remove(self._of_pool",
        runs="device_scores",
        seed=4,
    ),
    PlantedBug(
        "last_queue_of_an_event",
        "Of the pods that an event has moved those of one queue are counted",
        SchedulerMetrics,
        "_refresh_queue",
        "moved[at] = moved.get(at, 0) + count",
        "moved[at] = count",
        runs="metrics",
        seed=0,
    ),
    PlantedBug(
        "sorted_reasons_are_own",
        "Reasons in another order are not translated",
        FilterResults,
        "_translate",
        "if numbers == list(range(len(numbers))):",
        "if sorted(numbers) == list(range(len(numbers))):",
        runs="scores",
        seed=0,
    ),
    PlantedBug(
        "last_chunk_of_an_error",
        "Of the error of a program the last chunk is read",
        exec_plugin,
        "_end",
        "output = (output + chunk)[-bytes_max:]",
        "output = chunk[-bytes_max:]",
        runs="access",
    ),
    PlantedBug(
        "nominated_by_the_status",
        "A deleted pod frees the node of its status, not of its nomination",
        EventHandlers,
        "_on_pod_deleted",
        "nominated = self._cache.nominator.node_of(uid) or last.status.nominated_node_name",
        "nominated = last.status.nominated_node_name",
        runs="handlers",
        seed=0,
    ),
    PlantedBug(
        "start_goes_on",
        "The start goes on while the scheduler stops",
        Service,
        "_run",
        "_cancel([start, *scheduling])",
        "_cancel(scheduling)",
        runs="service",
        seed=3,
    ),
    PlantedBug(
        "waits_for_the_past",
        "A Retry-After date in the past is waited for, too",
        responses,
        "retry_after_s",
        "return min(max(0.0, (retry_at - now).total_seconds()), RETRY_AFTER_S_MAX)",
        "return min(abs((retry_at - now).total_seconds()), RETRY_AFTER_S_MAX)",
        runs="verbs",
        seed=2,
    ),
    PlantedBug(
        "problem_is_a_limit",
        "A problem of volumes on a hypothetical node is taken for the limit",
        node_volume_limits,
        "_filter_hypothetical",
        "codes[i] = len(table)",
        "codes[i] = _EXCEEDED",
        runs="volumes",
        seed=6,
    ),
    PlantedBug(
        "volumes_of_any_claim_are_taken",
        "A volume that another claim has got before is taken at once",
        _Search,
        "_match_named",
        "if match.named_at is not None and _claim_key(match.claim) == claim_key",
        "if match.named_at is not None",
        runs="volumes",
        seed=2,
    ),
    PlantedBug(
        "masks_are_new",
        "The version of topologies does not rise with nodes that change",
        TopologyMasks,
        "version",
        "self._masks.invalidate_if_stale(self._nodes.log, self._nodes.size)",
        "pass",
        runs="volumes",
        seed=11,
    ),
    PlantedBug(
        "state_of_pre_score_is_lost",
        "The state of a cached PreScore is not restored",
        score,
        "pre_score",
        "cycle.restore(plugin.name, state)",
        "pass",
        runs="scores",
        seed=0,
    ),
    PlantedBug(
        "class_of_labels_is_used_once",
        "A second pod of a class of labels does not count",
        PodCounters,
        "add",
        "self._classes.acquire(label_class)",
        "pass",
        runs="preempt_extender",
        seed=3,
    ),
    PlantedBug(
        "waits_end_with_success",
        "A wait in Permit that fails is recorded as a success",
        BindingCycle,
        "_wait_on_permit",
        "code = SUCCESS if status is None else status.code.value",
        "code = SUCCESS",
        runs="cycle",
        seed=0,
    ),
    PlantedBug(
        "waits_for_the_whole_lease",
        "A candidate waits until the lease ends",
        Elector,
        "_wait_s",
        "return min(wait_s, left_s + EXPIRY_JITTER_S * share) if left_s > 0 else wait_s",
        "return left_s + EXPIRY_JITTER_S * share if left_s > 0 else wait_s",
        runs="coordinated",
        seed=0,
    ),
    PlantedBug(
        "length_in_characters",
        "A note is cut by its characters, not by its bytes",
        reporting,
        "_cut",
        "if len(message.encode()) <= NOTE_LENGTH_MAX:",
        "if len(message) <= NOTE_LENGTH_MAX:",
        runs="reports",
        seed=0,
    ),
    PlantedBug(
        "closing_is_open",
        "A connection that is closing takes a request",
        _Connection,
        "is_open",
        "return self._transport is not None and not self._transport.is_closing()",
        "return self._transport is not None",
        runs="pool",
    ),
    PlantedBug(
        "pods_are_watched_twice",
        "Pods are watched twice if a plugin asks for them",
        watched_kinds,
        "watched_kinds",
        'kinds.pop("Pod", None)\n    return',
        "return",
        runs="tables",
        seed=1,
    ),
    PlantedBug(
        "not_in_is_in",
        "A node name that is excluded is required",
        selector_matching,
        "_is_single_node_name",
        "return field.key == NODE_NAME_FIELD and field.operator == IN",
        "return field.key == NODE_NAME_FIELD",
        runs="rules",
        seed=16,
    ),
    PlantedBug(
        "expires_by_its_own_clock",
        "The expiry of a credential is compared with the monotonic clock",
        Credentials,
        "_is_expired",
        "self._clock.wall_s() >= credential.expires_at_s",
        "self._clock.monotonic_s() >= credential.expires_at_s",
        runs="credentials",
        seed=0,
    ),
    PlantedBug(
        "first_listener_of_slices",
        "Of the listeners for changed taints the first one is called",
        SlicesWithRules,
        "_changed",
        "for listener in self._listeners:",
        "for listener in self._listeners[:1]:",
        runs="shared_devices",
    ),
]
