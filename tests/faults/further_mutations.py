"""Ten more subtle bugs, planted from the source alone, before it was tried what detects them.

How many are detected is in docs/concepts/faults.md.
"""

from __future__ import annotations

from typing import Final

from mooring.client.rest.client import Client
from mooring.client.write_queue import WriteQueue
from mooring.extenders.http_extender import HTTPExtender
from mooring.plugins.default_preemption import plugin as default_preemption
from mooring.plugins.volume_binding.bind_volumes import VolumeBinder
from mooring.queue.scheduling_queue import SchedulingQueue
from mooring.queue.unschedulable_pods import UnschedulablePods
from mooring.scheduler.binding_tasks import BindingTasks
from mooring.scheduler.preemption import PreemptionExecutor
from mooring.state.cache import Cache
from tests.faults.planted import PlantedBug

FURTHER_BUGS: Final = [
    PlantedBug(
        "quarantined_ends_list",
        "A quarantined pod ends the activation of a list of pods",
        SchedulingQueue,
        "activate",
        "continue",
        "return",
    ),
    PlantedBug(
        "last_plugin_decides",
        "Of two plugins whose hints requeue a pod, the strategy of the second one counts",
        UnschedulablePods,
        "pods_to_requeue",
        "max(before, strategy_of(entry, plugin))",
        "strategy_of(entry, plugin)",
    ),
    PlantedBug(
        "no_node_is_new",
        "Whether a node is new is looked up after it was added: it has no CSI drivers",
        Cache,
        "put_node",
        "    is_new = self.nodes.live_row(node.metadata.name) < 0\n    self.nodes.put(node)\n",
        "    self.nodes.put(node)\n    is_new = self.nodes.live_row(node.metadata.name) < 0\n",
        "volume",
    ),
    PlantedBug(
        "fence_before_wait",
        "A write passes the fence before the wait that the server asked for",
        Client,
        "_write_once",
        "    await self._waits.wait(request)\n"
        "    on_send()\n"
        "    # A request must not outlive the lease under which it was started.\n"
        "    allowed_s = self._fence()\n",
        "    allowed_s = self._fence()\n    await self._waits.wait(request)\n    on_send()\n",
        "lease",
    ),
    PlantedBug(
        "removed_is_dropped",
        "A removed value that waits counts as dropped: the queue of writes exceeds its limit",
        WriteQueue,
        "_make_space",
        "item.state is not _State.WRITING and not item.is_removed",
        "item.state is not _State.WRITING",
    ),
    PlantedBug(
        "full_before_end",
        "Whether a namespace has too many bindings is looked up before one of them ends",
        BindingTasks,
        "end_request",
        "    self._requests.end(key)\n"
        "    self._changed.set()\n"
        "    if self._resumed and not self._is_full(namespace):\n",
        "    is_full = self._is_full(namespace)\n"
        "    self._requests.end(key)\n"
        "    self._changed.set()\n"
        "    if self._resumed and not is_full:\n",
    ),
    PlantedBug(
        "waits_for_first_victim",
        "A gated preemptor waits until its first victim is deleted, not the others",
        PreemptionExecutor,
        "_wait_until_deleted",
        "for victim in victims:",
        "for victim in victims[:1]:",
        "crowd",
    ),
    PlantedBug(
        "condition_is_false",
        "A terminating pod whose DisruptionTarget condition is False counts as a victim",
        default_preemption,
        "_is_terminating_victim",
        'condition.status == "True" and ',
        "",
        "crowd",
    ),
    PlantedBug(
        "version_before_write",
        "The progress of provisioning is compared with the version before the write",
        VolumeBinder,
        "_write",
        "provision.claim = await",
        "await",
        "volume",
    ),
    PlantedBug(
        "may_arrive_after_read",
        "Whether a binding may still arrive is looked up after the pod was read, not before",
        HTTPExtender,
        "_is_bound_in_the_end",
        "        may_arrive = self._clock.monotonic_s() < ends_s\n"
        "        is_bound = await self._is_bound(pod, node_name)\n",
        "        is_bound = await self._is_bound(pod, node_name)\n"
        "        may_arrive = self._clock.monotonic_s() < ends_s\n",
        "extender",
    ),
]
