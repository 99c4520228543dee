"""Plants subtle bugs one at a time, and looks for the first seed that detects them.

``python -m tests.faults.hunts [[FIRST-]LAST] [NAME ...]`` prints the seed that detects each bug and
how, and the rate of each package. The runs of single parts are tried first: they take a tenth of a
second, and so ten times as many seeds.
"""

from __future__ import annotations

import gc
import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import pytest

from tests.faults import test_device_seeds, test_lease_seeds, test_pause_seeds, test_volume_seeds
from tests.faults.broad_mutations import BROAD_BUGS
from tests.faults.class_mutations import CLASS_BUGS
from tests.faults.deciding_mutations import DECIDING_BUGS, DECIDING_SEED_OF
from tests.faults.drawn_mutations import DRAWN_BUGS
from tests.faults.fresh_mutations import FRESH_BUGS
from tests.faults.further_mutations import FURTHER_BUGS
from tests.faults.harness.scenario import run_scenario
from tests.faults.harness.swarm import crowded, reactive, scenario_of
from tests.faults.joint_mutations import JOINT_BUGS
from tests.faults.last_mutations import LAST_BUGS
from tests.faults.later_mutations import LATER_BUGS
from tests.faults.line_mutations import LATER_LINE_BUGS, LINE_BUGS
from tests.faults.living_mutations import LIVING_BUGS, LIVING_SEED_OF
from tests.faults.mixed_mutations import MIXED_BUGS
from tests.faults.parts.runs import KINDS_OF, PART_RUNS
from tests.faults.picked_mutations import PICKED_BUGS
from tests.faults.planted import PlantedBug
from tests.faults.pool_mutations import POOL_BUGS
from tests.faults.recent_mutations import RECENT_BUGS
from tests.faults.redrawn_mutations import (
    LATER_REDRAWN_BUGS,
    REDRAWN_BUGS,
    REDRAWN_SEED_OF,
)
from tests.faults.repicked_mutations import REPICKED_BUGS
from tests.faults.reviewed_mutations import REVIEWED_BUGS
from tests.faults.sampled_mutations import SAMPLED_BUGS
from tests.faults.seeded_mutations import LATER_SEEDED_BUGS, SEEDED_BUGS
from tests.faults.small_mutations import SMALL_BUGS
from tests.faults.subtle_mutations import SUBTLE_BUGS
from tests.faults.test_extenders import run_extenders
from tests.faults.unseen_mutations import UNSEEN_BUGS

#: Every list of bugs, the newest last.
ALL_BUGS: Final = (
    *SUBTLE_BUGS,
    *JOINT_BUGS,
    *FRESH_BUGS,
    *LATER_BUGS,
    *LAST_BUGS,
    *FURTHER_BUGS,
    *DRAWN_BUGS,
    *SMALL_BUGS,
    *RECENT_BUGS,
    *UNSEEN_BUGS,
    *CLASS_BUGS,
    *REVIEWED_BUGS,
    *SAMPLED_BUGS,
    *POOL_BUGS,
    *PICKED_BUGS,
    *REPICKED_BUGS,
    *MIXED_BUGS,
    *BROAD_BUGS,
    *LINE_BUGS,
    *LATER_LINE_BUGS,
    *SEEDED_BUGS,
    *LATER_SEEDED_BUGS,
    *REDRAWN_BUGS,
    *LATER_REDRAWN_BUGS,
    *LIVING_BUGS,
    *DECIDING_BUGS,
)

#: Seeds that are tried for each bug.
SEEDS: Final = 30

#: Kind of runs -> runs one seed; any exception is a detection.
RUNS: Final[Mapping[str, Callable[[int], object]]] = {
    "swarm": lambda seed: run_scenario(scenario_of(seed)),
    "crowd": lambda seed: run_scenario(crowded(seed)),
    "reactive": lambda seed: run_scenario(reactive(seed)),
    "volume": test_volume_seeds.run_seed,
    "device": test_device_seeds.run_seed,
    "lease": test_lease_seeds.run_seed,
    "pause": test_pause_seeds.run_seed,
    "extender": run_extenders,
    **PART_RUNS,
}
#: Of a single part so many times as many seeds are tried.
PART_SEEDS: Final = 10
#: Bug -> the first seed that detects it.
SEED_OF: Final[Mapping[str, int]] = {
    "second_change_of_pod": 0,
    "first_event_missed": 0,
    "trim_off_by_one": 1,
    "trim_to_newest": 0,
    "requeued_in_old_version": 0,
    "no_error_backoff": 14,
    "last_event_decides": 1,
    "flush_the_youngest": 0,
    "flush_without_backoff": 0,
    "second_rejector": 0,
    "early_quarantine": 0,
    "quarantine_any_plugin": 6,
    "no_quarantine": 0,
    "still_assumed": 0,
    "counters_not_updated": 0,
    "terms_of_deleted": 0,
    "counters_of_deleted": 0,
    "assumed_after_forget": 0,
    "cleared_nomination": 1,
    "unwritten_nomination": 3,
    "own_release": 0,
    "silent_release": 0,
    "waiting_is_kept": 0,
    "new_pod_requeued": 4,
    "bound_pod_requeued": 0,
    "placed_and_nominated": 0,
    "status_not_cancelled": 1,
    "terminating_assumed": 4,
    "cleared_nomination_is_silent": 0,
    "only_lower_priority": 0,
    "silent_deletion_of_assumed": 2,
    "waiting_bound_elsewhere": 0,
    "second_change_of_node": 3,
    "second_change_of_placed": 0,
    "slot_is_kept": 5,
    "first_victim_forgotten": 4,
    "failed_eviction_is_final": 14,
    "victim_by_name": 0,
    "waiting_victim_deleted": 1,
    "stale_last_version": 0,
    "version_is_lost": 0,
    "no_wait_after_short_watch": 0,
    "expired_page_ends_list": 22,
    "unpaged_for_ever": 2,
    "informer_ignores_retry_after": 1,
    "new_value_ends_wait": 1,
    "replaced_while_written": 9,
    "removed_while_written": 4,
    "first_page_only": 2,
    "stays_in_old_queue": 0,
    "quarantined_popped_early": 8,
    "first_label_column": 1,
    "expiry_from_last_read": 0,
    "expiry_from_first_read": 0,
    "fence_only_at_renewal": 0,
    "overwritten_lease": 0,
    "buffered_deletion": 0,
    "second_buffered_change": 0,
    "no_read_after_failure": 0,
    "lead_after_loss": 0,
    "lost_lease_is_renewed": 0,
    "takeover_after_a_period": 0,
    "deadline_from_answer": 0,
    "replaced_ends_wait": 0,
    "refused_volume_stays_assumed": 0,
    "older_volume_is_checked": 0,
    "refused_provisioning": 2,
    "second_claim_unchecked": 0,
    "highest_is_lowest": 3,
    "sum_without_offset": 4,
    "earliest_start": 5,
    "violations_of_all": 1,
    "least_important_first": 2,
    "budget_of_one_more": 3,
    "same_priority_is_lower": 0,
    "offset_from_zero": 0,
    "released_in_place": 0,
    "annotated_in_place": 0,
    "failing_pod_keeps_node": 1,
    "victims_without_nomination": 1,
    "lookups_are_not_shown": 1,
    "fresh_without_watch": 1,
    "fresh_with_old_watch": 0,
    "any_progress_is_fresh": 0,
    "fresh_since_doubt": 1,
    "equal_nominated": 0,
    "oldest_idle_first": 2,
    "limit_is_one_less": 0,
    "failed_connect_wakes_none": 0,
    "lost_connection_wakes_none": 0,
    "woken_at_its_deadline": 15,
    "failed_connection_is_kept": 0,
    "close_is_not_read": 0,
    "unasked_response_is_ignored": 0,
    "limit_of_last_request": 0,
    "timer_of_later_deadline": 0,
    "last_deadline_is_next": 0,
    "newest_idle_sets_timer": 48,
    "cancelled_turn_is_lost": 71,
    "early_hints_are_final": 0,
    "sizes_add_up": 6,
    "last_waiting_first": 0,
    "cut_response_is_complete": 0,
    "one_idle_is_retired": 317,
    "slow_counts": 0,
    "opening_does_not_count": 0,
    "closed_while_connecting": 154,
    "second_address_is_enough": 5,
}
#: Bug -> the run and the seed that detect it: first those of single parts, which are short.
PART_SEED_OF: Final[Mapping[str, tuple[str, int]]] = {
    "in_flight_second_change": ("queue", 2),
    "second_change_of_pod": ("queue", 0),
    "first_event_missed": ("queue", 2),
    "trim_off_by_one": ("queue", 0),
    "trim_to_newest": ("queue", 0),
    "any_attempt_is_current": ("queue", 2),
    "requeued_in_old_version": ("queue", 0),
    "no_error_backoff": ("queue", 0),
    "last_event_decides": ("queue", 0),
    "flush_the_youngest": ("queue", 0),
    "flush_without_backoff": ("queue", 0),
    "second_rejector": ("queue", 0),
    "early_quarantine": ("queue", 0),
    "quarantine_any_plugin": ("queue", 1),
    "no_quarantine": ("queue", 0),
    "deleted_in_flight_requeued": ("queue", 0),
    "still_assumed": ("state", 0),
    "terms_not_updated": ("state", 1),
    "counters_not_updated": ("state", 1),
    "terms_of_deleted": ("state", 0),
    "counters_of_deleted": ("state", 0),
    "assumed_after_forget": ("state", 0),
    "cleared_nomination": ("state", 2),
    "unwritten_nomination": ("state", 0),
    "failed_pods_count": ("state", 0),
    "arrival_from_start": ("binding", 150),
    "bound_elsewhere_is_bound": ("binding", 1),
    "no_wait_for_arrival": ("binding", 1),
    "late_answer_decides": ("verify", 1),
    "verification_ignores_retry_after": ("verify", 5),
    "bound_pod_read_every_time": ("verify", 0),
    "older_stored_version": ("status", 1),
    "queued_nomination_lost": ("status", 0),
    "written_nomination_kept": ("status", 6),
    "gated_for_all_victims": ("preemption", 0),
    "gated_preemptor": ("preemption", 11),
    "any_failure_is_eviction": ("preemption", 0),
    "second_wait_forgotten": ("client", 3),
    "bindings_do_not_wait": ("client", 3),
    "refused_again_is_oldest": ("client", 117),
    "server_error_is_refusal": ("client", 0),
    "old_wait_ends": ("writes", 4),
    "deleted_while_listed": ("informer", 0),
    "unreachable_is_doubtful": ("informer", 6),
    "old_stream_failures_count": ("informer", 0),
    "readable_again_is_unreadable": ("informer", 3),
    "empty_line_ends_batch": ("informer", 0),
    "active_series_keeps_others": ("recorder", 2),
    "stale_entries_without_order": ("queue", 4),
    "removals_are_kept": ("queue", 21),
    "backoff_from_attempt": ("queue", 0),
    "backoff_does_not_grow": ("queue", 2),
    "first_of_list_activated": ("queue", 24),
    "flush_is_no_event": ("queue", 0),
    "quarantine_outlives_attempt": ("queue", 25),
    "annotations_are_no_edit": ("queue", 35),
    "first_nomination_by_name": ("state", 1),
    "victims_in_any_order": ("choice", 6),
    "unknown_reservation_fails": ("claims", 0),
    "reservation_is_not_removed": ("claims", 0),
    "allocated_elsewhere": ("claims", 4),
    "last_driver_is_limited": ("volumes", 5),
    "created_and_written_again": ("recorder", 0),
    "leaked_cancellation_ends_task": ("cycle", 7),
    "place_of_first_attempt": ("queue", 0),
    "label_is_renewal": ("elector", 1),
    "wait_wakes_nobody": ("slots", 18),
    "latest_timeout": ("cycle", 14),
    "message_is_transition": ("status", 0),
    "waiting_is_never_urgent": ("writes", 5),
    "first_writer_wakes": ("writes", 11),
    "conditions_of_namesake": ("conditions", 0),
    "released_until_quarantine_ends": ("queue", 24),
    "read_goes_on": ("binding", 0),
    "restored_claim": ("volumes", 1),
    "assumed_claim": ("volumes", 1),
    "restored_volume": ("volumes", 8),
    "replaced_announcement": ("status", 1),
    "arrival_after_read": ("bind_extender", 29),
    "first_victim_decides": ("cycle", 39),
    "victims_from_before": ("cycle", 18),
    "informers_of_extenders": ("extender", 0),
    "foreign_deletion_counts": ("handlers", 0),
    "unreadable_without_uid": ("informer", 0),
    "unreadable_without_version": ("informer", 0),
    "unreadable_without_namespace": ("informer", 0),
    "gate_is_remembered": ("queue", 0),
    "deleted_stays_gated": ("queue", 0),
    "follows_while_listing": ("informer", 0),
    "unreadable_namesake": ("informer", 0),
    "tries_of_old_value": ("writes", 0),
    "one_try_more": ("client", 0),
    "related_is_no_key": ("recorder", 0),
    "listers_come_last": ("handlers", 0),
    "outdated_status_stays": ("status", 1),
    "nominated_despite_wait": ("status", 1),
    "deleted_nomination_is_silent": ("handlers", 0),
    "last_victim_not_awaited": ("preemption", 0),
    "higher_priority_ends_clearing": ("preemption", 0),
    "terminating_is_requeued": ("verify", 6),
    "deleted_lease_is_failure": ("elector", 7),
    "older_removal": ("claims", 23),
    "protected_last": ("choice", 4),
    "stored_nomination_first": ("choice", 12),
    "deleted_claim_is_assumed": ("volumes", 2),
    "attachment_of_unknown_volume": ("volumes", 1),
    "own_namespace_as_well": ("state", 3),
    "last_rule_stays": ("node_devices", 3),
    "first_value_of_volume": ("volumes", 5),
    "one_violation_at_most": ("preempt_extender", 10),
    "claim_of_same_name": ("volumes", 5),
    "wait_in_body_of_429": ("client", 4),
    "urgent_for_ever": ("writes", 5),
    "ignored_nodes_are_scored": ("spreading", 19),
    "node_without_victims": ("preempt_extender", 25),
    "name_of_namesake": ("state", 0),
    "announcement_replaced_by_nomination": ("status", 1),
    "repeated_preference_counts_once": ("state", 7),
    "flushed_for_ever": ("queue", 2),
    "number_of_attempts_in_flight": ("queue", 0),
    "failed_is_refused": ("queue", 3),
    "lost_lease_after_failure": ("preemption", 4),
    "assumed_stays_in_flight": ("handlers", 0),
    "single_event_never_ends": ("recorder", 0),
    "rejected_binding_is_skipped": ("cycle", 0),
    "second_of_equal_nodes": ("batch", 0),
    "each_reason_once": ("choice", 4),
    "mixed_claim_never_times_out": ("conditions", 2),
    "one_violating_less": ("limited_choice", 10),
    "other_services_forgotten": ("spreading", 2),
    "special_node_as_shared": ("node_devices", 16),
    "special_verdict_is_shared": ("node_devices", 9),
    "searches_of_old_epoch": ("node_devices", 16),
    "distinct_is_not_read": ("node_devices", 118),
    "deleted_claim_is_unanswered": ("claims", 186),
    "binding_after_read": ("binding", 181),
    "device_of_other_node": ("node_devices", 1),
    "violations_are_ours": ("preempt_extender", 3),
    "one_of_each_heap": ("queue", 0),
    "removed_node_is_tainted": ("state", 0),
    "equal_victim_leaves": ("limited_choice", 6),
    "unbound_victim_is_deleted": ("errors", 36),
    "equal_capacity_queues": ("volumes", 3),
    "same_number_of_devices": ("node_devices", 2),
    "deleted_is_refused": ("claims", 249),
}
#: Bug of two parts -> the run and the seed that detect it.
JOINT_SEED_OF: Final[Mapping[str, tuple[str, int]]] = {
    "last_share_subtracts": ("shared_devices", 4),
    "any_capacity_is_enough": ("shared_devices", 2),
    "oldest_is_dropped": ("writes", 9),
    "all_keys_must_move": ("hints", 145),
    "assigned_is_silent": ("swarm", 0),
    "lost_binding_is_silent": ("swarm", 39),
    "terminating_is_evicted": ("preemption", 0),
    "allowed_and_deleted": ("reactive", 2),
    "conflict_is_eviction": ("reactive", 13),
    "lost_binding_of_namesake": ("verify", 0),
    "nomination_of_namesake": ("preemption", 0),
    "older_preemption_ends_newer": ("preemption", 8),
    "forgotten_is_verified": ("verify", 1),
    "bound_elsewhere_by_extender": ("bind_extender", 0),
    "gated_is_nominated": ("handlers", 3),
    "restored_is_silent": ("handlers", 1),
    "nominated_in_memory": ("handlers", 0),
    "preempted_goes_on": ("preemption", 32),
    "lost_lease_is_failure": ("preemption", 4),
    "activated_twice": ("cycle", 4),
    "busy_series_ends": ("recorder", 22),
    "announced_is_forgotten": ("cycle", 0),
    "uncleared_is_success": ("preemption", 5),
    "buffered_last_version": ("handlers", 33),
    "tracked_anew_is_read": ("verify", 11),
    "settled_is_preempted": ("preemption", 7),
    "count_of_first_write": ("recorder", 0),
    "leads_after_release": ("elector", 0),
    "unknown_is_unwritten": ("status", 4),
    "assumed_is_nominated": ("cycle", 1),
    "namesake_of_victim": ("preemption", 13),
    "first_conflict_is_final": ("swarm", 1),
    "wait_from_due_time": ("verify", 0),
    "created_is_counted": ("errors", 2),
    "overtaken_goes_on": ("elector", 7),
    "node_of_nobody": ("handlers", 0),
    "preempted_waits_for_event": ("cycle", 3),
    "quarantined_ends_list": ("queue", 24),
    "last_plugin_decides": ("queue", 15),
    "no_node_is_new": ("state", 0),
    "fence_before_wait": ("client", 6),
    "version_before_write": ("volume", 0),
    "removed_is_dropped": ("writes", 9),
    "full_before_end": ("slots", 3),
    "waits_for_first_victim": ("preemption", 0),
    "condition_is_false": ("choice", 12),
    "always_announces": ("cycle", 4),
    "deleted_since_read": ("claims", 14),
    "several_problems_stay": ("audit", 0),
    "differences_only": ("audit", 0),
    "lister_by_alias": ("handle", 0),
    "conflict_is_transient": ("errors", 2),
    "series_until_second": ("recorder", 0),
    "last_result_decides": ("preemption", 5),
    "first_attempt_is_last": ("cycle", 1),
    "acquired_at_renewal": ("elector", 1),
    "list_is_a_report": ("informer", 19),
    "lost_binding_in_old_version": ("verify", 2),
    "pause_without_limit": ("slots", 1),
    "eviction_backoff_is_first": ("queue", 2),
    "assigned_deletion_is_silent": ("handlers", 11),
    "last_nominated": ("choice", 15),
    "silent_restore": ("claim_store", 0),
    "reported_before_assumed": ("claim_store", 0),
    "broken_at_the_share": ("queue", 6),
    "capacity_hides_topology": ("volumes", 3),
    "requested_wait_is_remembered": ("writes", 5),
    "empty_line_is_fresh": ("informer", 0),
    "terms_of_all_namespaces_missed": ("state", 0),
    "rejected_wait_is_success": ("cycle", 0),
    "first_attempt_at_each_move": ("queue", 0),
    "one_pure_is_enough": ("queue", 104),
    "problem_is_reused": ("volumes", 3),
    "largest_capacity_stays": ("volumes", 6),
    "assumed_is_reported": ("claim_store", 0),
    "drain_waits_for_object": ("slots", 10),
    "certain_before_read": ("removal", 1),
    "finish_at_refresh": ("recorder", 0),
    "deleted_lease_is_free": ("elector", 1),
    "memory_of_equal_nodes": ("cached", 30),
    "last_change_decides": ("cached", 0),
    "last_prioritize_draws": ("filter_extender", 249),
    "namesake_is_sent": ("full_objects", 0),
    "usable_is_requested_again": ("extended", 0),
    "binding_without_version": ("volumes", 0),
    "first_sound_is_dropped": ("limited_choice", 10),
    "rejected_by_another": ("cached", 1),
    "any_answer_is_known": ("status", 1),
    "each_wait_is_requested": ("recorder", 0),
    "host_without_name_counts": ("spreading", 3),
    "failed_device_is_usable": ("conditions", 0),
    "new_csi_node_is_skipped": ("volumes", 0),
    "last_heap_is_next": ("queue", 3),
    "errors_add_to_refusals": ("queue", 3),
    "limits_outlive_drivers": ("state", 0),
    "settled_was_waiting": ("preemption", 4),
    "cancelled_at_the_end": ("cycle", 7),
    "empty_reason_is_none": ("filter_extender", 33),
    "acquired_again": ("elector", 3),
    "all_must_have_conditions": ("conditions", 0),
    "reset_reference_binds": ("volumes", 31),
    "second_provision_adds": ("volumes", 0),
    "count_of_steps": ("limited_choice", 5),
    "column_rejects_first": ("device_columns", 85),
    "combined_stay": ("device_columns", 5),
    "missing_volume_goes_on": ("volumes", 48),
    "removed_is_parked": ("writes", 6),
    "masks_of_old_nodes": ("volumes", 2),
    "mean_of_positive_shares": ("cached", 0),
    "devices_of_old_node": ("device_scores", 7),
    "host_terms_weigh_one": ("scores", 2),
    "equal_node_moves_down": ("batch", 0),
    "each_error_is_first": ("queue", 0),
    "quarantined_are_not_counted": ("queue", 6),
    "total_is_not_copied": ("scores", 0),
    "failed_for_good_is_silent": ("swarm", 0),
    "malformed_of_last_page": ("lists", 0),
    "first_claim_is_checked": ("node_devices", 23),
    "rank_of_next": ("scores", 2),
    "own_cancellation_is_foreign": ("binding", 1),
    "special_results_are_old": ("device_columns", 3),
    "classes_of_old_version": ("device_scores", 0),
    "constant_is_left_out": ("scores", 1),
    "namespaces_of_many_terms": ("scores", 18),
    "first_value_is_not_empty": ("spreading", 18),
    "last_node_of_batch": ("batch", 0),
    "victim_on_any_node": ("cycle", 18),
    "sent_before_renewal": ("tokens", 0),
    "unwritten_claim_is_silent": ("device", 14),
    "first_change_decides": ("queue", 0),
    "made_anew_is_update": ("informer", 1),
    "later_filter_is_first": ("device_columns", 85),
    "released_for_another": ("elector", 36),
    "missing_label_never_matches": ("volumes", 52),
    "names_of_last_selector": ("node_devices", 7),
    "ignored_nodes_are_lowest": ("spreading", 19),
    "absent_resource_is_first": ("scores", 33),
    "all_devices_on_node": ("node_devices", 1),
    "limits_of_new_values": ("volumes", 70),
    "config_for_last_request": ("shared_devices", 23),
    "disks_are_no_use": ("restrictions", 0),
    "lost_key_is_silent": ("spreading", 112),
    "gone_pod_is_written": ("errors", 1),
    "reset_from_last_reset": ("informer", 0),
    "lowest_is_highest": ("choice", 9),
    "empty_write_has_no_length": ("tokens", 0),
    "equal_is_older": ("full_objects", 0),
    "column_does_not_grow": ("node_devices", 45),
    "any_event_opens_gate": ("queue", 0),
    "limit_is_too_long": ("pool", 4),
    "restored_score_stays": ("scores", 11),
    "static_of_old_pools": ("node_devices", 9),
    "class_removed_with_first_pod": ("state", 0),
    "connections_outlive_credentials": ("tokens", 0),
    "updates_count_as_nodes": ("spreading", 3),
    **REDRAWN_SEED_OF,
    **LIVING_SEED_OF,
    **DECIDING_SEED_OF,
}


def detected_by(bug: PlantedBug, seed: int, runs: str = "") -> str:
    """Runs a seed with a planted bug; returns what is wrong, "" if nothing is.

    Args:
        bug: The bug.
        seed: Of the run.
        runs: Its kind; that of the bug by default.
    """
    with pytest.MonkeyPatch.context() as patch:
        bug.plant(patch)
        try:
            RUNS[runs or bug.runs](seed)
        except Exception as error:  # noqa: BLE001 - the scheduler may detect the bug itself
            return first_line(error)
        finally:
            # Collects cancelled tasks now, and not in another test.
            gc.collect()
    return ""


def first_line(error: BaseException) -> str:
    """Returns the type and the first line of an error, or of the first one of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}".partition("\n")[0]


def main() -> int:
    """Hunts for all bugs; returns 0."""
    arguments = sys.argv[1:]
    first, last = 0, SEEDS
    if arguments and arguments[0][0].isdigit():
        from_seed, _, to_seed = arguments.pop(0).rpartition("-")
        first, last = int(from_seed or 0), int(to_seed)
    planted: Counter[str] = Counter()
    detected: Counter[str] = Counter()
    for bug in ALL_BUGS:
        if arguments and bug.name not in arguments:
            continue
        planted[bug.room] += 1
        for runs, seed in _tries(bug, first, last):
            if how := detected_by(bug, seed, runs):
                detected[bug.room] += 1
                print(f"{bug.room:12} {bug.name:30} {runs} {seed}: {how[:150]}", flush=True)
                break
        else:
            print(f"{bug.room:12} {bug.name:30} NOT DETECTED", flush=True)
    for room in planted:
        print(f"{room}: {detected[room]} of {planted[room]}")
    return 0


def _tries(bug: PlantedBug, first: int, last: int) -> Iterator[tuple[str, int]]:
    """Yields the runs that may detect a bug: kind and seed."""
    for kind in KINDS_OF.get(bug.room, ()):
        for seed in range(first, PART_SEEDS * last):
            yield kind, seed
    if bug.runs not in KINDS_OF.get(bug.room, ()):
        for seed in range(first, last):
            yield bug.runs, seed


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    sys.exit(main())
