"""The runs of single parts, by name, and those that may detect a bug of a package."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tests.faults.parts.access_run import run_access
from tests.faults.parts.allocator_run import run_allocator
from tests.faults.parts.audit_run import run_audit
from tests.faults.parts.batch_run import run_batch
from tests.faults.parts.batched_run import run_batched
from tests.faults.parts.bind_progress_run import run_bind_progress
from tests.faults.parts.binding_run import run_binding
from tests.faults.parts.broken_run import run_broken
from tests.faults.parts.budgets_run import run_budgets
from tests.faults.parts.cached_run import run_cached
from tests.faults.parts.calls_run import run_calls
from tests.faults.parts.candidate_run import run_candidate
from tests.faults.parts.choice_run import run_choice
from tests.faults.parts.claim_errors_run import run_claim_errors
from tests.faults.parts.claim_store_run import run_claim_store
from tests.faults.parts.claims_run import run_claims
from tests.faults.parts.client_run import run_client
from tests.faults.parts.conditions_run import run_conditions
from tests.faults.parts.contract_run import run_contract
from tests.faults.parts.contrib_run import run_contrib
from tests.faults.parts.coordinated_run import run_coordinated
from tests.faults.parts.corrupted_run import run_corrupted
from tests.faults.parts.credentials_run import run_credentials
from tests.faults.parts.cycle_run import run_cycle
from tests.faults.parts.device_columns_run import run_device_columns
from tests.faults.parts.device_scores_run import run_device_scores
from tests.faults.parts.diffs_run import run_diffs
from tests.faults.parts.elector_run import run_elector
from tests.faults.parts.errors_run import run_errors
from tests.faults.parts.extended_run import run_extended
from tests.faults.parts.extender_run import run_extender
from tests.faults.parts.filter_extender_run import run_filter_extender
from tests.faults.parts.full_objects_run import run_full_objects
from tests.faults.parts.handle_run import run_handle
from tests.faults.parts.handlers_run import run_handlers
from tests.faults.parts.health_run import run_health
from tests.faults.parts.hint_rules_run import run_hint_rules
from tests.faults.parts.hints_run import run_hints
from tests.faults.parts.informer_run import run_informer
from tests.faults.parts.layers_run import run_layers
from tests.faults.parts.limited_choice_run import run_limited_choice
from tests.faults.parts.lists_run import run_lists
from tests.faults.parts.loading_run import run_loading
from tests.faults.parts.metrics_run import run_metrics
from tests.faults.parts.node_devices_run import run_node_devices, run_shared_devices
from tests.faults.parts.pod_claims_run import run_pod_claims
from tests.faults.parts.points_run import run_points
from tests.faults.parts.pool_run import run_pool
from tests.faults.parts.preempt_extender_run import run_preempt_extender
from tests.faults.parts.preemption_run import run_preemption
from tests.faults.parts.profiles_run import run_profiles
from tests.faults.parts.proxied_run import run_proxied
from tests.faults.parts.queue_run import run_queue
from tests.faults.parts.recorder_run import run_recorder
from tests.faults.parts.refusals_run import run_refusals
from tests.faults.parts.rejections_run import run_rejections
from tests.faults.parts.removal_run import run_removal
from tests.faults.parts.reports_run import run_reports
from tests.faults.parts.reservation_run import run_reservation
from tests.faults.parts.resources_run import run_resources
from tests.faults.parts.restrictions_run import run_restrictions
from tests.faults.parts.rules_run import run_rules
from tests.faults.parts.sampled_run import run_sampled
from tests.faults.parts.scalar_run import run_scalar
from tests.faults.parts.scores_run import run_scores
from tests.faults.parts.service_run import run_service
from tests.faults.parts.silent_extender_run import run_silent_extender
from tests.faults.parts.slots_run import run_slots
from tests.faults.parts.spreading_run import run_spreading
from tests.faults.parts.state_run import run_state
from tests.faults.parts.status_run import run_status
from tests.faults.parts.tables_run import run_tables
from tests.faults.parts.taint_rules_run import run_taint_rules
from tests.faults.parts.tight_run import run_tight
from tests.faults.parts.tokens_run import run_tokens
from tests.faults.parts.trust_run import run_trust
from tests.faults.parts.turns_run import run_turns
from tests.faults.parts.twins_run import (
    run_twin_affinity,
    run_twin_binding,
    run_twin_spreading,
    run_twin_volumes,
)
from tests.faults.parts.verbs_run import run_verbs
from tests.faults.parts.verify_run import run_verify
from tests.faults.parts.views_run import run_views
from tests.faults.parts.volume_tables_run import run_volume_tables
from tests.faults.parts.volumes_run import run_volumes
from tests.faults.parts.waiting_run import run_waiting
from tests.faults.parts.watching_run import run_watching
from tests.faults.parts.wiring_run import run_wiring
from tests.faults.parts.writes_run import run_writes
from tests.faults.parts.zones_run import run_zones

#: Kind of runs -> runs one seed; any exception is a detection.
PART_RUNS: Final[Mapping[str, Callable[[int], None]]] = {
    "queue": run_queue,
    "state": run_state,
    "informer": run_informer,
    "client": run_client,
    "writes": run_writes,
    "recorder": run_recorder,
    "binding": run_binding,
    "status": run_status,
    "verify": run_verify,
    "preemption": run_preemption,
    "claims": run_claims,
    "bind_extender": run_extender,
    "choice": run_choice,
    "handlers": run_handlers,
    "cycle": run_cycle,
    "elector": run_elector,
    "errors": run_errors,
    "slots": run_slots,
    "volumes": run_volumes,
    "preempt_extender": run_preempt_extender,
    "audit": run_audit,
    "handle": run_handle,
    "claim_errors": run_claim_errors,
    "candidate": run_candidate,
    "conditions": run_conditions,
    "claim_store": run_claim_store,
    "pool": run_pool,
    "limited_choice": run_limited_choice,
    "spreading": run_spreading,
    "node_devices": run_node_devices,
    "shared_devices": run_shared_devices,
    "filter_extender": run_filter_extender,
    "batch": run_batch,
    "batched": run_batched,
    "cached": run_cached,
    "full_objects": run_full_objects,
    "removal": run_removal,
    "extended": run_extended,
    "scores": run_scores,
    "lists": run_lists,
    "device_columns": run_device_columns,
    "device_scores": run_device_scores,
    "hints": run_hints,
    "restrictions": run_restrictions,
    "tokens": run_tokens,
    "points": run_points,
    "tight": run_tight,
    "reports": run_reports,
    "calls": run_calls,
    "coordinated": run_coordinated,
    "layers": run_layers,
    "diffs": run_diffs,
    "health": run_health,
    "metrics": run_metrics,
    "service": run_service,
    "verbs": run_verbs,
    "rules": run_rules,
    "pod_claims": run_pod_claims,
    "budgets": run_budgets,
    "corrupted": run_corrupted,
    "credentials": run_credentials,
    "turns": run_turns,
    "reservation": run_reservation,
    "sampled": run_sampled,
    "watching": run_watching,
    "rejections": run_rejections,
    "broken": run_broken,
    "access": run_access,
    "allocator": run_allocator,
    "tables": run_tables,
    "volume_tables": run_volume_tables,
    "contract": run_contract,
    "loading": run_loading,
    "profiles": run_profiles,
    "contrib": run_contrib,
    "hint_rules": run_hint_rules,
    "resources": run_resources,
    "scalar": run_scalar,
    "views": run_views,
    "waiting": run_waiting,
    "trust": run_trust,
    "proxied": run_proxied,
    "zones": run_zones,
    "silent_extender": run_silent_extender,
    "twin_affinity": run_twin_affinity,
    "twin_spreading": run_twin_spreading,
    "twin_binding": run_twin_binding,
    "twin_volumes": run_twin_volumes,
    "bind_progress": run_bind_progress,
    "refusals": run_refusals,
    "taint_rules": run_taint_rules,
    "wiring": run_wiring,
}
#: Package -> the runs of its parts.
KINDS_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "queue": ("queue", "diffs", "hints", "tables"),
    "state": (
        "tables",
        "taint_rules",
        "volume_tables",
        "state",
        "budgets",
        "corrupted",
        "claim_store",
        "spreading",
        "node_devices",
        "shared_devices",
        "volumes",
        "restrictions",
        "handlers",
        "cycle",
        "tight",
        "rules",
        "refusals",
        "twin_affinity",
        "twin_binding",
        "twin_volumes",
    ),
    "framework": (
        "contract",
        "loading",
        "profiles",
        "contrib",
        "views",
        "waiting",
        "points",
        "sampled",
        "rejections",
        "cached",
        "batch",
        "batched",
        "filter_extender",
        "limited_choice",
        "preempt_extender",
        "cycle",
        "broken",
        "preemption",
        "choice",
        "scores",
        "device_columns",
        "tight",
        "rules",
    ),
    "dra": ("allocator", "node_devices", "shared_devices"),
    "cel": ("node_devices",),
    "client": (
        "client",
        "informer",
        "watching",
        "writes",
        "recorder",
        "elector",
        "errors",
        "candidate",
        "pool",
        "tokens",
        "credentials",
        "access",
        "lists",
        "coordinated",
        "layers",
        "verbs",
        "trust",
        "proxied",
    ),
    "scheduler": (
        "handlers",
        "silent_extender",
        "cycle",
        "broken",
        "preemption",
        "verify",
        "status",
        "binding",
        "claims",
        "errors",
        "slots",
        "audit",
        "handle",
        "claim_errors",
        "removal",
        "reservation",
        "turns",
        "hints",
        "reports",
        "health",
        "metrics",
        "service",
        "wiring",
        "coordinated",
    ),
    "plugins/dynamic_resources": (
        "refusals",
        "extended",
        "node_devices",
        "shared_devices",
        "claims",
        "conditions",
        "device_columns",
        "hint_rules",
        "hints",
        "pod_claims",
    ),
    "plugins/contrib": ("contrib",),
    "plugins/default_binder": ("contrib",),
    "plugins/priority_sort": ("contrib",),
    "plugins/default_preemption": ("choice", "limited_choice", "hint_rules"),
    "plugins/image_locality": ("rules",),
    "plugins/node_affinity": ("refusals", "rules", "scores", "hints"),
    "plugins/node_declared_features": ("rules",),
    "plugins/node_name": ("rules",),
    "plugins/node_ports": ("rules", "choice"),
    "plugins/node_unschedulable": ("rules",),
    "plugins/scheduling_gates": ("rules",),
    "plugins/taint_toleration": ("rules", "scores", "hints"),
    "plugins/volume_zone": ("zones", "twin_volumes", "rules", "scalar", "hints"),
    "plugins/inter_pod_affinity": ("twin_affinity", "scores", "scalar", "hint_rules", "hints"),
    "plugins/node_resources": ("resources", "scores", "device_scores", "hint_rules", "hints"),
    "plugins/node_volume_limits": ("twin_volumes", "scalar", "hint_rules", "hints"),
    "plugins/pod_topology_spread": ("twin_spreading", "spreading", "scalar", "hint_rules", "hints"),
    "plugins/volume_binding": (
        "bind_progress",
        "twin_binding",
        "volumes",
        "scalar",
        "hint_rules",
        "hints",
    ),
    "plugins/volume_restrictions": (
        "twin_volumes",
        "restrictions",
        "scalar",
        "hint_rules",
        "hints",
    ),
    "extenders": (
        "bind_extender",
        "preempt_extender",
        "filter_extender",
        "full_objects",
        "calls",
        "trust",
    ),
}
