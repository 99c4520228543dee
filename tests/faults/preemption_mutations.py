"""Subtle bugs of the choice of victims, each planted by the change of one line."""

from __future__ import annotations

from typing import Final

from mooring.plugins.default_preemption import dry_run, plugin
from mooring.plugins.default_preemption.dry_run import DryRunCandidate
from mooring.plugins.default_preemption.plugin import DefaultPreemption
from tests.faults.planted import PlantedBug

PREEMPTION_BUGS: Final = [
    PlantedBug(
        "highest_is_lowest",
        "Of two candidates the one with the most important victim is preferred",
        dry_run,
        "_ranks",
        "        highest,\n",
        "        -highest,\n",
        "crowd",
    ),
    PlantedBug(
        "sum_without_offset",
        "A further victim of negative priority makes a candidate better",
        dry_run,
        "_ranks",
        "((priority + LOWEST_PRIORITY) * removed)",
        "(priority * removed)",
        "crowd",
    ),
    PlantedBug(
        "earliest_start",
        "Of equal candidates the one whose victims run longest is preferred",
        dry_run,
        "_ranks",
        "        -first_s,\n",
        "        first_s,\n",
        "crowd",
    ),
    PlantedBug(
        "violations_of_all",
        "Reprieved pods count as violations of a budget",
        dry_run,
        "_ranks",
        "(removed & is_protected[lines])",
        "is_protected[lines]",
        "crowd",
    ),
    PlantedBug(
        "least_important_first",
        "The least important pods are reprieved first",
        dry_run,
        "_sort_victims",
        "-pods.priority[slots].astype(np.int64)",
        "pods.priority[slots].astype(np.int64)",
        "crowd",
    ),
    PlantedBug(
        "protected_last",
        "Pods protected by a budget are reprieved last",
        dry_run,
        "_sort_victims",
        "np.lexsort((~is_protected, line))",
        "np.lexsort((is_protected, line))",
        "crowd",
    ),
    PlantedBug(
        "budget_of_one_more",
        "A budget allows one more eviction",
        dry_run,
        "_violates_budget",
        "earlier >= allowed[budget]",
        "earlier > allowed[budget]",
        "crowd",
    ),
    PlantedBug(
        "same_priority_is_lower",
        "Pods of the same priority are removed in the dry run",
        dry_run,
        "_sort_victims",
        "pods.priority[slots] < cycle.pod.priority",
        "pods.priority[slots] <= cycle.pod.priority",
        "crowd",
    ),
    PlantedBug(
        "victims_in_any_order",
        "The least important victim comes first",
        DryRunCandidate,
        "victims",
        "(-pod.priority, pod.start_s)",
        "(pod.priority, pod.start_s)",
        "crowd",
    ),
    PlantedBug(
        "offset_from_zero",
        "The nodes are tried from the first one on",
        DefaultPreemption,
        "post_filter",
        "np.roll(rows, -offset)",
        "rows",
        "crowd",
    ),
    PlantedBug(
        "stored_nomination_first",
        "A nomination that is not written yet does not stop a second preemption",
        plugin,
        "_ineligible_reason",
        "cycle.snapshot.nominator.node_of(pod.uid) or pod.status.nominated_node_name",
        "pod.status.nominated_node_name",
        "crowd",
    ),
]
