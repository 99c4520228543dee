"""Thirty bugs at lines that a seeded generator drew from all statements of the living parts.

Sixteen were written before any was run. The other fourteen were written and committed before the
runs were extended for the first ones. The table in docs/concepts/faults.md has the results.
"""

from __future__ import annotations

from typing import Final

from mooring.client.rest.reading import ReadClient
from mooring.client.transport.http import HttpTransport
from mooring.client.write_queue import WriteQueue
from mooring.dra import capacity
from mooring.dra.allocator import Allocator
from mooring.framework.runtime import combined_results, host_selection, score
from mooring.framework.runtime.opportunistic_batch import OpportunisticBatch, SortedNodes
from mooring.framework.runtime.result_cache import CachedResults
from mooring.plugins.default_preemption import plugin as default_preemption
from mooring.plugins.dynamic_resources.attempt import DeviceAttempt
from mooring.plugins.inter_pod_affinity import domains
from mooring.plugins.node_resources import fit
from mooring.plugins.node_resources.device_totals import DeviceTotals
from mooring.plugins.pod_topology_spread import domains as spreading_domains
from mooring.plugins.pod_topology_spread import hints as spreading_hints
from mooring.plugins.pod_topology_spread import scoring as spreading_scoring
from mooring.plugins.volume_binding.find_volumes import _Search
from mooring.queue.backoff_queue import BackoffQueue
from mooring.queue.queued_pod import QueuedPod
from mooring.scheduler import bind_pod
from mooring.scheduler.parts import SchedulerParts
from mooring.scheduler.reporting import Reporting
from mooring.scheduler.with_extenders import ExtenderScheduler
from mooring.state.volumes.free_index.first_match import FirstMatchIndex
from tests.faults.planted import PlantedBug

LINE_BUGS: Final = [
    PlantedBug(
        "missing_volume_goes_on",
        "After a volume that is missing the next one adds its reason",
        _Search,
        "check_bound",
        "VOLUME_NOT_FOUND)\n            return",
        "VOLUME_NOT_FOUND)\n            continue",
        "volume",
    ),
    PlantedBug(
        "removed_is_parked",
        "A removed item is kept after any error, not only one with a requested wait",
        WriteQueue,
        "_after",
        "retry is not None and retry.is_requested:",
        "retry is not None:",
    ),
    PlantedBug(
        "masks_of_old_nodes",
        "The first free volumes stay when the nodes of a topology change",
        FirstMatchIndex,
        "_cached_result",
        "cached.invalidate_if_stale(self._masks.version)",
        "pass",
        "volume",
    ),
    PlantedBug(
        "victim_on_any_node",
        "A victim that is on another node now counts as there",
        ExtenderScheduler,
        "_are_victims_there",
        "placed is not None and placed.row == row",
        "placed is not None",
        "extender",
    ),
    PlantedBug(
        "mean_of_positive_shares",
        "The score of one node leaves out shares of 0, that of many does not",
        fit,
        "_mean_of",
        "of_node.weighted_mean(shares",
        "of_node.weighted_mean_of_positive(shares",
    ),
    PlantedBug(
        "devices_of_old_node",
        "The devices of a node are counted by its old labels",
        DeviceTotals,
        "of",
        "if entry is None or entry[0] is not node:",
        "if entry is None:",
        "device",
    ),
    PlantedBug(
        "host_terms_weigh_one",
        "Terms of other pods weigh 1 for a key whose values have one node each",
        domains,
        "shared_term_sums",
        "shared.rows.add_to(of_rows[key], weight)",
        "shared.rows.add_to(of_rows[key], 1)",
    ),
    PlantedBug(
        "equal_node_moves_down",
        "A node of a batch sinks below one with the same score",
        SortedNodes,
        "_sift_down",
        "totals[heap[child]] <= totals[heap[index]]",
        "totals[heap[child]] < totals[heap[index]]",
    ),
    PlantedBug(
        "each_error_is_first",
        "The backoff after errors does not grow",
        QueuedPod,
        "end_attempt",
        "self.consecutive_errors += 1",
        "self.consecutive_errors = 1",
    ),
    PlantedBug(
        "unvisited_is_reached",
        "A node that was not visited counts as one that the column decides about",
        combined_results,
        "_is_reached",
        " & (first != NOT_VISITED)",
        "",
        "device",
    ),
    PlantedBug(
        "quarantined_are_not_counted",
        "Quarantined pods do not count as pods with a backoff",
        BackoffQueue,
        "__len__",
        " + len(self._quarantined)",
        "",
    ),
    PlantedBug(
        "total_is_not_copied",
        "The cached sum of scores is changed by the scores of one pod",
        score,
        "_run_scorers",
        "total, is_shared = total.copy(), False",
        "is_shared = False",
    ),
    PlantedBug(
        "failed_for_good_is_silent",
        "The failed attempt of a pod that is gone, or bound by another scheduler, has no event",
        Reporting,
        "failed_for_good",
        "self._record_failure(pod, why)",
        "pass",
    ),
    PlantedBug(
        "malformed_of_last_page",
        "Of the malformed objects of a list those of the last page alone are counted",
        ReadClient,
        "list",
        "malformed += page.malformed",
        "malformed = page.malformed",
    ),
    PlantedBug(
        "first_claim_is_checked",
        "Of several claims the first one alone is checked before the search",
        Allocator,
        "allocate",
        "for claim in claims:\n        candidates.check",
        "for claim in claims[:1]:\n        candidates.check",
        "device",
    ),
    PlantedBug(
        "rank_of_next",
        "The place of a node among the feasible ones is one too large",
        host_selection,
        "ranks_of",
        "np.cumsum(mask[visited]) - 1",
        "np.cumsum(mask[visited])",
    ),
]

#: Written before any of the list above was run, and before the runs were extended.
LATER_LINE_BUGS: Final = [
    PlantedBug(
        "sent_before_renewal",
        "A request that is repeated with a new token counts as sent before it is",
        HttpTransport,
        "request",
        "is_sent.value = False",
        "pass",
    ),
    PlantedBug(
        "own_cancellation_is_foreign",
        "A binding that its own read ends counts as cancelled by another",
        bind_pod,
        "_post_binding",
        "task.uncancel() > cancel_count",
        "task.uncancel() >= cancel_count",
    ),
    PlantedBug(
        "any_capacity_is_enough",
        "A device that has one of the requested capacities has them all",
        capacity,
        "has_capacity",
        "if not requests.keys() <= capacities.keys():",
        "if requests and not requests.keys() & capacities.keys():",
        "device",
    ),
    PlantedBug(
        "all_keys_must_move",
        "A node that moves in one of two topologies requeues no pod",
        spreading_hints,
        "_node_helps",
        "moved = any(",
        "moved = all(",
    ),
    PlantedBug(
        "oldest_is_dropped",
        "The oldest item is dropped, not that of the largest namespace",
        WriteQueue,
        "_make_space",
        "item.namespace == largest and is_droppable",
        "is_droppable",
    ),
    PlantedBug(
        "unwritten_claim_is_silent",
        "A pod whose claim could not be freed is not retried",
        SchedulerParts,
        "_write_claim",
        "lambda: self.queue.retry_after_backoff(entry.uid)",
        "lambda: None",
        "device",
    ),
    PlantedBug(
        "halves_to_even",
        "Scores of spreading round halves to even",
        spreading_scoring,
        "rounded",
        "if (np.abs(rest) == 0.5).any():",
        "if False:",
    ),
    PlantedBug(
        "special_results_are_old",
        "Results of extended resources are not updated when they are used",
        DeviceAttempt,
        "_special_for",
        "self._refresh(results)",
        "pass",
        "device",
    ),
    PlantedBug(
        "classes_of_old_version",
        "Resources stand for the device classes of an earlier version",
        DeviceTotals,
        "backed",
        "classes is not latest or classes.version != version",
        "classes is not latest",
        "device",
    ),
    PlantedBug(
        "constant_is_left_out",
        "The sum of a node that is updated alone lacks the constant scores",
        CachedResults,
        "_add_up",
        "            total = self._constant",
        "            total = 0",
    ),
    PlantedBug(
        "namespaces_of_many_terms",
        "With many terms, those of a pod select pods of all namespaces",
        domains,
        "_sums_by_label_class",
        " & is_in[names]",
        "",
    ),
    PlantedBug(
        "first_value_is_not_empty",
        "An empty value of a topology key is none if it was the first value",
        spreading_domains,
        "_domains",
        "empty if empty >= 0",
        "empty if empty > 0",
    ),
    PlantedBug(
        "last_node_of_batch",
        "The last node of a batch is not used",
        OpportunisticBatch,
        "hint",
        "len(state.nodes)",
        "len(state.nodes) > 1",
    ),
    PlantedBug(
        "unknown_status_is_eligible",
        "A preemptor whose nominated node was not filtered waits for its victims",
        default_preemption,
        "_ineligible_reason",
        "status is None or status.code",
        "status is not None and status.code",
        "crowd",
    ),
]
