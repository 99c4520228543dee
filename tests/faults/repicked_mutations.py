"""Thirteen bugs in functions that a third seed has drawn, after the harness was extended.

The functions are those of ``random.Random(20261129)``; the runs had been extended for
``picked_mutations`` before. The table in docs/concepts/faults.md has the result.
"""

from __future__ import annotations

from typing import Final

from mooring.client.informer.informer import Informer
from mooring.dra.candidates import Candidates
from mooring.extenders import wire
from mooring.framework.runtime.filter_results import FilterResults
from mooring.plugins.default_preemption import plugin as default_preemption
from mooring.plugins.dynamic_resources.plugin import DynamicResources
from mooring.plugins.pod_topology_spread import scoring
from mooring.plugins.volume_binding import hints
from mooring.queue.backoff_queue import BackoffQueue
from mooring.scheduler.evictor import Evictor
from mooring.scheduler.resource_claims.reservation import Reservation
from mooring.state.devices.allocated import AllocatedDevices
from mooring.state.tables.nodes import NodeTable
from tests.faults.planted import PlantedBug

REPICKED_BUGS: Final = [
    PlantedBug(
        "one_of_each_heap",
        "Of the backoffs of a kind that are over only one ends at a time",
        BackoffQueue,
        "pop_completed",
        "while (entry := heap.peek()) is not None",
        "if (entry := heap.peek()) is not None",
    ),
    PlantedBug(
        "removed_node_is_tainted",
        "The row of a removed node keeps its taints",
        NodeTable,
        "remove",
        "self._put_taints(row, ())",
        "pass",
    ),
    PlantedBug(
        "same_number_of_devices",
        "An allocation that is replaced by one of as many devices stays in use",
        AllocatedDevices,
        "claim_changed",
        "before.devices == after.devices",
        "len(before.devices.results) == len(after.devices.results)",
        "device",
    ),
    PlantedBug(
        "unbound_victim_is_deleted",
        "A victim without a node counts as deleted if its deletion is refused with Conflict",
        Evictor,
        "_exists",
        "        await read_bound_node(self._client, pod)\n",
        "        return bool(await read_bound_node(self._client, pod))\n",
    ),
    PlantedBug(
        "deleted_is_refused",
        "A claim that is gone after a conflict counts as refused",
        Reservation,
        "_newest",
        "ClaimWriteFailed if isinstance(error, NotFound) else _Refused",
        "_Refused",
        "device",
    ),
    PlantedBug(
        "fresh_since_the_past",
        "A wait for fresh objects ends with those of the time that is asked for",
        Informer,
        "wait_until_fresh",
        "while reflector.fresh_at_s < asked_at_s",
        "while reflector.fresh_at_s < since_s",
        "lease",
    ),
    PlantedBug(
        "rejected_by_another",
        "A node that another plugin rejects now counts for the plugin before",
        FilterResults,
        "set_first",
        "if self._refused_counts is not None:",
        "if self._refused_counts is not None and change:",
    ),
    PlantedBug(
        "equal_victim_leaves",
        "A terminating victim of the same priority is waited for",
        default_preemption,
        "_ineligible_reason",
        "placed.info.priority < pod.priority",
        "placed.info.priority <= pod.priority",
        "crowd",
    ),
    PlantedBug(
        "failed_device_is_usable",
        "A claim whose device has failed counts as usable",
        DynamicResources,
        "_is_usable",
        "return readiness is not Readiness.FAILED",
        "return True",
        "device",
    ),
    PlantedBug(
        "equal_capacity_queues",
        "A capacity that stays as it is requeues pods",
        hints,
        "_after_capacity_change",
        "after.value() > before.value()",
        "after.value() >= before.value()",
        "volume",
    ),
    PlantedBug(
        "host_without_name_counts",
        "A node without the label of its name counts as a host",
        scoring,
        "points",
        "if not domains.is_complete:",
        "if False:",
    ),
    PlantedBug(
        "device_of_other_node",
        "A device of a slice with nodes for each device can be used by all of them",
        Candidates,
        "_evaluate",
        "return device.is_on(self._node)",
        "return True",
        "device",
    ),
    PlantedBug(
        "violations_are_ours",
        "The violations that an extender counts are ignored",
        wire,
        "_victims",
        '_part(fields, "numpdbviolations", int) or 0',
        'min(_part(fields, "numpdbviolations", int) or 0, 0)',
        "extender",
    ),
]
