"""Bugs at lines of the state and of the allocator of devices that a seed drew."""

from __future__ import annotations

from typing import Final

from mooring.dra.allocator import Allocator
from mooring.dra.candidates import Candidates
from mooring.dra.ledger import Ledger
from mooring.dra.search import Search
from mooring.dra.slices import Slices
from mooring.state.audit import columns as audit_columns
from mooring.state.audit import storage as audit_storage
from mooring.state.cache import Cache
from mooring.state.columns.grouped import GroupedCounts
from mooring.state.columns.kind_columns import LabelClassColumns
from mooring.state.columns.visit_order import VisitOrder
from mooring.state.devices.allocated import AllocatedDevices
from mooring.state.devices.signatures import NodeSignatures
from mooring.state.listers import Lister
from mooring.state.tables.affinity_terms import PodTermTable
from mooring.state.tables.counters import PodCounter, PodCounters
from mooring.state.volumes.storage import Storage
from tests.faults.planted.bug import PlantedBug

BUGS: Final = [
    PlantedBug(
        "any_label_is_enough",
        "A lister returns objects that have any of the labels",
        Lister,
        "list",
        "if labels.items() <= obj.metadata.labels.items()]",
        "if labels.items() & obj.metadata.labels.items()]",
        runs="handle",
        seed=1,
    ),
    PlantedBug(
        "invalid_pools_are_empty",
        "Invalid pools are reported as nodes without devices",
        Allocator,
        "allocate",
        "        if pools.has_invalid:\n            raise InvalidPools\n        return None",
        "        return None",
        runs="allocator",
        seed=0,
    ),
    PlantedBug(
        "inverse_condition",
        "A condition that excludes values requires them",
        LabelClassColumns,
        "_mask_of",
        "return ~among if is_inverse else among",
        "return among",
        runs="tables",
        seed=0,
    ),
    PlantedBug(
        "signatures_of_other_nodes_stay",
        "The signatures of nodes whose labels changed are not computed anew",
        NodeSignatures,
        "refresh",
        "    rows.update(others)\n    for row in rows:",
        "    for row in rows:",
        runs="device_columns",
        seed=9,
    ),
    PlantedBug(
        "first_row_is_not_repaired",
        "The node in the first row is not counted anew",
        Cache,
        "recount",
        "if row >= 0:",
        "if row > 0:",
        runs="audit",
        seed=0,
    ),
    PlantedBug(
        "dedicated_are_shared",
        "Dedicated devices are taken for shared ones",
        AllocatedDevices,
        "__init__",
        "AllocatedState(self._all_dedicated, self._all_shared, self._all_consumed)",
        "AllocatedState(self._all_dedicated, self._all_dedicated, self._all_consumed)",
        runs="shared_devices",
        seed=0,
    ),
    PlantedBug(
        "users_of_claims_are_not_audited",
        "The audit does not compare the pods that use a claim",
        audit_storage,
        "_audit_pods",
        '        *_differences("users of claim", known_users, users),\n',
        "",
        runs="corrupted",
        seed=4,
    ),
    PlantedBug(
        "all_namespaces_count_nothing",
        "Pods are not counted by terms of all namespaces",
        PodCounters,
        "_candidates",
        "for namespace in (label_class.namespace, None):",
        "for namespace in (label_class.namespace,):",
        runs="state",
        seed=1,
    ),
    PlantedBug(
        "last_pod_is_audited",
        "Of the pods of a row the problems of the last one are reported",
        audit_columns,
        "audit_row",
        "problems += _audit_pod(cache.pods, pod, row)",
        "problems = _audit_pod(cache.pods, pod, row)",
        runs="audit",
        seed=0,
    ),
    PlantedBug(
        "positions_stay",
        "The positions of nodes stay when nodes come and go",
        VisitOrder,
        "_invalidate",
        "self._rows = self._array = self._positions = self._is_by_row = None",
        "self._rows = self._array = self._is_by_row = None",
        runs="scores",
        seed=0,
    ),
    PlantedBug(
        "whole_limit",
        "The limit of devices counts those that are chosen already again",
        Search,
        "_all",
        "if self._exceeds_limit(claim, len(devices) - count):",
        "if self._exceeds_limit(claim, len(devices)):",
        runs="corrupted",
        seed=45,
    ),
    PlantedBug(
        "removed_pods_are_added",
        "A removed pod is added to the sums of groups",
        PodCounter,
        "change",
        "self._changed(row, sign)",
        "self._changed(row, 1)",
        runs="spreading",
        seed=0,
    ),
    PlantedBug(
        "volumes_are_not_audited",
        "The audit does not compare the volumes of pods",
        audit_storage,
        "_audit_pods",
        '        *_differences("volumes of pod", recorded, expected),\n',
        "",
        runs="corrupted",
        seed=4,
    ),
    PlantedBug(
        "pools_of_all_nodes_stay",
        "Pools of all nodes stay when their slices change",
        Slices,
        "_invalidate",
        "            self._pools.pop(name, None)\n        else:\n            self._pools.clear()",
        "            self._pools.pop(name, None)",
        runs="shared_devices",
        seed=1,
    ),
    PlantedBug(
        "admin_uses_are_shared",
        "A device that any claim has taken is in use for administrators",
        Ledger,
        "is_in_use",
        "return users is not None and claim in users",
        "return users is not None",
        runs="allocator",
        seed=6,
    ),
    PlantedBug(
        "broken_terms_of_placed_pods_count",
        "Problems in the terms of placed pods are kept",
        PodTermTable,
        "add",
        "    if terms.problems:  # another scheduler may have placed the pod\n"
        "        terms = terms._replace(problems=())\n",
        "",
        runs="scores",
    ),
    PlantedBug(
        "device_in_use_is_taken",
        "A request for all devices takes devices in use",
        Search,
        "_all",
        "    if self._ledger.is_in_use(claim, choice, device):\n        return Failure.NO_DEVICE\n",
        "",
        runs="allocator",
        seed=0,
    ),
    PlantedBug(
        "sums_are_never_dropped",
        "The sums of groups of rows are kept for ever",
        GroupedCounts,
        "sums_over",
        "        if len(self._sums) >= SUMS_CACHED:\n"
        "            del self._sums[next(iter(self._sums))]  # the oldest\n"
        "        sums",
        "        sums",
        runs="tight",
        seed=5,
    ),
    PlantedBug(
        "devices_by_their_names",
        "Selectors match devices of the same name in other pools alike",
        Candidates,
        "matches",
        "    cached = self._matches.get((choice, device.id))\n"
        "    if cached is None:\n"
        "        cached = self._evaluate(choice, device)\n"
        "        self._matches[choice, device.id] = cached",
        "    cached = self._matches.get((choice, device.id.device))\n"
        "    if cached is None:\n"
        "        cached = self._evaluate(choice, device)\n"
        "        self._matches[choice, device.id.device] = cached",
        runs="shared_devices",
        seed=0,
    ),
    PlantedBug(
        "restored_claim_is_no_change",
        "A claim that is restored is no change of the storage",
        Storage,
        "restore_claim",
        "        self.version += 1\n",
        "",
        runs="volumes",
        seed=1,
    ),
]
