"""Subtle bugs of the client, leases, volumes, claims and extenders."""

from __future__ import annotations

from typing import Final

from mooring.client.informer.informer import Informer
from mooring.client.informer.reflector import Listing, Reflector
from mooring.client.informer.replica import Replica
from mooring.client.leader_election import Elector
from mooring.client.rest.client import Client
from mooring.client.rest.reading import ReadClient
from mooring.client.rest.requested_waits import RequestedWaits
from mooring.client.write_queue import WriteQueue
from mooring.plugins.volume_binding.bind_volumes import BindProgress, VolumeBinder
from mooring.scheduler.event_handlers import EventHandlers
from mooring.scheduler.resource_claims.claim_writer import ClaimWriter
from mooring.scheduler.resource_claims.reservation import Reservation
from tests.faults.planted import PlantedBug

_CLIENT: Final = [
    PlantedBug(
        "stale_last_version",
        "The last version of a deleted object is dropped",
        Replica,
        "_remove",
        "last=event.obj if is_same else None",
        "last=None",
    ),
    PlantedBug(
        "version_is_lost",
        "After a lost resourceVersion no watch names one any more",
        Reflector,
        "listed",
        "self._is_version_lost = False",
        "pass",
    ),
    PlantedBug(
        "no_wait_after_short_watch",
        "A watch that ends at once is repeated without a wait",
        Reflector,
        "_on_watch_end",
        "if not is_short:",
        "if True:",
    ),
    PlantedBug(
        "informer_ignores_retry_after",
        "An informer does not wait as long as the server asks",
        Reflector,
        "_wait_s",
        "at_least_s=requested_s",
        "at_least_s=None",
    ),
    PlantedBug(
        "deleted_while_listed",
        "An object that is deleted during a list stays in it",
        Listing,
        "apply",
        "    self.objects.pop(event.key, None)\n",
        "    pass\n",
    ),
    PlantedBug(
        "second_wait_forgotten",
        "A request waits only once, though the server asked again meanwhile",
        RequestedWaits,
        "wait",
        "            waited = wait\n            await self._sleep(left_s)",
        "            return await self._sleep(left_s)",
    ),
    PlantedBug(
        "bindings_do_not_wait",
        "A wait that the server asks for is not remembered for bindings",
        RequestedWaits,
        "note",
        "if not wait_s or _is_creation(request):",
        'if not wait_s or request.method == "POST":',
    ),
    PlantedBug(
        "new_value_ends_wait",
        "A newer value is written at once, though the one before has to wait",
        WriteQueue,
        "put",
        "item.is_removed = False\n",
        "item.is_removed = False\n        self._make_ready(key, item)\n",
    ),
    PlantedBug(
        "replaced_while_written",
        "A value that is replaced while it is being written is lost",
        WriteQueue,
        "_after",
        "(retry is None and not item.is_replaced)",
        "retry is None",
    ),
    PlantedBug(
        "replaced_ends_wait",
        "A value that is replaced while it is refused does not wait",
        WriteQueue,
        "_after",
        "if retry is None or not retry.wait_s:",
        "if retry is None or not retry.wait_s or item.is_replaced:",
    ),
    PlantedBug(
        "removed_while_written",
        "A value after one that was removed while it was written is lost",
        WriteQueue,
        "put",
        "item.is_replaced, item.is_removed = True, False",
        "item.is_replaced = True",
    ),
    PlantedBug(
        "old_wait_ends",
        "The end of a removed value's wait ends that of a later one",
        WriteQueue,
        "_wait",
        "if self._items.get(key) is not item:",
        "if key not in self._items:",
    ),
    PlantedBug(
        "server_error_is_refusal",
        "A write that the server fails counts as one that did not happen",
        Client,
        "_write_once",
        "raise OutcomeUnknown(str(error)) from error",
        "raise error",
    ),
    PlantedBug(
        "expired_page_ends_list",
        "A list that expires between two pages counts as complete",
        Informer,
        "_list",
        "except ConfigError as error:",
        "except ApiError as error:\n        if error.status != 410 or not listing.objects:\n"
        "            raise\n    except ConfigError as error:",
    ),
    PlantedBug(
        "first_page_only",
        "The first page of a list counts as the whole list",
        ReadClient,
        "pages",
        "if not token:",
        "if True:",
    ),
]

_LEASES: Final = [
    PlantedBug(
        "expiry_from_last_read",
        "A lease expires a while after it was last read, not after it last changed",
        Elector,
        "_observe",
        "if self.lease is None or lease.spec != self.lease.spec:",
        "if True:",
        "lease",
    ),
    PlantedBug(
        "expiry_from_first_read",
        "A lease expires a while after it was first read",
        Elector,
        "_observe",
        "if self.lease is None or lease.spec != self.lease.spec:",
        "if self.lease is None:",
        "lease",
    ),
    PlantedBug(
        "no_read_after_failure",
        "A renewal without an answer is repeated without a read",
        Elector,
        "_try",
        "    self._needs_read = True\n",
        "    pass\n",
        "lease",
    ),
    PlantedBug(
        "deadline_from_answer",
        "The renew deadline counts from the answer, not from the request",
        Elector,
        "_try",
        "self._leads_until_s = started_at_s + self._times.renew_s",
        "self._leads_until_s = self._clock.monotonic_s() + self._times.renew_s",
        "pause",
    ),
    PlantedBug(
        "fence_only_at_renewal",
        "Writes pass until the renewal notices that the lease is lost",
        Elector,
        "fence",
        'raise LeaseLost(f"{self.identity} does not hold {self._path}")',
        "return 10.0",
        "pause",
    ),
    PlantedBug(
        "lead_after_loss",
        "A renewal that is sent after the deadline makes it lead again",
        Elector,
        "keep",
        "if remaining_s > 0 and await self._try(remaining_s):",
        "if await self._try(max(remaining_s, 1.0)):",
        "pause",
    ),
    PlantedBug(
        "overwritten_lease",
        "The lease of another holder is replaced before it has expired",
        Elector,
        "_is_held_by_another",
        "(self.lease.spec.lease_duration_seconds or 0)",
        "5",
        "lease",
    ),
]

_VOLUMES_AND_CLAIMS: Final = [
    PlantedBug(
        "refused_volume_stays_assumed",
        "The volumes of a pod whose write is refused stay assumed",
        VolumeBinder,
        "bind",
        "volumes.revert(handle.snapshot.storage)",
        "pass",
        "volume",
    ),
    PlantedBug(
        "older_volume_is_checked",
        "A version of a volume from before the write decides",
        BindProgress,
        "_check_binding",
        "if _is_older(volume.metadata, binding.volume.metadata):",
        "if False:",
        "volume",
    ),
    PlantedBug(
        "refused_provisioning",
        "A claim whose provisioning was refused is waited for",
        BindProgress,
        "_check_provision",
        'if annotations.get(SELECTED_NODE, "") != self._node_name:',
        "if False:",
        "volume",
    ),
    PlantedBug(
        "second_claim_unchecked",
        "Of two claims to be provisioned the second is not waited for",
        BindProgress,
        "first_pending",
        "for provision in self._volumes.provisions:",
        "for provision in self._volumes.provisions[:1]:",
        "volume",
    ),
    PlantedBug(
        "unknown_reservation_fails",
        "A reservation without an answer counts as failed",
        Reservation,
        "write_until_known",
        "arrives_until_s = self._sent_at_s + ARRIVES_WITHIN_S",
        "pass",
        "device",
    ),
    PlantedBug(
        "reservation_is_not_removed",
        "A claim stays reserved for a pod that was not bound",
        ClaimWriter,
        "unreserve",
        "if before is not None and not before.done():",
        "if True:",
        "device",
    ),
    PlantedBug(
        "allocated_elsewhere",
        "A claim that was allocated meanwhile is allocated again",
        Reservation,
        "attempt",
        "if status.allocation is not None:",
        "if False:",
        "device",
    ),
]

_EXTENDERS: Final = [
    PlantedBug(
        "second_buffered_change",
        "Of two changes of an object during a call the first is forgotten",
        EventHandlers,
        "_buffer",
        "change = change._replace(old=before.old)",
        "pass",
        "extender",
    ),
    PlantedBug(
        "buffered_deletion",
        "A deletion during a call to an extender is lost",
        EventHandlers,
        "_buffer",
        "if change.old is not None or change.new is not None:",
        "if change.new is not None:",
        "extender",
    ),
]

CLIENT_BUGS: Final = [
    *_CLIENT,
    *_LEASES,
    *_VOLUMES_AND_CLAIMS,
    *_EXTENDERS,
]
