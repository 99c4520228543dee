"""Other runs with tables and caches as small as possible, so that they grow, and are full.

No run has so many objects that a table of 1024 pods grows, a log of 16384 changes begins again, or
a cache of 256 entries drops one. Here the limits are drawn, from the smallest one on; what the
runs compare stays the same, since no limit changes a decision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Final

import pytest

from mooring.clock import Rng, seeded_random
from mooring.dra import selectors
from mooring.framework import equal_nodes, selector_matching
from mooring.framework.runtime import (
    combined_results,
    filter_plans,
    filter_results,
    result_cache,
    selection,
    signatures,
)
from mooring.plugins.dynamic_resources import shared_results
from mooring.plugins.inter_pod_affinity import domains as affinity_domains
from mooring.plugins.node_resources import device_totals
from mooring.plugins.pod_topology_spread import domains as spreading_domains
from mooring.plugins.volume_binding import find_volumes, provisioning
from mooring.state.columns import grouped, labels
from mooring.state.columns.change_log import ChangeLog
from mooring.state.devices import changes as device_changes
from mooring.state.devices import signatures as device_signatures
from mooring.state.kinds import budgets, namespaces
from mooring.state.tables import affinity_terms, counters, shared_parts
from mooring.state.tables.nodes import NodeTable
from mooring.state.tables.pods import PodTable
from mooring.state.tables.shared_parts import InternPool
from mooring.state.volumes import node_columns, topology, usage
from mooring.state.volumes.free_index import first_match, free_volumes, sorted_list
from tests.faults.parts.cached_run import run_cached
from tests.faults.parts.choice_run import run_choice
from tests.faults.parts.containers import limited_containers
from tests.faults.parts.device_columns_run import run_device_columns
from tests.faults.parts.device_scores_run import run_device_scores
from tests.faults.parts.hints_run import run_hints
from tests.faults.parts.limited_choice_run import run_limited_choice
from tests.faults.parts.limits import set_limit
from tests.faults.parts.node_devices_run import run_node_devices, run_shared_devices
from tests.faults.parts.points_run import run_points
from tests.faults.parts.restrictions_run import run_restrictions
from tests.faults.parts.rules_run import run_rules
from tests.faults.parts.scores_run import run_scores
from tests.faults.parts.spreading_run import run_spreading
from tests.faults.parts.state_run import run_state
from tests.faults.parts.volumes_run import run_volumes

RUNS: Final[tuple[Callable[[int], None], ...]] = (
    run_state,
    run_scores,
    run_cached,
    run_points,
    run_choice,
    run_spreading,
    run_volumes,
    run_node_devices,
    run_limited_choice,
    run_device_columns,
    run_restrictions,
    run_shared_devices,
    run_device_scores,
    run_hints,
    run_rules,
)
#: Module -> its limits, and the smallest value of each.
LIMITS: Final[Mapping[ModuleType, Mapping[str, int]]] = {
    affinity_domains: {
        "CACHED_COLUMNS_MAX": 1,
        "KEYS_MAX": 1,
        "COUNTERS_MAX": 1,
        "NEW_KEYS_MAX": 1,
    },
    affinity_terms: {"KEYS_MAX": 1, "TEMPLATES_CACHED": 1, "ENTRIES_MIN": 1},
    combined_results: {"COLUMNS_MAX": 1, "CHANGES_MAX": 1},
    counters: {"COUNTERS_MIN": 1, "MEMORY_LIMIT_BYTES": 1, "FEW_CONDITIONS": 1},
    device_changes: {"LENGTH_MAX": 1},
    device_signatures: {"NUMBERS_MAX": 1, "ROWS_MAX": 1, "NUMBERS_LISTED": 0},
    device_totals: {"NAMES_MAX": 1},
    equal_nodes: {"AMOUNTS_MAX": 1},
    filter_plans: {"PLANS_MAX": 1},
    filter_results: {"FEW_ROWS": 1},
    find_volumes: {"_TOPOLOGY_GROUPS_MAX": 1},
    first_match: {"_CACHED_MAX": 1, "_FEW_ROWS": 1, "_ROW_CHANGES_MAX": 1, "_CHANGES_MAX": 1},
    free_volumes: {"INSERTIONS_MAX": 1},
    labels: {"COLUMN_LIMIT": 1},
    node_columns: {"COLUMNS_MAX": 1},
    provisioning: {"CACHED_CHECKS_MAX": 1},
    result_cache: {"MEMORY_LIMIT_BYTES": 1},
    selection: {"SELECTIONS_MAX": 1},
    selector_matching: {"_CACHED_REQUIREMENTS_MAX": 1},
    selectors: {"ANSWERS_MAX": 1, "EXPRESSIONS_MAX": 1, "DEVICES_MAX": 1},
    shared_parts: {"POOL_SIZE": 1, "RECENT_SPECS_MAX": 1},
    shared_results: {"TEMPLATES_MAX": 1, "SEARCHES_MAX": 1},
    signatures: {"TEMPLATES_MAX": 1, "TEMPLATE_BYTES_MAX": 1},
    sorted_list: {"CHANGES_MAX": 1},
    spreading_domains: {"LAYOUTS_MAX": 1},
    topology: {"MASKS_MAX": 1, "_AFFINITIES_MAX": 1},
}
#: The same, drawn after all others.
MORE_LIMITS: Final[Mapping[ModuleType, Mapping[str, int]]] = {
    counters: {"FIRST_SLOTS": 1},
    usage: {"FIRST_SLOTS": 1},
    affinity_terms: {"TERMS_MAX": 1},
    budgets: {"LABEL_CLASSES_CACHED": 1},
    grouped: {"SUMS_CACHED": 1},
    namespaces: {"SELECTIONS_CACHED": 1},
}
#: A table or log -> the smallest number of entries that it begins with.
CAPACITIES: Final[Mapping[type, int]] = {NodeTable: 1, PodTable: 1, ChangeLog: 1}
#: The same, drawn after all others.
MORE_CAPACITIES: Final[Mapping[type, int]] = {InternPool: 1}
#: Above the smallest limit.
MORE: Final = (0, 0, 1, 3)
#: So many of the limits of a run are small.
SHARES: Final = (0.3, 1.0)


def run_tight(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: what another run compares differs.
    """
    rng = seeded_random(seed)
    run = RUNS[seed % len(RUNS)]
    share = rng.choice(SHARES)
    with pytest.MonkeyPatch.context() as patch:
        small_limits(patch, rng, share)
        problems: list[str] = []
        with limited_containers(problems.append):
            run(seed // len(RUNS))
        assert not problems, problems[0]


def small_limits(patch: pytest.MonkeyPatch, rng: Rng, share: float) -> None:
    """Makes a share of the limits and of the first sizes of tables small."""
    limits = [(module, *limit) for module, of in LIMITS.items() for limit in of.items()]
    for module, name, least in limits:
        if rng.random() < share:
            set_limit(patch, module, name, least + rng.choice(MORE))
    for table, least in CAPACITIES.items():
        if rng.random() < share:
            defaults = (least + rng.choice(MORE),)
            patch.setattr(vars(table)["__init__"], "__defaults__", defaults)
    for table, least in MORE_CAPACITIES.items():
        if rng.random() < share:
            patch.setattr(vars(table)["__init__"], "__defaults__", (least + rng.choice(MORE),))
    for module, of in MORE_LIMITS.items():
        for name, least in of.items():
            if rng.random() < share:
                set_limit(patch, module, name, least + rng.choice(MORE))
