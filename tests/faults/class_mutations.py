"""One bug of each class that the thirty written before the kept ones were read left undetected.

The oracles and draws that see them were added for the class, so they say nothing about new bugs.
"""

from __future__ import annotations

from typing import Final

from mooring.client.informer import watch_events
from mooring.client.informer.informer import Informer
from mooring.extenders.http_extender import HTTPExtender
from mooring.framework.runtime import nominated
from mooring.scheduler import bind_pod
from mooring.scheduler.event_handlers import EventHandlers
from mooring.scheduler.parts import SchedulerParts
from mooring.scheduler.resource_claims.claim_writer import ClaimWriter
from mooring.scheduler.status_writer import StatusWriter, _Requests
from mooring.scheduler.with_extenders import ExtenderScheduler
from mooring.state.volumes.storage import Storage
from tests.faults.planted import PlantedBug

CLASS_BUGS: Final = [
    PlantedBug(
        "restored_claim",
        "The end of a claim's assumption leaves results valid",
        Storage,
        "restore_claim",
        "self.version += 1",
        "pass",
        "volume",
    ),
    PlantedBug(
        "assumed_claim",
        "The assumption of a claim leaves results valid",
        Storage,
        "assume_claim",
        "self.version += 1",
        "pass",
        "volume",
    ),
    PlantedBug(
        "restored_volume",
        "The end of a volume's assumption leaves results valid",
        Storage,
        "restore_volume",
        "self.version += 1",
        "pass",
        "volume",
    ),
    PlantedBug(
        "replaced_announcement",
        "The nomination before a binding is forgotten with a replaced status",
        StatusWriter,
        "enqueue",
        "announced = update.announced or before.announced",
        "announced = update.announced",
    ),
    PlantedBug(
        "announcement_replaced_by_nomination",
        "The nomination before a binding is forgotten with a status that has another one",
        StatusWriter,
        "enqueue",
        "if before is not None:",
        "if before is not None and update.nominated is None:",
    ),
    PlantedBug(
        "any_answer_is_known",
        "An answer makes known what another request without an answer has stored",
        _Requests,
        "sending",
        "if self._unknown.get(uid) is unknown:",
        "if True:",
    ),
    PlantedBug(
        "arrival_after_read",
        "Whether an extender's binding may arrive is decided after the read",
        HTTPExtender,
        "_is_bound_in_the_end",
        "        may_arrive = self._clock.monotonic_s() < ends_s\n"
        "        is_bound = await self._is_bound(pod, node_name)\n",
        "        is_bound = await self._is_bound(pod, node_name)\n"
        "        may_arrive = self._clock.monotonic_s() < ends_s\n",
    ),
    PlantedBug(
        "binding_after_read",
        "Whether a binding may arrive is decided after the read",
        bind_pod,
        "bind_pod",
        "if not may_arrive:",
        "if clock.monotonic_s() >= arrives_until_s:",
    ),
    PlantedBug(
        "first_victim_decides",
        "Of several victims only the first one has to be there still",
        ExtenderScheduler,
        "_are_victims_there",
        "for victim in post_filter_result.victims]",
        "for victim in post_filter_result.victims[:1]]",
    ),
    PlantedBug(
        "victims_from_before",
        "Victims are not looked for after events were buffered",
        ExtenderScheduler,
        "_try_once",
        "if buffered and not self._are_victims_there(post_filter_result):",
        "if False:",
    ),
    PlantedBug(
        "older_removal",
        "The end of an older removal of a user forgets a newer one",
        ClaimWriter,
        "unreserve",
        "if self._removals.get(ids) is task:",
        "if ids in self._removals:",
        "device",
    ),
    PlantedBug(
        "equal_nominated",
        "Nominated pods of the same priority do not count",
        nominated,
        "nominated_pods_by_row",
        "nominated.priority >= pod.priority",
        "nominated.priority > pod.priority",
        "crowd",
    ),
    PlantedBug(
        "last_nominated",
        "Of the pods nominated to a node only the last one counts",
        nominated,
        "nominated_pods_by_row",
        "in nominator.pods_on(name)",
        "in nominator.pods_on(name)[-1:]",
        "crowd",
    ),
    PlantedBug(
        "informers_of_extenders",
        "The informers of extenders are not followed",
        SchedulerParts,
        "_all_informers",
        "if self._config.extenders",
        "if not self._config.extenders",
        "extender",
    ),
    PlantedBug(
        "foreign_deletion_counts",
        "The deletion of a pod of another scheduler counts as an event",
        EventHandlers,
        "_on_pod",
        "if not last.spec.node_name and not self._is_ours(last):",
        "if False:",
    ),
    PlantedBug(
        "assigned_deletion_is_silent",
        "The deletion of an assigned pod of another scheduler does not count as an event",
        EventHandlers,
        "_on_pod",
        "if not last.spec.node_name and not self._is_ours(last):",
        "if not self._is_ours(last):",
    ),
    PlantedBug(
        "unreadable_without_uid",
        "An object that cannot be decoded has no UID",
        watch_events,
        "identity",
        'metadata.uid or ""',
        '""',
    ),
    PlantedBug(
        "unreadable_without_version",
        "An object that cannot be decoded has no version",
        watch_events,
        "identity",
        'metadata.resource_version or ""',
        '""',
    ),
    PlantedBug(
        "unreadable_without_namespace",
        "An object that cannot be decoded has no namespace",
        watch_events,
        "identity",
        'metadata.namespace or ""',
        '""',
    ),
    PlantedBug(
        "fresh_without_watch",
        "An informer is fresh without a watch",
        Informer,
        "wait_until_fresh",
        "is_fresh = reflector.is_following and reflector.fresh_at_s >= since_s",
        "is_fresh = reflector.fresh_at_s >= since_s",
        "lease",
    ),
    PlantedBug(
        "fresh_with_old_watch",
        "An informer whose watch is open is fresh",
        Informer,
        "wait_until_fresh",
        "reflector.is_following and reflector.fresh_at_s >= since_s",
        "reflector.is_following",
        "lease",
    ),
    PlantedBug(
        "any_progress_is_fresh",
        "A wait for a fresh informer ends at the first progress",
        Informer,
        "wait_until_fresh",
        "while reflector.fresh_at_s < asked_at_s",
        "if reflector.fresh_at_s < asked_at_s",
        "lease",
    ),
    PlantedBug(
        "fresh_since_doubt",
        "An informer that was listed after the doubt, but before the call, is fresh",
        Informer,
        "wait_until_fresh",
        "while reflector.fresh_at_s < asked_at_s",
        "while reflector.fresh_at_s < since_s",
        "lease",
    ),
]
