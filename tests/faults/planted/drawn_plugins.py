"""Bugs at lines of plugins that a seed drew."""

from __future__ import annotations

from typing import Final

from mooring.plugins import volume_zone
from mooring.plugins.contrib.node_ready import NodeReady
from mooring.plugins.default_preemption import dry_run
from mooring.plugins.default_preemption.plugin import DefaultPreemption
from mooring.plugins.dynamic_resources import attempt as dynamic_resources_attempt
from mooring.plugins.dynamic_resources import claims, extended_resources
from mooring.plugins.dynamic_resources.attempt import DeviceAttempt
from mooring.plugins.dynamic_resources.plugin import DynamicResources
from mooring.plugins.node_resources import fit
from mooring.plugins.node_volume_limits import plugin as node_volume_limits_plugin
from mooring.plugins.node_volume_limits.plugin import NodeVolumeLimits
from mooring.plugins.pod_topology_spread import hints as pod_topology_spread_hints
from mooring.plugins.pod_topology_spread.constraints import Constraints
from mooring.plugins.pod_topology_spread.domains import Domains
from mooring.plugins.volume_binding import bind_volumes, matches
from mooring.plugins.volume_binding.capacity_score import CapacityScore
from mooring.plugins.volume_binding.find_volumes import _Search
from tests.faults.planted.bug import PlantedBug

BUGS: Final = [
    PlantedBug(
        "half_a_byte_of_lines",
        "Of eight lines of requirements the last four count",
        fit,
        "_number_columns",
        "packed = numbers << 8 | packed",
        "packed = numbers << 4 | packed",
        runs="resources",
        seed=3,
    ),
    PlantedBug(
        "provision_is_not_assumed",
        "A claim that is to be provisioned is not assumed",
        bind_volumes,
        "assume",
        "        storage.assume_claim(placed)\n        provisions.append",
        "        provisions.append",
        runs="twin_binding",
        seed=1,
    ),
    PlantedBug(
        "first_candidate",
        "The first candidate of a preemption is taken, not the best one",
        DefaultPreemption,
        "post_filter",
        "best = min(result.candidates, key=lambda candidate: candidate.rank)",
        "best = result.candidates[0]",
        runs="preempt_extender",
        seed=3,
    ),
    PlantedBug(
        "drivers_instead_of_nodes",
        "A plugin needs only the drivers that it needs in addition",
        NodeVolumeLimits,
        "__init__",
        'self.needs = (*self.needs, "CSIDriver")',
        'self.needs = ("CSIDriver",)',
        runs="twin_volumes",
        seed=1,
    ),
    PlantedBug(
        "unusable_claims_are_usable",
        "A claim that cannot be used is",
        DeviceAttempt,
        "__init__",
        "index: (_nodes_of(claim), not is_usable(claim))",
        "index: (_nodes_of(claim), False)",
        runs="pod_claims",
        seed=8,
    ),
    PlantedBug(
        "empty_domains_are_others",
        "Nodes without a label are no part of the domain of the empty value",
        Domains,
        "add_up",
        "sums[self.empty] += sums[self.missing]",
        "pass",
        runs="spreading",
        seed=18,
    ),
    PlantedBug(
        "candidates_without_a_sound_one",
        "Candidates beyond the limit are dropped, though the first sound one is among them",
        dry_run,
        "dry_run_preemption",
        "del result.candidates[max(limit, first_sound + 1) :]",
        "del result.candidates[limit:]",
        runs="limited_choice",
        seed=15,
    ),
    PlantedBug(
        "no_mode_is_immediate",
        "A class without a binding mode is taken for one that binds at once",
        volume_zone,
        "_status_without_volume",
        "    if storage_class.volume_binding_mode is None:\n"
        "        return _reject(f'VolumeBindingMode not set for StorageClass \"{name}\"')\n"
        "    if storage_class",
        "    if storage_class",
        runs="twin_volumes",
        seed=15,
    ),
    PlantedBug(
        "scores_are_rounded_down",
        "A falling score is rounded down, not toward zero",
        CapacityScore,
        "_at",
        "return below + (abs(rise) // (high - low)) * (1 if rise >= 0 else -1)",
        "return below + rise // (high - low)",
        runs="twin_binding",
        seed=10,
    ),
    PlantedBug(
        "shifted_limits_are_usual",
        "Limits of volumes on hypothetical nodes are those of real ones",
        NodeVolumeLimits,
        "filter",
        "not snapshot.storage.use.problems and not nodes.has_deltas:",
        "not snapshot.storage.use.problems:",
        runs="twin_volumes",
        seed=5,
    ),
    PlantedBug(
        "conditions_do_not_help",
        "A change of a node's conditions requeues nobody",
        NodeReady,
        "events",
        "action = ActionType.ADD | ActionType.UPDATE_NODE_CONDITION",
        "action = ActionType.ADD",
        runs="contrib",
        seed=0,
    ),
    PlantedBug(
        "empty_defaults_are_those_of_the_system",
        "A list of constraints without any is replaced by the system's",
        Constraints,
        "__init__",
        "self.defaults = SYSTEM_DEFAULTS if self.is_system_defaulted else args.default_constraints",
        "self.defaults = args.default_constraints or SYSTEM_DEFAULTS",
        runs="twin_spreading",
        seed=1,
    ),
    PlantedBug(
        "none_of_a_resource_is_not_absent",
        "A resource of which a node has none is no matter of devices",
        extended_resources,
        "resources_by_devices",
        "if amount == 0 and classes.class_of(resource) is not None:",
        "if raw is None and classes.class_of(resource) is not None:",
        runs="shared_devices",
        seed=3,
    ),
    PlantedBug(
        "absent_volume_is_returned",
        "A volume that does not exist is returned",
        volume_zone,
        "_volume_of",
        "    if volume is None:\n"
        "        return _reject(f'persistentvolume \"{volume_name}\" not found')\n"
        "    return volume",
        "    return volume",
        runs="scalar",
        seed=9,
    ),
    PlantedBug(
        "groups_are_positions",
        "Volumes of a group are looked up by the position of the node",
        matches,
        "plan_for",
        "group = position if result.group_of is None else int(result.group_of[position])",
        "group = position",
        runs="twin_binding",
        seed=19,
    ),
    PlantedBug(
        "broken_allocation_is_used",
        "A node selector of an allocation with problems is used",
        dynamic_resources_attempt,
        "_nodes_of",
        "    if selector.problems:\n"
        "        raise AllocationError(selector.problems[0])\n"
        "    return selector",
        "    return selector",
        runs="pod_claims",
        seed=12,
    ),
    PlantedBug(
        "first_generated_claim",
        "The first generated claim of a pod is that of each entry",
        claims,
        "_generated_name",
        "if status.name == entry.name:",
        "if status.resource_claim_name:",
        runs="pod_claims",
        seed=0,
    ),
    PlantedBug(
        "named_volume_leaves_others_open",
        "Nodes of a named volume are open for other volumes",
        _Search,
        "_match_named",
        "        is_open &= ~is_available\n    return named_at, is_open",
        "    return named_at, is_open",
        runs="volumes",
        seed=2,
    ),
    PlantedBug(
        "tolerations_do_not_help",
        "New tolerations of a pod are no event",
        pod_topology_spread_hints,
        "events",
        "update = ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_TOLERATION",
        "update = ActionType.UPDATE_POD_LABEL",
        runs="hint_rules",
        seed=0,
    ),
    PlantedBug(
        "nothing_exceeds_nothing",
        "A node over its limit rejects pods without more volumes",
        node_volume_limits_plugin,
        "_exceeds",
        "is_over_driver = (added > 0) & (added > remaining)",
        "is_over_driver = added > remaining",
        runs="volumes",
        seed=3,
    ),
    PlantedBug(
        "unknown_node_is_the_last",
        "Volumes of unknown nodes are those of the last node",
        node_volume_limits_plugin,
        "_used_by_pods",
        "counts[[row for row in rows if row >= 0]] += 1",
        "counts[list(rows)] += 1",
        runs="volumes",
    ),
    PlantedBug(
        "scores_are_not_scaled",
        "The scores of devices are not scaled",
        DynamicResources,
        "normalize",
        "return default_normalize(scores)",
        "return scores",
        runs="scalar",
        seed=0,
    ),
]
