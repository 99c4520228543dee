"""Bugs at lines of the living parts that a seeded generator drew anew.

For the first fifteen ``random.Random(20261128)`` drew 40 of the 10 225 statements in the functions
of ``queue``, ``state``, ``extenders``, the client but for its transport, the runtime of the
framework, the parts of ``scheduler`` that schedule, bind, evict and write, and of the plugins
DefaultPreemption, DynamicResources and VolumeBinding. In the order of the draw each line got a bug,
but for audits, reports, constructors that only store, and functions in which all lines have bugs
in another list. They were committed before any was run. The table in docs/concepts/faults.md has
the results.
"""

from __future__ import annotations

from typing import Final

from mooring.client.informer.reflector import Reflector
from mooring.client.write_queue import WriteQueue
from mooring.framework.runtime import bind as bind_points
from mooring.framework.runtime.result_cache import CachedResults
from mooring.plugins.default_preemption import dry_run
from mooring.plugins.dynamic_resources.plugin import DynamicResources
from mooring.scheduler.binding_cycle import BindingCycle
from mooring.scheduler.pods_in_prebind import PodsInPreBind
from mooring.scheduler.resource_claims.removal import Removal
from mooring.scheduler.resource_claims.turns import Turns
from mooring.state.columns.labels import LabelColumns
from mooring.state.devices.allocated import AllocatedDevices
from mooring.state.tables.nodes import NodeTable
from mooring.state.volumes import limits
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
