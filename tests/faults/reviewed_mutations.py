"""Twenty bugs that a reviewer might overlook, written from the sources of the living parts alone.

They were tried before it was looked up what the oracles see; the table in docs/concepts/faults.md
has the result.
"""

from __future__ import annotations

from typing import Final

from mooring.client import event_recorder, retry
from mooring.client.informer.reflector import Reflector
from mooring.client.informer.replica import Replica
from mooring.client.leader_election import Elector
from mooring.client.write_queue import WriteQueue
from mooring.queue.queues import PodQueues
from mooring.queue.scheduling_queue import SchedulingQueue
from mooring.queue.unschedulable_pods import UnschedulablePods
from mooring.scheduler.bind_verification import BindVerifier
from mooring.scheduler.event_handlers import EventHandlers
from mooring.scheduler.preemption import PreemptionExecutor
from mooring.scheduler.resource_claims.reservation import Reservation
from mooring.scheduler.status_writer import StatusWriter
from mooring.state.cache import Cache
from mooring.state.devices.claims import Claims
from mooring.state.volumes.storage import Storage
from tests.faults.planted import PlantedBug

_QUEUE_AND_CACHE: Final = [
    PlantedBug(
        "gate_is_remembered",
        "A pod that has passed PreEnqueue keeps the plugin that had gated it",
        PodQueues,
        "_passes_pre_enqueue",
        "entry.gating_plugin = refused_by\n",
        "entry.gating_plugin = refused_by or entry.gating_plugin\n",
    ),
    PlantedBug(
        "deleted_stays_gated",
        "A gated pod that is deleted counts as gated for ever",
        UnschedulablePods,
        "remove",
        "self._gated.discard(entry.uid)",
        "pass",
    ),
    PlantedBug(
        "activated_in_flight",
        "The activation of a pod in flight counts for all pods in flight",
        SchedulingQueue,
        "activate",
        "_Only(uid)",
        "None",
    ),
    PlantedBug(
        "name_of_namesake",
        "The removal of a pod forgets which pod has its name now",
        Cache,
        "_remove_from_node",
        "if self._uid_of.get(placed.info.key) == uid:\n        del self._uid_of[placed.info.key]",
        "self._uid_of.pop(placed.info.key, None)",
        "reactive",
    ),
    PlantedBug(
        "silent_restore",
        "The end of a claim's assumption is not reported",
        Claims,
        "restore",
        "self._store(_Entry(entry.reported, entry.reported))",
        "self._entries[claim_key] = _Entry(entry.reported, entry.reported)",
        "device",
    ),
    PlantedBug(
        "reported_before_assumed",
        "A claim that the watch reports before its writer assumes it is out of sync",
        Claims,
        "assume",
        "new < stored",
        "new <= stored",
        "device",
    ),
    PlantedBug(
        "deleted_claim_is_assumed",
        "A claim that is deleted stays in its assumed version",
        Storage,
        "_remove_claim",
        "self._assumed_claims.pop(claim_key, None)",
        "pass",
        "volume",
    ),
]

_CLIENT: Final = [
    PlantedBug(
        "follows_while_listing",
        "A watch that was given up for a new list counts as open until that is accepted",
        Reflector,
        "relist",
        "self.is_following = False",
        "pass",
        "lease",
    ),
    PlantedBug(
        "unreadable_namesake",
        "An object is kept because another one of its name cannot be decoded in a list",
        Replica,
        "replacing",
        "if unreadable.get(key) == old.metadata.uid:",
        "if key in unreadable:",
    ),
    PlantedBug(
        "tries_of_old_value",
        "A new value goes on with the backoff of the value that has been written",
        WriteQueue,
        "_after",
        "        item.tries = 0",
        "        pass",
    ),
    PlantedBug(
        "related_is_no_key",
        "Events with another related object are in one series",
        event_recorder,
        "_key",
        "event.related,",
        "",
        "crowd",
    ),
    PlantedBug(
        "deleted_lease_is_failure",
        "A leader whose Lease was deleted waits for its next try",
        Elector,
        "_renew_unread",
        "(Conflict, NotFound)",
        "Conflict",
        "lease",
    ),
    PlantedBug(
        "one_try_more",
        "A request is tried once more than allowed",
        retry,
        "retry",
        "tries >= policy.tries_max",
        "tries > policy.tries_max",
    ),
]

_SCHEDULER: Final = [
    PlantedBug(
        "listers_come_last",
        "Listers are updated after the cache and the queue",
        EventHandlers,
        "on_change",
        "    self._listers.apply(kind, change.old, change.new)\n"
        '    if kind == "Pod":\n'
        "        self._on_pod(change)\n"
        '    elif kind == "Node":\n'
        "        self._on_node(change)\n"
        "    else:\n"
        "        self._on_other(kind, change)\n",
        '    if kind == "Pod":\n'
        "        self._on_pod(change)\n"
        '    elif kind == "Node":\n'
        "        self._on_node(change)\n"
        "    else:\n"
        "        self._on_other(kind, change)\n"
        "    self._listers.apply(kind, change.old, change.new)\n",
    ),
    PlantedBug(
        "outdated_status_stays",
        "A status that has become outdated, since the stored one is right, is written nevertheless",
        StatusWriter,
        "enqueue",
        "self._writes.remove(uid)\n        return",
        "return",
    ),
    PlantedBug(
        "nominated_despite_wait",
        "The wait that the server asks for at a status does not hold for nominations",
        StatusWriter,
        "nominate",
        "if self._client.status_wait_s(pod):",
        "if False:",
    ),
    PlantedBug(
        "last_victim_not_awaited",
        "A preemptor is not gated any more once the last eviction has begun",
        PreemptionExecutor,
        "is_running",
        "last is None or not _is_terminating(self._pods.get(last.key), last.uid)",
        "last is None",
        "crowd",
    ),
    PlantedBug(
        "higher_priority_ends_clearing",
        "Nominations after that of a pod of a higher priority are not cleared",
        PreemptionExecutor,
        "_clear_lower_priority_nominations",
        "continue",
        "break",
        "crowd",
    ),
    PlantedBug(
        "terminating_is_requeued",
        "A pod that has lost its binding is queued although it is being deleted",
        BindVerifier,
        "_requeue",
        "if newest.metadata.deletion_timestamp is None:",
        "if True:",
    ),
    PlantedBug(
        "status_before_finalizer",
        "A claim is allocated in the status from before its finalizer was written",
        Reservation,
        "attempt",
        "claim.status, allocation=",
        "status, allocation=",
        "device",
    ),
]

REVIEWED_BUGS: Final = [*_QUEUE_AND_CACHE, *_CLIENT, *_SCHEDULER]
