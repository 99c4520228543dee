"""Ten subtle bugs of the scheduler, in functions that were drawn.

``random.seed(20261127)`` and ``random.sample`` chose them from the 193 functions of
``src/mooring/scheduler`` that have six lines or more. The bugs were written before it was tried
which of them are detected.
"""

from __future__ import annotations

from typing import Final

from mooring.scheduler import heap_trim, informer_health, leader_election
from mooring.scheduler.binding_cycle import BindingCycle
from mooring.scheduler.debugger import dump
from mooring.scheduler.debugger.audit import CacheAudit
from mooring.scheduler.evictor import Evictor
from mooring.scheduler.plugin_handle import PluginHandle
from mooring.scheduler.resource_claims.claim_writer import ClaimWriter
from mooring.scheduler.resource_claims.reservation import Reservation
from tests.faults.planted import PlantedBug

DRAWN_BUGS: Final = [
    PlantedBug(
        "always_announces",
        "A nomination is written before a binding although that is switched off",
        BindingCycle,
        "__init__",
        "self._announces = announces",
        "self._announces = True",
    ),
    PlantedBug(
        "deleted_since_read",
        "Whether a claim is being deleted is looked up in the version of the attempt",
        Reservation,
        "attempt",
        "if claim.metadata.deletion_timestamp is not None:",
        "if self._claim.metadata.deletion_timestamp is not None:",
        "device",
    ),
    PlantedBug(
        "trims_nothing",
        "All free memory of the heap stays with the process",
        heap_trim,
        "trim_function",
        "malloc_trim(0)",
        "malloc_trim(1 << 40)",
        "lease",
    ),
    PlantedBug(
        "lost_lease_is_logged",
        "A lease that is lost while the event of the leader is written is only logged",
        leader_election,
        "record_leader",
        "    except LeaseLost:\n        raise\n",
        "",
        "lease",
    ),
    PlantedBug(
        "deallocated_is_reserved",
        "A claim that is deallocated for another pod keeps its users",
        ClaimWriter,
        "apply",
        "status=ResourceClaimStatus()",
        "status=replace(change.claim.status, allocation=None)",
        "device",
    ),
    PlantedBug(
        "several_problems_stay",
        "A node with several wrong sums is not repaired",
        CacheAudit,
        "_audit_row",
        "    self._cache.recount(name)\n",
        "    if len(problems) == 1:\n        self._cache.recount(name)\n",
    ),
    PlantedBug(
        "differences_only",
        "The dump is left out if cache and objects differ",
        dump,
        "debug_entries",
        "[*compare(cache, queue, nodes, pods), *dump(cache, queue)]",
        "[*compare(cache, queue, nodes, pods)] or [*dump(cache, queue)]",
    ),
    PlantedBug(
        "first_kind_is_stale",
        "A new leader does not wait until the first kind is fresh",
        informer_health,
        "wait_until_fresh",
        "for informer in informers:\n                tasks",
        "for informer in informers[1:]:\n                tasks",
        "lease",
    ),
    PlantedBug(
        "lister_by_alias",
        "A lister is looked up under the name that the plugin uses, not under that of the kind",
        PluginHandle,
        "lister",
        "self.listers.get(name)",
        "self.listers.get(kind)",
    ),
    PlantedBug(
        "conflict_is_transient",
        "A deletion of a victim that is refused with Conflict is sent again",
        Evictor,
        "evict",
        "            TRANSIENT,\n",
        "            (*TRANSIENT, Conflict),\n",
        "crowd",
    ),
]
