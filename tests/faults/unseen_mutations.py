"""Ten of thirty subtle bugs that were written before anything else was read; the table has all.

Eight of them were detected by no seed: the runs drew too little, or nothing compared the result.
"""

from __future__ import annotations

from typing import Final

from mooring.client.leader_election import Elector
from mooring.client.write_queue import WriteQueue
from mooring.framework.waiting_pods import WaitingPod
from mooring.plugins.dynamic_resources import binding_conditions
from mooring.queue.quarantine import Quarantine
from mooring.queue.queues import PodQueues
from mooring.scheduler import bind_pod, pod_condition
from mooring.scheduler.binding_tasks import BindingTasks
from tests.faults.planted import PlantedBug

UNSEEN_BUGS: Final = [
    PlantedBug(
        "place_of_first_attempt",
        "A pod that is attempted again is not the last of those attempted",
        Quarantine,
        "attempted",
        "attempted.pop(uid, None)",
        "pass",
    ),
    PlantedBug(
        "label_is_renewal",
        "A change of the Lease's labels counts as a renewal",
        Elector,
        "_observe",
        "lease.spec != self.lease.spec",
        "lease.metadata.resource_version != self.lease.metadata.resource_version",
    ),
    PlantedBug(
        "wait_wakes_nobody",
        "A binding that begins to wait does not wake the scheduling",
        BindingTasks,
        "outside_request",
        "self._changed.set()",
        "pass",
    ),
    PlantedBug(
        "latest_timeout",
        "Of two timeouts in Permit the later one names the plugin",
        WaitingPod,
        "expire",
        "plugin = min(",
        "plugin = max(",
    ),
    PlantedBug(
        "message_is_transition",
        "Each new message of a condition changes its lastTransitionTime",
        pod_condition,
        "condition_patch",
        "if before is None or before.status != status:",
        "if before is None or not is_same:",
    ),
    PlantedBug(
        "waiting_is_never_urgent",
        "A write does not become urgent while it waits for its retry",
        WriteQueue,
        "put",
        "item.is_removed = False\n        item.is_urgent = item.is_urgent or urgent",
        "item.is_removed = False",
    ),
    PlantedBug(
        "first_writer_wakes",
        "Once a namespace does not fail any more, a single writer is woken",
        WriteQueue,
        "_write",
        "for _ in range(len(self._idle)):",
        "if self._idle:",
    ),
    PlantedBug(
        "conditions_of_namesake",
        "The conditions of a device are looked up without its pool",
        binding_conditions,
        "_conditions_of",
        "(status.driver, status.pool, status.device) == (\n"
        "            result.driver,\n            result.pool,",
        "(status.driver, status.device) == (\n            result.driver,",
    ),
    PlantedBug(
        "released_until_quarantine_ends",
        "The end of a quarantine keeps the end of its backoff",
        PodQueues,
        "release",
        "entry.backoff_expiration_s = None\n",
        "pass\n",
    ),
    PlantedBug(
        "read_goes_on",
        "A read of the pod goes on after its binding was answered",
        bind_pod,
        "_post_binding",
        "for pending in reads:",
        "for pending in reads[1:]:",
    ),
]
