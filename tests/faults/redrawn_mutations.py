"""Bugs at lines of the living parts that a seeded generator drew anew.

For the first fifteen ``random.Random(20261128)`` drew 40 of the 10 225 statements in the functions
of ``queue``, ``state``, ``extenders``, the client but for its transport, the runtime of the
framework, the parts of ``scheduler`` that schedule, bind, evict and write, and of the plugins
DefaultPreemption, DynamicResources and VolumeBinding. In the order of the draw each line got a bug,
but for audits, reports, constructors that only store, and functions in which all lines have bugs
in another list. They were committed before any was run. The later ones are at lines of
``random.Random(20261130)``, which drew 30 of 9 510 statements (those of reports and audits were
left out), once the runs had been extended; they were committed before any was run, too. The table
in docs/concepts/faults.md has the results.
"""

from __future__ import annotations

from typing import Final

from mooring.client.informer.reflector import Reflector
from mooring.client.write_queue import WriteQueue
from mooring.framework.runtime import bind as bind_points
from mooring.framework.runtime.framework import Framework
from mooring.framework.runtime.result_cache import CachedResults
from mooring.plugins.default_preemption import dry_run
from mooring.plugins.dynamic_resources import extended_resources
from mooring.plugins.dynamic_resources.plugin import DynamicResources
from mooring.queue.in_flight import InFlight
from mooring.queue.queues import PodQueues
from mooring.scheduler import binding_tasks
from mooring.scheduler.bind_verification import BindVerifier
from mooring.scheduler.binding_cycle import BindingCycle
from mooring.scheduler.pods_in_prebind import PodsInPreBind
from mooring.scheduler.reporting import Reporting
from mooring.scheduler.resource_claims.removal import Removal
from mooring.scheduler.resource_claims.turns import Turns
from mooring.state.columns.labels import LabelColumns
from mooring.state.devices.allocated import AllocatedDevices
from mooring.state.tables.nodes import NodeTable
from mooring.state.volumes import limits, usage
from mooring.state.volumes.topology import TopologyMasks
from tests.faults.planted import PlantedBug

REDRAWN_BUGS: Final = [
    PlantedBug(
        "skip_of_plugin_before",
        "A plugin without PreBindPreFlight skips PreBind if the plugin before it skips",
        bind_points,
        "_pre_binders",
        "    binders = []\n    for plugin in plugins:\n        result = None\n",
        "    binders = []\n    result = None\n    for plugin in plugins:\n",
    ),
    PlantedBug(
        "ended_watch_follows",
        "A watch that has ended counts as open until the next one is accepted",
        Reflector,
        "ended",
        "self.is_following = False",
        "pass",
    ),
    PlantedBug(
        "interrupted_plugin_is_unnamed",
        "The error of a pod that is preempted in PreBind does not name the plugin",
        PodsInPreBind,
        "run",
        'getattr(error.__cause__, "__notes__", ())',
        'getattr(error, "__notes__", ())',
        "crowd",
    ),
    PlantedBug(
        "lost_lease_fails_binding",
        "A binding that may not be written, since the lease is lost, is a failed one",
        BindingCycle,
        "run",
        "except (InvariantViolation, LeaseLost):",
        "except InvariantViolation:",
        "lease",
    ),
    PlantedBug(
        "ports_are_no_change",
        "The host ports of a pod that comes or goes are no change of its node",
        NodeTable,
        "_count",
        "_USAGE_AND_PORTS if info.host_ports else _USAGE",
        "_USAGE",
    ),
    PlantedBug(
        "removed_counts_as_queued",
        "A value that was removed while it waits counts as one to be written",
        WriteQueue,
        "remove",
        "self._parked += 1",
        "pass",
    ),
    PlantedBug(
        "start_of_reprieved",
        "The start of pods that stay on the node counts for the earliest start of victims",
        dry_run,
        "_ranks",
        "is_highest = removed & (priority == highest[:, None])",
        "is_highest = matrix.is_pod[lines] & (priority == highest[:, None])",
        "crowd",
    ),
    PlantedBug(
        "last_share_stays",
        "A device whose last share ends, and consumed nothing, still counts as shared",
        AllocatedDevices,
        "_is_shared",
        "        or device in self._all_shared\n",
        "",
        "device",
    ),
    PlantedBug(
        "zero_is_not_noticed",
        "Scores that were 0 everywhere, and are not any more, still count as a constant",
        CachedResults,
        "_add_up",
        "summed = (plugins, *self.in_range, *self.is_zero)",
        "summed = (plugins, *self.in_range)",
    ),
    PlantedBug(
        "first_flight_does_not_end",
        "Of several claims that Reserve has put in flight Unreserve ends the last one alone",
        DynamicResources,
        "reserve",
        "attempt.reserved.append(reserved)",
        "attempt.reserved[:] = [reserved]",
        "device",
    ),
    PlantedBug(
        "changed_label_is_one_more",
        "A label whose value changes counts for one more node",
        LabelColumns,
        "put",
        "    for key in before:\n",
        "    for key in [key for key in before if key not in labels]:\n",
    ),
    PlantedBug(
        "volume_to_come_is_not_counted",
        "A claim whose volume does not exist yet does not count for the driver of its class",
        limits._Count,
        "_driver_of",
        "    if volume is None:\n        return self._driver_of_class(claim)",
        '    if volume is None:\n        return "", ""',
        "volume",
    ),
    PlantedBug(
        "each_status_counts_once",
        "Nodes that no preemption helps for the same reason count as a single one",
        dry_run,
        "_evaluate",
        "result.add_status(statuses.table[number - 1], count)",
        "result.add_status(statuses.table[number - 1], 1)",
        "crowd",
    ),
    PlantedBug(
        "conflict_is_not_read",
        "After a conflict the removal of a user is sent again with the same version",
        Removal,
        "_note_failure",
        "isinstance(error, (OutcomeUnknown, Conflict))",
        "isinstance(error, OutcomeUnknown)",
        "device",
    ),
    PlantedBug(
        "waiting_is_no_user",
        "The lock of an object is forgotten while other tasks wait for it",
        Turns,
        "of",
        "    self._users[uid] += 1\n    try:\n        async with lock:\n            yield",
        "    try:\n        async with lock:\n            self._users[uid] += 1\n            yield",
        "device",
    ),
]

LATER_REDRAWN_BUGS: Final = [
    PlantedBug(
        "weight_is_of_cached_scores",
        "Scores that are not cached count once, whatever their weight",
        Framework,
        "weight",
        "return self.profile.weights.get(plugin, 1)",
        "return min(1, self.profile.weights.get(plugin, 1))",
    ),
    PlantedBug(
        "removed_urgent_is_ready",
        "An urgent item that is removed stays among those that may be written",
        WriteQueue,
        "_delete",
        "(self._urgent if item.is_urgent else self._ready).remove",
        "self._ready.remove",
    ),
    PlantedBug(
        "confirmed_is_tracked",
        "A binding that the watch has confirmed is tracked for ever",
        BindVerifier,
        "check_overdue",
        "self._unconfirmed.pop(uid, None)",
        "continue",
    ),
    PlantedBug(
        "one_event_is_kept",
        "Of the events that no attempt needs any more the last one is kept",
        InFlight,
        "done",
        "self._trim(needed_from - self._first)",
        "self._trim(needed_from - self._first - 1)",
    ),
    PlantedBug(
        "changes_since_filters",
        "What has changed since the last filters counts as what has changed since the last scores",
        CachedResults,
        "_changed",
        "self._last_changes[0] != generations",
        "self._last_changes[0][1] != snapshot.generation",
    ),
    PlantedBug(
        "gated_counts_as_moved",
        "A pod that is gated when it would have a backoff counts as moved there",
        PodQueues,
        "_move_to_backoff",
        "return False",
        "return True",
    ),
    PlantedBug(
        "counted_by_one_budget",
        "A pod whose disruption one budget has counted already is counted by no other one",
        dry_run,
        "_violates_budget",
        "is_counted[pair] = name not in item.disrupted_pods",
        "is_counted[victim == victim[pair]] &= name not in item.disrupted_pods",
        "crowd",
    ),
    PlantedBug(
        "resource_without_class_is_last",
        "Extended resources after one without a device class get no devices",
        extended_resources,
        "requests_and_mappings",
        "        if class_name is None:\n            continue",
        "        if class_name is None:\n            break",
        "device",
    ),
    PlantedBug(
        "slow_is_counted_late",
        "A binding counts as slow only when the requests of its namespace are counted",
        binding_tasks._Requests,
        "slow_count",
        "    self._update(now_s)\n",
        "",
    ),
    PlantedBug(
        "note_of_binder_is_lost",
        "The Scheduled event has the default note, although a Bind plugin has its own",
        Reporting,
        "bound",
        "note = own(pod, node_name)",
        "note = _assigned(pod, node_name)",
    ),
    PlantedBug(
        "first_problem_ends",
        "When a pod with a problem of its volumes goes, the first problem of its node ends",
        usage.VolumeUse,
        "_count",
        "del of_node[uid]",
        "del of_node[next(iter(of_node))]",
        "volume",
    ),
    PlantedBug(
        "mask_of_old_labels",
        "The nodes that a volume reaches are those of former labels",
        TopologyMasks,
        "mask",
        "    self._masks.invalidate_if_stale(self._nodes.log, self._nodes.size)\n",
        "",
        "volume",
    ),
    PlantedBug(
        "one_candidate_more",
        "A preemption looks at more nodes when it has as many candidates as it needs",
        dry_run,
        "dry_run_preemption",
        "len(result.candidates) >= limit",
        "len(result.candidates) > limit",
        "crowd",
    ),
]

#: Bug -> the run and the seed that detect it, and two bugs of an earlier list.
REDRAWN_SEED_OF: Final = {
    "skip_of_plugin_before": ("points", 9),
    "ended_watch_follows": ("informer", 0),
    "interrupted_plugin_is_unnamed": ("cycle", 0),
    "lost_lease_fails_binding": ("cycle", 0),
    "ports_are_no_change": ("crowd", 3),
    "removed_counts_as_queued": ("writes", 0),
    "start_of_reprieved": ("choice", 3),
    "last_share_stays": ("shared_devices", 0),
    "zero_is_not_noticed": ("scores", 12),
    "first_flight_does_not_end": ("node_devices", 0),
    "changed_label_is_one_more": ("state", 0),
    "volume_to_come_is_not_counted": ("volumes", 16),
    "each_status_counts_once": ("limited_choice", 4),
    "conflict_is_not_read": ("removal", 0),
    "waiting_is_no_user": ("claims", 0),
    "preempted_by_victims_profile": ("preemption", 0),
    "fence_at_the_end": ("elector", 1),
    "weight_is_of_cached_scores": ("scores", 0),
    "removed_urgent_is_ready": ("writes", 2),
    "confirmed_is_tracked": ("verify", 0),
    "one_event_is_kept": ("queue", 0),
    "changes_since_filters": ("points", 1),
    "gated_counts_as_moved": ("crowd", 1),
    "counted_by_one_budget": ("limited_choice", 18),
    "resource_without_class_is_last": ("extended", 0),
    "slow_is_counted_late": ("slots", 3),
    "note_of_binder_is_lost": ("reports", 0),
    "mask_of_old_labels": ("volumes", 2),
    "first_problem_ends": ("volumes", 2),
}
