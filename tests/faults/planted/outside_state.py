"""Bugs of framework, state, plugins and dra by reviewers who had read the sources alone.

List 35 of ``docs/concepts/planted-bugs.md``.
"""

from __future__ import annotations

from typing import Final

from mooring.dra.candidates import Candidates
from mooring.dra.counters import AvailableCounters, ConsumedCounters
from mooring.dra.ledger import Ledger
from mooring.dra.pools import NodePools
from mooring.dra.search import Search
from mooring.dra.slices import Slices
from mooring.framework.runtime import bind, with_extenders
from mooring.framework.runtime.combined_results import CombinedResults
from mooring.framework.runtime.opportunistic_batch import OpportunisticBatch
from mooring.framework.waiting_pods import WaitingPod
from mooring.plugins.dynamic_resources import bind_claims, binding_conditions
from mooring.plugins.dynamic_resources.plugin import DynamicResources
from mooring.plugins.dynamic_resources.shared_results import SharedResults
from mooring.plugins.node_volume_limits import plugin as node_volume_limits_plugin
from mooring.state.cache import Cache
from mooring.state.devices.claims import Claims
from mooring.state.devices.taint_rules import SlicesWithRules
from mooring.state.kinds.budgets import Budgets
from mooring.state.tables import nodes as tables_nodes
from mooring.state.tables.affinity_terms import PodTermTable
from mooring.state.tables.counters import PodCounters
from mooring.state.volumes.attachments import AttachedVolumes
from mooring.state.volumes.limits import _Count
from tests.faults.planted.bug import PlantedBug

BUGS: Final = [
    PlantedBug(
        "permit_waits_for_ever",
        "A wait in Permit may be longer than 15 minutes",
        WaitingPod,
        "__init__",
        "plugin: now_s + wait_s for plugin, wait_s in self._timeouts.items()",
        "plugin: now_s + wait_s for plugin, wait_s in waits.items()",
        runs="waiting",
        seed=0,
    ),
    PlantedBug(
        "preempted_wait_is_a_refusal",
        "A waiting pod that is preempted was refused by the plugin",
        WaitingPod,
        "preempt",
        "self._settle(NodeError(message).named(plugin))",
        "self._settle(Reject(message).named(plugin))",
        runs="waiting",
        seed=0,
    ),
    PlantedBug(
        "last_permit_waits",
        "Of several plugins that wait in Permit the last one counts",
        bind,
        "permit",
        "waits[plugin.name] = result.timeout_s",
        "waits = {plugin.name: result.timeout_s}",
        runs="points",
        seed=6,
    ),
    PlantedBug(
        "any_hint_is_used",
        "A hint of another node counts as used",
        OpportunisticBatch,
        "_store",
        "if cycle.node_hint and cycle.node_hint == node:",
        "if cycle.node_hint:",
        runs="batch",
        seed=0,
    ),
    PlantedBug(
        "extender_scores_by_visit",
        "Scores of extenders are added in another order of nodes",
        with_extenders,
        "_select_host",
        "total = total + extra[order]",
        "total = total + extra",
        runs="filter_extender",
        seed=0,
    ),
    PlantedBug(
        "also_changed_are_left_out",
        "Rows where only cached filters changed are not combined anew",
        CombinedResults,
        "update",
        "rows = {*changed, *also_changed}",
        "rows = {*changed}",
        runs="device_columns",
        seed=0,
    ),
    PlantedBug(
        "confirmed_stays_assumed",
        "A pod that is reported stays assumed",
        Cache,
        "put_pod",
        "self._assumed.pop(info.uid, None)",
        "self._assumed.get(info.uid)",
        runs="verify",
        seed=0,
    ),
    PlantedBug(
        "attached_is_used",
        "A volume that is only attached counts as used",
        AttachedVolumes,
        "nodes_of",
        "self._users.get(volume, {}).items() if users.pods]",
        "self._users.get(volume, {}).items() if users.pods or users.attachments]",
        runs="twin_volumes",
        seed=1,
    ),
    PlantedBug(
        "bound_claims_do_not_depend",
        "Pods with a bound claim do not depend on its volume",
        _Count,
        "_driver_of",
        "self._depend(VOLUME, name)",
        "self._depend(CLASS, name)",
        runs="volume_tables",
        seed=0,
    ),
    PlantedBug(
        "new_budget_is_not_seen",
        "A new budget is not seen for labels that were looked up before",
        Budgets,
        "put",
        "if before is None or before.selector != budget.selector:",
        "if before is not None and before.selector != budget.selector:",
        runs="budgets",
        seed=0,
    ),
    PlantedBug(
        "cordon_is_no_change",
        "Cordoning a node is not noticed",
        tables_nodes,
        "_differences",
        "if (before.spec.taints, before.spec.unschedulable) != (",
        "if (before.spec.taints, after.spec.unschedulable) != (",
        runs="cached",
        seed=1,
    ),
    PlantedBug(
        "changed_labels_count_as_before",
        "New labels of a running pod are not counted",
        PodCounters,
        "update",
        "is_same = before.labels == after.labels and (",
        "is_same = before.labels == after.labels or (",
        runs="spreading",
        seed=1,
    ),
    PlantedBug(
        "newer_than_reported",
        "An assumed claim is replaced by an older one",
        Claims,
        "put",
        "_is_newer(obj.metadata, entry.latest.metadata)",
        "_is_newer(obj.metadata, entry.reported.metadata)",
        runs="claim_store",
        seed=2,
    ),
    PlantedBug(
        "rule_leaves_its_taints",
        "A changed taint rule leaves its taint on other devices",
        SlicesWithRules,
        "put_rule",
        "self._apply(old, rule)",
        "self._apply(rule)",
        runs="taint_rules",
        seed=1,
    ),
    PlantedBug(
        "terms_of_all_namespaces",
        "Terms of another namespace are reused",
        PodTermTable,
        "compiled",
        "key = (info.metadata.namespace, id(affinity))",
        'key = ("", id(affinity))',
        runs="limited_choice",
        seed=10,
    ),
    PlantedBug(
        "changed_condition_wakes_none",
        "A changed binding condition does not wake PreBind",
        bind_claims,
        "_wait",
        "return cycle.snapshot.devices.claims.get(key(pending)) is not pending",
        "return cycle.snapshot.devices.claims.get(key(pending)) is None",
        runs="conditions",
        seed=0,
    ),
    PlantedBug(
        "one_condition_is_enough",
        "One of several binding conditions is enough",
        binding_conditions,
        "readiness_of",
        "if not all(_is_true(conditions, name) for name in result.binding_conditions):",
        "if not any(_is_true(conditions, name) for name in result.binding_conditions):",
        runs="conditions",
        seed=2,
    ),
    PlantedBug(
        "first_user_is_alone",
        "A claim with several users is deallocated for the first",
        DynamicResources,
        "post_filter",
        "is_only_user = len(users) == 1 and users[0].uid == cycle.pod.uid",
        "is_only_user = len(users) > 0 and users[0].uid == cycle.pod.uid",
        runs="pod_claims",
        seed=4,
    ),
    PlantedBug(
        "more_in_use_is_equal",
        "The result of a search with more devices in use is reused",
        SharedResults,
        "_infer",
        "if not earlier.in_use & ~in_use and not earlier.needed & in_use:",
        "if not earlier.needed & in_use:",
        runs="shared_devices",
        seed=3,
    ),
    PlantedBug(
        "only_last_driver_is_limited",
        "Of several drivers only the limit of the last one counts",
        node_volume_limits_plugin,
        "_exceeds",
        "for driver in dict.fromkeys(volumes.values()):",
        "for driver in [*dict.fromkeys(volumes.values())][-1:]:",
        runs="scalar",
        seed=1,
    ),
    PlantedBug(
        "same_device_twice",
        "A request for two devices gets one shared device twice",
        Search,
        "_exactly",
        "choice, count + 1, index + 1)",
        "choice, count + 1, index)",
        runs="shared_devices",
        seed=4,
    ),
    PlantedBug(
        "shares_of_the_search_are_lost",
        "Shares of the search do not count beside those of the cluster",
        Ledger,
        "has_capacity",
        "used = (consumed, *used)",
        "used = (consumed,)",
        runs="shared_devices",
        seed=4,
    ),
    PlantedBug(
        "every_share_consumes",
        "Each share in the search consumes the counters of its device",
        Ledger,
        "_consumes_counters",
        "has_shares = device.id in self._allocated.consumed or device.id in self._shares",
        "has_shares = device.id in self._allocated.consumed",
        runs="allocator",
        seed=49,
    ),
    PlantedBug(
        "refused_device_consumes",
        "A device that exceeds a counter leaves its consumption",
        ConsumedCounters,
        "consume",
        "self.release(pool, device)",
        "return False",
        runs="allocator",
        seed=9,
    ),
    PlantedBug(
        "other_nodes_consume_nothing",
        "Devices of other nodes do not consume shared counters",
        AvailableCounters,
        "_compute",
        "for device in (*pool.devices, *pool.other_devices):",
        "for device in pool.devices:",
        runs="allocator",
        seed=1,
    ),
    PlantedBug(
        "greatest_alternative_counts",
        "The greatest alternative counts for the limit of devices",
        Candidates,
        "check",
        "least += min(numbers)",
        "least += max(numbers)",
        runs="allocator",
        seed=4,
    ),
    PlantedBug(
        "conditions_are_not_last",
        "Pools with binding conditions are not last",
        NodePools,
        "__init__",
        "key=lambda pool: (pool.has_binding_conditions, pool.key)",
        "key=lambda pool: pool.key",
        runs="allocator",
        seed=0,
    ),
    PlantedBug(
        "pools_of_old_labels",
        "The pools of a node are those of its former labels",
        Slices,
        "pools",
        "if cached is not None and (cached[0] is node.labels or cached[0] == node.labels):",
        "if cached is not None:",
        runs="shared_devices",
        seed=4,
    ),
]
