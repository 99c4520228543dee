"""Subtle bugs in the packages of devices: the allocator, the plugin, the writes and the selectors.

A wrong generation compared, the second of two forgotten, a counter not given back, a consumed
amount rounded down. ``detected_by`` is a test that fails with the bug.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from mooring.cel import device as cel_device
from mooring.cel import reads
from mooring.cel.cost import CostTracker
from mooring.cel.library.quantities import QuantityValue
from mooring.cel.selector import Selector
from mooring.dra import capacity, constraints, counters, ledger, pools, results
from mooring.dra.candidates import Candidates
from mooring.dra.search import Search
from mooring.dra.selectors import Selectors
from mooring.dra.slices import Slices
from mooring.plugins.dynamic_resources import (
    attempt,
    binding_conditions,
    extended_resources,
    hints,
)
from mooring.plugins.dynamic_resources.plugin import DynamicResources
from mooring.plugins.dynamic_resources.shared_results import ResultsByTemplate, SharedResults
from mooring.scheduler.resource_claims.claim_writer import ClaimWriter
from mooring.scheduler.resource_claims.reservation import Reservation
from mooring.state.devices.allocated import AllocatedDevices
from mooring.state.devices.signatures import NodeSignatures
from tests.faults.planted.bug import PlantedBug


class DeviceBug(NamedTuple):
    """A bug, and a test that detects it."""

    bug: PlantedBug
    detected_by: str


_ALLOCATOR_TEST: Final = "tests/unit/dra/test_allocator.py"
_PLUGIN_TEST: Final = "tests/plugins/test_dynamic_resources.py"
_SHARING: Final = "tests/plugins/test_dynamic_resources_sharing.py"
_WRITER: Final = "tests/unit/scheduler/resource_claims/test_claim_writer.py"


def _recorded(source: str) -> str:
    """Returns the test against calls of the real allocator from one source."""
    name = "test_the_allocator_gives_the_recorded_answers"
    return f"tests/parity/test_device_allocator.py::{name}[{source}-recorded]"


def _bug(
    name: str, what: str, owner: Any, function: str, before: str, after: str, test: str
) -> DeviceBug:
    return DeviceBug(PlantedBug(name, what, owner, function, before, after), test)


_ALLOCATOR: Final = [
    _bug(
        "newer_generation",
        "One newer slice elsewhere does not drop a pool, only if all are newer",
        pools,
        "_pool",
        "if any(part.generation",
        "if all(part.generation",
        "tests/unit/dra/test_slices.py::"
        "test_a_pool_with_a_newer_generation_elsewhere_is_dropped_unless_it_is_complete",
    ),
    _bug(
        "binding_conditions_first",
        "Pools with binding conditions are not visited last",
        pools.NodePools,
        "__init__",
        "(pool.has_binding_conditions, pool.key)",
        "pool.key",
        "tests/unit/dra/test_slices.py::test_devices_are_in_the_order_of_drivers_pools_and_slices",
    ),
    _bug(
        "too_many_of_one",
        "One alternative with too many devices stops the search for the others",
        Search,
        "_first_available",
        "failures == {Failure.TOO_MANY}",
        "Failure.TOO_MANY in failures",
        f"{_ALLOCATOR_TEST}::test_one_alternative_with_too_many_devices_does_not_stop_the_search",
    ),
    _bug(
        "same_device_twice",
        "A request gets a shared device twice",
        Search,
        "_exactly",
        "count + 1, index + 1)",
        "count + 1, index)",
        _recorded("quirk"),
    ),
    _bug(
        "limit_of_results",
        "A claim gets 31 devices at most",
        Search,
        "_exceeds_limit",
        "> RESULTS_MAX",
        ">= RESULTS_MAX",
        f"{_ALLOCATOR_TEST}::test_the_search_is_deeper_than_pythons_recursion_limit",
    ),
    _bug(
        "largest_alternative",
        "The largest alternative of a request counts for the limit",
        Candidates,
        "check",
        "min(numbers)",
        "max(numbers)",
        _recorded("upstream unit test"),
    ),
    _bug(
        "alternative_not_discounted",
        "A constraint for one alternative still counts a released device",
        ledger.Ledger,
        "release",
        "constraint.remove(choice.parent, choice.sub)",
        'constraint.remove(choice.parent, "")',
        _recorded("random"),
    ),
    _bug(
        "counter_not_given_back",
        "A device that is not allowed keeps its counters",
        ledger.Ledger,
        "take",
        "self._counters.release(self._pools.by_key[device.pool_key], device)",
        "pass",
        _recorded("upstream unit test"),
    ),
    _bug(
        "second_constraint_counted",
        "If a third constraint fails, the second one keeps the device",
        ledger.Ledger,
        "_is_allowed",
        "constraints[:number]",
        "constraints[:number][:1]",
        f"{_ALLOCATOR_TEST}::test_a_device_that_the_third_constraint_excludes_counts_for_none",
    ),
    _bug(
        "share_consumes_counters_again",
        "A further share of a device in use by others consumes counters",
        ledger.Ledger,
        "_consumes_counters",
        "device.id in self._allocated.consumed or device.id",
        "device.id",
        _recorded("random"),
    ),
    _bug(
        "empty_toleration_key",
        "A toleration without key tolerates no taint with a key",
        ledger,
        "tolerates",
        "toleration.key and toleration.key",
        "toleration.key",
        _recorded("random"),
    ),
    _bug(
        "taint_effect",
        "A toleration of one effect tolerates all effects",
        ledger,
        "tolerates",
        "toleration.effect and toleration.effect != taint.effect",
        'toleration.effect and taint.effect == ""',
        _recorded("random"),
    ),
    _bug(
        "admin_of_other_claim",
        "Admin access does not take a device that another claim of the pod has",
        ledger.Ledger,
        "is_in_use",
        "claim in users",
        "bool(users)",
        _recorded("upstream unit test"),
    ),
    _bug(
        "rounding_down",
        "A requested amount is rounded down to a step",
        capacity,
        "_in_range",
        "-((low - requested.value()) // size)",
        "(requested.value() - low) // size",
        _recorded("quirk"),
    ),
    _bug(
        "default_is_maximum",
        "An amount above the default is not checked",
        capacity,
        "_violates",
        "amount == policy.default",
        "amount >= policy.default",
        _recorded("upstream unit test"),
    ),
    _bug(
        "distinct_never_forgets",
        "distinctAttribute keeps the value of a released device",
        constraints.DistinctAttribute,
        "_discard",
        "self._values.pop(parent, None)",
        "pass",
        _recorded("quirk"),
    ),
    _bug(
        "counters_of_other_nodes",
        "Devices on other nodes do not consume the counters of their pool",
        counters.AvailableCounters,
        "_compute",
        "(*pool.devices, *pool.other_devices)",
        "pool.devices",
        _recorded("random"),
    ),
    _bug(
        "overdrawn_counter",
        "An overdrawn counter stops only the devices that consume it",
        counters.ConsumedCounters,
        "consume",
        "available.items())",
        "available.items() if key in consumed)",
        _recorded("random"),
    ),
    _bug(
        "config_of_parent",
        "A configuration for a request does not count for its alternatives",
        results,
        "_claim_config",
        "choice.parent in entry.requests or ",
        "",
        _recorded("random"),
    ),
    _bug(
        "binds_to_node",
        "A device that binds to its node does not",
        results,
        "_node_selector",
        " or device.binds_to_node",
        "",
        _recorded("upstream unit test"),
    ),
    _bug(
        "pools_of_all_nodes",
        "A change of a slice for all nodes leaves their gathered pools",
        Slices,
        "_invalidate",
        "self._pools.clear()",
        "pass",
        "tests/unit/state/devices/test_signatures.py::"
        "test_a_slice_for_several_nodes_changes_all_of_them",
    ),
    _bug(
        "answers_lost_after_error",
        "An expression that does not compile has no text of its own",
        Selectors,
        "_compile",
        "_Answers(None, str(error))",
        "_Answers(None)",
        _recorded("upstream unit test"),
    ),
]

_STATE: Final = [
    _bug(
        "second_share",
        "Of two shares of a device the second is lost with the first",
        AllocatedDevices,
        "_discard",
        "shares.discard(result.share_id)",
        "shares.clear()",
        "tests/unit/state/devices/test_devices.py::"
        "test_a_device_is_shared_until_its_last_share_ends",
    ),
    _bug(
        "shares_differ",
        "What shares consume makes no difference between nodes",
        NodeSignatures,
        "_in_use",
        "if not consumed:",
        "if consumed is not None:",
        "tests/unit/state/devices/test_signatures.py::test_what_shares_consume_makes_a_difference",
    ),
    _bug(
        "taints_differ",
        "Taints of devices make no difference between nodes",
        NodeSignatures,
        "_content_of",
        "device.taints,",
        "(),",
        f"{_SHARING}::test_shared_results_are_those_of_a_search_on_every_node[0]",
    ),
    _bug(
        "row_not_logged",
        "Of two rows with another signature the second is not logged",
        NodeSignatures,
        "_set",
        "self.log.append(row, 0)",
        "self.log.append(row, 0) if not self.log.generation % 2 else None",
        f"{_PLUGIN_TEST}::test_reserved_devices_are_in_use_until_unreserve",
    ),
]

_PLUGIN: Final = [
    _bug(
        "new_layout_missed",
        "Results of rows are not read anew after the column was computed anew",
        SharedResults,
        "refresh_rows",
        "self._layout == signatures.layout",
        "self._layout >= 0",
        f"{_SHARING}::test_shared_results_are_those_of_a_search_on_every_node[1]",
    ),
    _bug(
        "count_of_unknown",
        "A row that was unknown before is not discounted",
        SharedResults,
        "_set_row",
        "is_unknown - self.is_unknown.item(row)",
        "is_unknown",
        "tests/plugins/test_dynamic_resources_rows.py::"
        "test_rows_that_changed_are_updated_and_no_others[0]",
    ),
    _bug(
        "classes_of_template",
        "Results stay after a change of a device class",
        ResultsByTemplate,
        "template",
        "devices.classes.version",
        "0",
        f"{_SHARING}::test_a_class_that_changed_counts_for_templates_that_are_known",
    ),
    _bug(
        "plan_of_old_devices",
        "A plan is used although devices changed after Filter",
        attempt.DeviceAttempt,
        "_planned",
        "self._version != self._devices.version",
        "False",
        f"{_SHARING}::test_devices_that_were_taken_after_filter_are_not_planned_again",
    ),
    _bug(
        "unavailable_first",
        "Unavailable claims are rejected before the allocation",
        attempt.DeviceAttempt,
        "filter",
        "if status is None and unavailable:",
        "if unavailable:",
        f"{_PLUGIN_TEST}::"
        "test_without_devices_for_another_claim_an_unavailable_claim_is_not_deallocated",
    ),
    _bug(
        "second_user",
        "A claim with two users is freed for the first of them",
        DynamicResources,
        "post_filter",
        "len(users) == 1 and",
        "len(users) > 0 and",
        f"{_PLUGIN_TEST}::test_a_claim_that_no_node_can_use_is_deallocated_unless_others_use_it",
    ),
    _bug(
        "restore_forgotten",
        "Unreserve keeps the assumed version of a claim",
        DynamicResources,
        "unreserve",
        "devices.claims.restore(key(claim))",
        "pass",
        f"{_PLUGIN_TEST}::test_unreserve_returns_to_the_version_that_the_api_server_reported",
    ),
    _bug(
        "second_claim_in_flight",
        "Of two claims only the first is checked to be in flight for another pod",
        DynamicResources,
        "pre_filter",
        "check_unallocated(claims, devices",
        "check_unallocated(PodClaims(claims.all[:1]), devices",
        f"{_PLUGIN_TEST}::test_the_second_claim_of_a_pod_may_be_in_flight_for_another_pod",
    ),
    _bug(
        "last_claim_scores",
        "Of two claims with alternatives the last one alone scores",
        attempt.DeviceAttempt,
        "score",
        "total += score_of(claim, next(names))",
        "total = score_of(claim, next(names))",
        f"{_PLUGIN_TEST}::test_the_alternatives_of_all_claims_are_added_up",
    ),
    _bug(
        "unknown_is_true",
        "A binding condition that is unknown counts as true",
        binding_conditions,
        "_is_true",
        'condition.status == "True"',
        'condition.status != "False"',
        f"{_PLUGIN_TEST}::"
        "test_a_binding_condition_counts_only_if_it_is_true[Unknown-Readiness.WAITING]",
    ),
    _bug(
        "init_uses_earlier",
        "An init container uses the requests of sidecars that start before it",
        extended_resources._OfResource,
        "requests",
        "if other >= index",
        "if other >= 0",
        "tests/plugins/test_extended_resources_by_devices.py::test_an_init_container_does_not_use_the_devices_of_an_earlier_sidecar",
    ),
    _bug(
        "largest_missing",
        "The last init container's request is kept, not the largest",
        extended_resources._OfResource,
        "requests",
        "max(missing, key=_count)",
        "missing[-1]",
        "tests/plugins/test_extended_resources_by_devices.py::"
        "test_init_containers_use_the_devices_of_those_that_start_later[init3-main3-names3-counts3]",
    ),
    _bug(
        "deallocation_of_others",
        "The deallocation of another pod's claim does not queue",
        hints._Hints,
        "after_claim_change",
        "old is not None and old.status.allocation is not None and",
        "old is None and",
        f"{_PLUGIN_TEST}::test_claims_that_help[freed]",
    ),
]

_WRITES: Final = [
    _bug(
        "finalizer_forgotten",
        "An allocation is written without the finalizer",
        Reservation,
        "_with_finalizer",
        "if FINALIZER in finalizers:",
        "if True:",
        f"{_WRITER}::test_a_claim_is_allocated_and_reserved_before_its_pod_is_bound",
    ),
    _bug(
        "users_replaced",
        "A new user takes the place of the others",
        Reservation,
        "attempt",
        "(*status.reserved_for, user)",
        "(user,)",
        f"{_WRITER}::test_a_second_pod_of_a_claim_is_added_to_its_users",
    ),
    _bug(
        "second_conflict",
        "After the second conflict the claim is not read again",
        Reservation,
        "attempt",
        "self._has_tried = True",
        "self._has_tried = not self._has_tried",
        f"{_WRITER}::test_every_write_after_a_conflict_is_of_the_newest_version",
    ),
    _bug(
        "not_the_same_claim",
        "A claim of the same name, made anew, counts as reserved",
        Reservation,
        "_is_done",
        "return is_same and",
        "return",
        f"{_WRITER}::test_a_claim_that_was_made_anew_meanwhile_is_not_the_reserved_one",
    ),
    _bug(
        "turns_without_cache",
        "A second pod adds itself to the version before the first pod's write",
        ClaimWriter,
        "reserve",
        "newest = self._newest(claim)",
        "newest = claim",
        f"{_WRITER}::test_many_pods_of_a_claim_are_added_in_turn_without_a_conflict",
    ),
]

_SELECTORS: Final = [
    _bug(
        "plain_name_of_driver",
        "A name with the driver's domain is not found",
        cel_device,
        "_by_domain",
        "domain, slash, identifier = name.partition",
        "domain, slash, identifier = name.rpartition",
        "tests/unit/cel/test_selector.py::test_the_domain_of_a_name_ends_at_its_first_slash",
    ),
    _bug(
        "reads_first_name",
        "Of two attributes that an expression reads the last one alone counts",
        reads._Visitor,
        "_add",
        "self.pairs[field].add((domain, name))",
        "self.pairs[field] = {(domain, name)}",
        "tests/unit/cel/test_selector.py::test_reads_has_the_names_of_a_selector",
    ),
    _bug(
        "cost_not_checked",
        "The limit of the cost is lost",
        CostTracker,
        "push",
        "self.cost > COST_LIMIT",
        "self.cost > COST_LIMIT * 2",
        "tests/parity/test_cel_cases.py::"
        "test_every_part_of_the_language_answers_as_upstream[cel-language.jsonl.gz]",
    ),
    _bug(
        "problem_of_device",
        "A device that cannot be read is evaluated",
        Selector,
        "matches",
        "if device.problem:",
        "if device.problem and device.is_large:",
        "tests/unit/cel/test_selector.py::"
        "test_a_device_with_an_invalid_attribute_fails_for_every_selector",
    ),
    _bug(
        "quantity_of_sum",
        "A sum of quantities is equal to a quantity",
        QuantityValue,
        "equals",
        " or other.is_sum",
        "",
        "tests/unit/cel/test_selector.py::"
        "test_a_sum_of_quantities_equals_a_quantity_only_on_the_left",
    ),
]

DEVICE_BUGS: Final = [*_ALLOCATOR, *_STATE, *_PLUGIN, *_WRITES, *_SELECTORS]
