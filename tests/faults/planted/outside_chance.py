"""Bugs at functions drawn by chance, by a reviewer who had read the sources alone.

List 38 of ``docs/concepts/planted-bugs.md``.
"""

from __future__ import annotations

from typing import Final

from mooring.client.leader_election import Elector
from mooring.client.transport.http1_pool import Http1Pool
from mooring.client.transport.turns import Turns
from mooring.dra import results as dra_results
from mooring.dra.ledger import Ledger
from mooring.dra.selectors import _Answers
from mooring.extenders.http_extender import HTTPExtender
from mooring.framework.runtime import score
from mooring.framework.runtime.attempt import Attempt
from mooring.framework.runtime.filter_results import FilterResults
from mooring.framework.runtime.result_cache import CachedResults
from mooring.plugins.inter_pod_affinity import deltas
from mooring.plugins.node_resources.fit import NodeResourcesFit
from mooring.plugins.pod_topology_spread import constraints
from mooring.plugins.volume_binding import claims
from mooring.plugins.volume_binding.find_volumes import _Search
from mooring.plugins.volume_binding.matches import VolumeMatches
from mooring.plugins.volume_binding.provisioning import ProvisioningChecks
from mooring.queue import event_diff
from mooring.queue.in_flight import InFlight
from mooring.queue.quarantine import Quarantine
from mooring.scheduler import bind_pod
from mooring.scheduler.resource_claims.removal import Removal
from mooring.scheduler.resource_claims.reservation import Reservation
from mooring.scheduler.with_extenders import ExtenderScheduler
from mooring.state.kinds.namespaces import Namespaces
from mooring.state.tables.counters import PodCounters
from mooring.state.volumes.capacity import Capacities
from mooring.state.volumes.free_index.first_match import FirstMatchIndex
from mooring.state.volumes.storage import Storage
from mooring.state.volumes.topology import TopologyMasks
from tests.faults.planted.bug import PlantedBug

BUGS: Final = [
    PlantedBug(
        "broken_by_its_share_of_failures",
        "A plugin is broken by its share of the pods that fail",
        Quarantine,
        "broken_plugin",
        "if count <= BROKEN_SHARE * pods:",
        "if count <= BROKEN_SHARE * failing.total():",
        runs="queue",
        seed=0,
    ),
    PlantedBug(
        "events_are_trimmed_by_number",
        "The number of an event is used as a count",
        InFlight,
        "done",
        "self._trim(needed_from - self._first)",
        "self._trim(needed_from)",
        runs="cycle",
        seed=0,
    ),
    PlantedBug(
        "resize_in_the_other_direction",
        "More and fewer requests of a pod are confused",
        event_diff,
        "pod_changes",
        "if _requests_less(old, new):",
        "if _requests_less(new, old):",
        runs="diffs",
        seed=0,
    ),
    PlantedBug(
        "absent_victims_are_there",
        "Victims that have gone during the calls of extenders count as there",
        ExtenderScheduler,
        "_are_victims_there",
        "return all(placed is not None and placed.row == row for placed in victims)",
        "return all(placed is None or placed.row == row for placed in victims)",
        runs="turns",
        seed=4,
    ),
    PlantedBug(
        "bound_anywhere_is_bound_here",
        "A pod on another node counts as bound to ours",
        bind_pod,
        "_post_binding",
        "if await _read_node(client, pod, rng, sleep) == node_name:",
        "if await _read_node(client, pod, rng, sleep):",
        runs="binding",
        seed=6,
    ),
    PlantedBug(
        "last_try_of_a_removal_is_the_end",
        "The removal of a user ends although a write may still arrive",
        Removal,
        "write_until_known",
        "if is_last and self._is_known:",
        "if is_last:",
        runs="removal",
        seed=1,
    ),
    PlantedBug(
        "other_devices_are_reserved",
        "A claim that has other devices now is reserved",
        Reservation,
        "attempt",
        "elif not self._has_devices(claim):",
        "elif claim.status.allocation is None:",
        runs="reservation",
        seed=2,
    ),
    PlantedBug(
        "first_address_alone",
        "If the first address refuses, no other is tried",
        Http1Pool,
        "_connect",
        "failure = error",
        "raise",
        runs="pool",
        seed=5,
    ),
    PlantedBug(
        "cancelled_opening_wakes_none",
        "A request that is cancelled while it opens a connection wakes no other",
        Http1Pool,
        "_open",
        "except BaseException:",
        "except Exception:",
        runs="pool",
        seed=5,
    ),
    PlantedBug(
        "request_for_the_whole_deadline",
        "A request for the lease may take the whole renew deadline",
        Elector,
        "__init__",
        "deadline_s=self._times.renew_s / 2",
        "deadline_s=self._times.renew_s",
        runs="coordinated",
        seed=0,
    ),
    PlantedBug(
        "cancelled_turn_takes_the_wakeup",
        "The wakeup of a cancelled request is lost",
        Turns,
        "wake_next",
        "while self._turns:",
        "if self._turns:",
        runs="pool",
        seed=0,
    ),
    PlantedBug(
        "silent_server_says_unbound",
        "A server that cannot be read says that a pod is not bound",
        HTTPExtender,
        "_is_bound",
        "return None",
        "return False",
        runs="bind_extender",
        seed=0,
    ),
    PlantedBug(
        "ties_are_positions",
        "Tied nodes are recorded as positions among those that fit",
        score,
        "select_host",
        "attempt.rows, attempt.total, attempt.tied_rows = view.rows, total, tied",
        "attempt.rows, attempt.total, attempt.tied_rows = view.rows, total, best",
        runs="points",
        seed=0,
    ),
    PlantedBug(
        "row_of_a_shared_array",
        "The code of a row is written into a shared array",
        FilterResults,
        "set_code",
        "self._own(plugin)[row] = code",
        "self.codes[plugin][row] = code",
    ),
    PlantedBug(
        "last_rejecting_plugin_of_a_row",
        "After a change of few rows the last plugin that rejects is reported",
        FilterResults,
        "recompute_first",
        "refusing = [(plugin + 1, self.codes[plugin]) for plugin in self._refusing()]",
        "refusing = [(plugin + 1, self.codes[plugin]) for plugin in reversed(self._refusing())]",
        runs="cached",
        seed=1,
    ),
    PlantedBug(
        "raw_score_of_equal_nodes",
        "A decision shows raw scores where all are equal",
        Attempt,
        "decision",
        "np.full_like(final[plugin], score)",
        "final[plugin]",
        runs="points",
        seed=5,
    ),
    PlantedBug(
        "new_node_without_a_code",
        "A node that comes without a changed code does not fit",
        CachedResults,
        "refresh_filters",
        "if is_full or is_other or columns & _EXISTENCE:",
        "if is_full or is_other:",
        runs="resources",
        seed=5,
    ),
    PlantedBug(
        "values_after_an_absent_one",
        "Values after the first that no node has are forgotten",
        FirstMatchIndex,
        "_update",
        "            continue",
        "            return",
        runs="volume_tables",
        seed=15,
    ),
    PlantedBug(
        "moved_volume_stays_in_its_list",
        "A volume that moves to another class stays in the list",
        Storage,
        "_list",
        "if before is not None and before != after:",
        "if before is not None and (after is None or before[0] != after[0]):",
        runs="volume_tables",
        seed=0,
    ),
    PlantedBug(
        "namespace_without_labels_is_stored",
        "A new namespace without labels is not stored",
        Namespaces,
        "put",
        "if self._labels.get(name) == labels:",
        "if self._labels.get(name, {}) == labels:",
        runs="tables",
        seed=0,
    ),
    PlantedBug(
        "ending_pods_of_long_selectors",
        "Counters of long selectors count pods that terminate",
        PodCounters,
        "_matching",
        "matches and (with_terminating or not label_class.is_terminating)",
        "matches",
        runs="state",
        seed=21,
    ),
    PlantedBug(
        "absent_value_is_everywhere",
        "A volume of a value that no node has can be reached without the label",
        TopologyMasks,
        "reachable_rows",
        "matches: Bools = (column.codes[rows] == code) & (code != MISSING)",
        "matches: Bools = column.codes[rows] == code",
        runs="twin_binding",
        seed=33,
    ),
    PlantedBug(
        "exact_capacity_is_too_small",
        "A capacity does not hold a volume of its size",
        Capacities,
        "can_hold",
        "if limit < size_bytes:",
        "if limit <= size_bytes:",
        runs="volume_tables",
        seed=0,
    ),
    PlantedBug(
        "all_keys_or_none",
        "A pod without all matchLabelKeys is spread without any",
        constraints,
        "_selector",
        "if not own or selector.selects_nothing:",
        "if len(own) < len(keys) or selector.selects_nothing:",
        runs="hint_rules",
        seed=1,
    ),
    PlantedBug(
        "plan_of_older_volumes",
        "The plan of older volumes is used",
        VolumeMatches,
        "covers_row",
        "bool(includes_row) and self.version == snapshot.storage.version",
        "bool(includes_row) and self.version <= snapshot.storage.version",
        runs="volumes",
        seed=142,
    ),
    PlantedBug(
        "exact_node_is_unresolvable",
        "A node that has exactly what a pod requests is unresolvable",
        NodeResourcesFit,
        "filter",
        "np.logical_or.reduce(is_short & (allocatable < state.amounts))",
        "np.logical_or.reduce(is_short & (allocatable <= state.amounts))",
        runs="resources",
        seed=5,
    ),
    PlantedBug(
        "migrated_volume_by_another_driver",
        "A migrated volume is not compared if another has its topology",
        _Search,
        "check_bound",
        "if topology in checked and not is_migrated:",
        "if topology in checked:",
        runs="scalar",
        seed=614,
    ),
    PlantedBug(
        "named_volume_is_unbound",
        "A claim that names its volume counts as unbound",
        claims,
        "claims_of",
        "elif _waits_for_pod(claim, storage) and not claim.spec.volume_name:",
        "elif _waits_for_pod(claim, storage):",
        runs="twin_binding",
        seed=5,
    ),
    PlantedBug(
        "labels_leave_the_provisioning",
        "Changes of labels leave the cached provisioning",
        ProvisioningChecks,
        "_invalidate_if_stale",
        "versions = storage.room_version, storage.reaches.version",
        "versions = (storage.room_version,)",
        runs="volumes",
        seed=11,
    ),
    PlantedBug(
        "terms_of_another_namespace",
        "Pods of two namespaces share counts",
        deltas,
        "_once_per_template",
        "key = (metadata.namespace, id(metadata.labels), id(pod.spec.affinity))",
        "key = (id(metadata.labels), id(pod.spec.affinity))",
    ),
    PlantedBug(
        "own_device_of_several_nodes",
        "A device that binds to its node has no node selector",
        dra_results,
        "_node_selector",
        "if owner.node_name is not None or device.binds_to_node:",
        "if owner.node_name is not None:",
        runs="allocator",
        seed=1,
    ),
    PlantedBug(
        "answers_are_never_cleared",
        "Answers of a selector by content are never cleared",
        _Answers,
        "_of_content",
        "self._by_content.clear()",
        "self._by_content.pop(content, None)",
        runs="tight",
        seed=9,
    ),
    PlantedBug(
        "last_constraint_of_a_rejected_device",
        "The first constraint counts a rejected device",
        Ledger,
        "_is_allowed",
        "for counted in constraints[:number]:",
        "for counted in constraints[: number - 1]:",
        runs="allocator",
        seed=0,
    ),
]
