"""Fourteen bugs that were written after the runs had been extended for ``mixed_mutations``.

They were committed before any was run. The table in docs/concepts/faults.md has the result.
"""

from __future__ import annotations

from typing import Final

from mooring.client.leader_election import Elector
from mooring.extenders import wire
from mooring.framework.runtime.combined_results import CombinedCache, CombinedResults
from mooring.framework.waiting_pods import WaitingPod
from mooring.plugins.default_preemption import dry_run
from mooring.plugins.dynamic_resources import bind_claims
from mooring.plugins.volume_binding.bind_volumes import BindProgress
from mooring.plugins.volume_binding.find_volumes import _Search
from mooring.queue.backoff_queue import BackoffQueue
from mooring.scheduler.pods_in_prebind import PodsInPreBind
from mooring.state.devices.allocated import AllocatedDevices
from mooring.state.volumes.csi_nodes import CSINodes
from tests.faults.planted import PlantedBug

BROAD_BUGS: Final = [
    PlantedBug(
        "last_heap_is_next",
        "The next end of a backoff is that of the last kind of pods",
        BackoffQueue,
        "next_completion_s",
        "end_s = min(end_s, self.expiration_s(entry))",
        "end_s = self.expiration_s(entry)",
    ),
    PlantedBug(
        "errors_add_to_refusals",
        "Refusals before an error make the backoff after it longer",
        BackoffQueue,
        "expiration_s",
        "entry.consecutive_errors or entry.unschedulable_count",
        "entry.consecutive_errors + entry.unschedulable_count",
    ),
    PlantedBug(
        "limits_outlive_drivers",
        "The limits of a CSINode stay if its new version has none",
        CSINodes,
        "put",
        "self._remove_derived(name)",
        "pass",
        "volume",
    ),
    PlantedBug(
        "last_share_subtracts",
        "What shares of a device consumed is released with the last of them",
        AllocatedDevices,
        "_discard",
        "                self._shares.pop(device, None)\n"
        "            self._subtract(device, amounts_of(result))",
        "                self._shares.pop(device, None)\n"
        "                self._subtract(device, amounts_of(result))",
        "device",
    ),
    PlantedBug(
        "column_rejects_first",
        "A node that an earlier filter rejects counts for the column, once it has changed",
        CombinedResults,
        "update",
        "first == 0 or own_first < first != NOT_VISITED",
        "first == 0 or first != NOT_VISITED",
        "device",
    ),
    PlantedBug(
        "combined_stay",
        "Combined results stay when the cached results of all rows have changed",
        CombinedCache,
        "note",
        "        self.clear()\n",
        "",
        "device",
    ),
    PlantedBug(
        "settled_was_waiting",
        "A victim whose wait in Permit has ended counts as cancelled",
        WaitingPod,
        "preempt",
        "return was_waiting",
        "return True",
        "crowd",
    ),
    PlantedBug(
        "cancelled_at_the_end",
        "A victim whose work in PreBind ends at that moment is bound nevertheless",
        PodsInPreBind,
        "run",
        "    if pod.cancel_message:\n        raise SchedulerError",
        "    if False:\n        raise SchedulerError",
        "crowd",
    ),
    PlantedBug(
        "empty_reason_is_none",
        "A node that an extender rejects with an empty reason is not rejected",
        wire,
        "_messages",
        'return {node: message or "" for node, message in messages.items()}',
        "return {node: message for node, message in messages.items() if message}",
        "extender",
    ),
    PlantedBug(
        "acquired_again",
        "A Lease that was deleted, and that we still have, is acquired anew",
        Elector,
        "_new_lease",
        "acquire_time=acquired or lease.spec.acquire_time",
        "acquire_time=lease.spec.acquire_time or acquired",
        "lease",
    ),
    PlantedBug(
        "all_must_have_conditions",
        "Devices are waited for only if all claims have conditions",
        bind_claims,
        "wait_for_devices",
        "if not any(_has_conditions",
        "if not all(_has_conditions",
        "device",
    ),
    PlantedBug(
        "reset_reference_binds",
        "A volume whose reference has lost its UID is waited for",
        BindProgress,
        "_check_binding",
        "volume.spec.claim_ref is None or not volume.spec.claim_ref.uid",
        "volume.spec.claim_ref is None",
        "volume",
    ),
    PlantedBug(
        "second_provision_adds",
        "A second claim that cannot be provisioned adds its reason to the first one's",
        _Search,
        "_provision",
        "self._set_final(bits != 0)",
        "pass",
        "volume",
    ),
    PlantedBug(
        "count_of_steps",
        "More nodes count as evaluated than there are",
        dry_run,
        "dry_run_preemption",
        "result.count = min(result.count, len(rows))",
        "result.count = max(result.count, len(rows))",
        "crowd",
    ),
]
