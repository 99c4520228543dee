"""Bugs in the other plugins."""

from __future__ import annotations

from typing import Final

from mooring.plugins.inter_pod_affinity import domains
from mooring.plugins.node_resources import fit, scoring
from mooring.plugins.node_resources.device_totals import DeviceTotals
from mooring.plugins.pod_topology_spread import domains as spreading_domains
from mooring.plugins.pod_topology_spread import hints as spreading_hints
from mooring.plugins.pod_topology_spread import scoring as pod_topology_spread_scoring
from mooring.plugins.pod_topology_spread.plugin import PodTopologySpread
from mooring.state.tables.pod_terms import Term
from tests.faults.planted.bug import PlantedBug

BUGS: Final = [
    PlantedBug(
        "last_term_is_anywhere",
        "Of several terms the last one alone decides whether pods of all namespaces count",
        domains,
        "_label_classes",
        "is_anywhere |= pods.namespaces is None",
        "is_anywhere = pods.namespaces is None",
        runs="scores",
        seed=46,
    ),
    PlantedBug(
        "namespaces_of_many_terms",
        "With many terms, those of a pod select pods of all namespaces",
        domains,
        "_sums_by_label_class",
        " & is_in[names]",
        "",
        runs="scores",
        seed=18,
    ),
    PlantedBug(
        "host_terms_weigh_one",
        "Terms of other pods weigh 1 for a key whose values have one node each",
        domains,
        "shared_term_sums",
        "shared.rows.add_to(of_rows[key], weight)",
        "shared.rows.add_to(of_rows[key], 1)",
        runs="scores",
        seed=2,
    ),
    PlantedBug(
        "classes_of_old_version",
        "Resources stand for the device classes of an earlier version",
        DeviceTotals,
        "backed",
        "classes is not latest or classes.version != version",
        "classes is not latest",
        runs="device_scores",
        seed=0,
    ),
    PlantedBug(
        "devices_of_old_node",
        "The devices of a node are counted by its old labels",
        DeviceTotals,
        "of",
        "if entry is None or entry[0] is not node:",
        "if entry is None:",
        runs="device_scores",
        seed=7,
    ),
    PlantedBug(
        "mean_of_positive_shares",
        "The score of one node leaves out shares of 0, that of many does not",
        fit,
        "_mean_of",
        "of_node.weighted_mean(shares",
        "of_node.weighted_mean_of_positive(shares",
        runs="cached",
        seed=0,
    ),
    PlantedBug(
        "absent_resource_is_first",
        "A resource that a node lacks is one of its two for the balance",
        scoring,
        "_deviation",
        "number += is_present",
        "number += 1",
        runs="scores",
        seed=33,
    ),
    PlantedBug(
        "first_value_is_not_empty",
        "An empty value of a topology key is none if it was the first value",
        spreading_domains,
        "_domains",
        "empty if empty >= 0",
        "empty if empty > 0",
        runs="spreading",
        seed=18,
    ),
    PlantedBug(
        "all_keys_must_move",
        "A node that moves in one of two topologies requeues no pod",
        spreading_hints,
        "_node_helps",
        "moved = any(",
        "moved = all(",
        runs="hints",
        seed=145,
    ),
    PlantedBug(
        "lost_key_is_silent",
        "A node that loses a topology key requeues no pod that waits to be spread",
        spreading_hints,
        "_node_helps",
        "if had != has:",
        "if has and not had:",
        runs="spreading",
        seed=112,
    ),
    PlantedBug(
        "ignored_nodes_are_scored",
        "Nodes without a topology key count for the lowest and the highest score",
        PodTopologySpread,
        "normalize",
        "normalized(scores, scores[~is_ignored])",
        "normalized(scores, scores)",
        runs="spreading",
        seed=19,
    ),
    PlantedBug(
        "ignored_nodes_are_lowest",
        "Nodes without a topology key count for the lowest score of spreading",
        PodTopologySpread,
        "normalize",
        "normalized(scores, scores[~is_ignored])",
        "normalized(scores, scores)",
        runs="spreading",
        seed=19,
    ),
    PlantedBug(
        "host_without_name_counts",
        "A node without the label of its name counts as a host",
        pod_topology_spread_scoring,
        "points",
        "if not domains.is_complete:",
        "if False:",
        runs="spreading",
        seed=3,
    ),
    PlantedBug(
        "halves_to_even",
        "Scores of spreading round halves to even",
        pod_topology_spread_scoring,
        "rounded",
        "if (np.abs(rest) == 0.5).any():",
        "if False:",
        runs="scalar",
        seed=5,
    ),
    PlantedBug(
        "named_namespaces_or_all",
        "A term that names namespaces does not look at them",
        Term,
        "matches",
        "if namespace not in self.namespaces and not self.namespace_selector.matches(",
        "if not self.namespaces and not self.namespace_selector.matches(",
        runs="choice",
        seed=64,
    ),
]
