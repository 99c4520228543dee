"""Bugs at lines of the queue, the state, the plugins and devices that were drawn late."""

from __future__ import annotations

from typing import Final

from mooring.dra import constraints, features, ledger, pools
from mooring.dra.search import Search
from mooring.framework.runtime import nominated
from mooring.framework.runtime.result_cache import ResultCache
from mooring.plugins.dynamic_resources.extended_resources import _OfResource
from mooring.plugins.volume_binding.bind_volumes import BindProgress
from mooring.state.devices import claims
from mooring.state.devices.claims import Claims
from tests.faults.planted.bug import PlantedBug

BUGS: Final = [
    PlantedBug(
        "cached_results_without_bytes",
        "the limit of cached results is that of results without columns, in a cluster of any size",
        ResultCache,
        "of",
        "self._limit(capacity)",
        "self._limit(0)",
        "tables",
        3,
    ),
    PlantedBug(
        "too_many_by_one_alternative",
        "if one alternative has too many devices, other devices of earlier requests are not tried",
        Search,
        "_first_available",
        "failures == {Failure.TOO_MANY}",
        "Failure.TOO_MANY in failures",
        "node_devices",
        122,
    ),
    PlantedBug(
        "version_equal_to_text",
        "a version and an equal text satisfy a constraint for equal attributes",
        constraints,
        "value_of",
        'return "version", attribute.version_value',
        'return "string", attribute.version_value',
        "node_devices",
        66,
    ),
    PlantedBug(
        "toleration_without_value",
        "a toleration of a device taint without a value tolerates any value",
        ledger,
        "tolerates",
        "return toleration.value == taint.value",
        "return not toleration.value or toleration.value == taint.value",
        "shared_devices",
        26,
    ),
    PlantedBug(
        "effect_without_key",
        "a toleration of all keys of device taints tolerates all effects",
        ledger,
        "tolerates",
        "if toleration.effect and toleration.effect",
        "if toleration.effect and toleration.key and toleration.effect",
        "node_devices",
        26,
    ),
    PlantedBug(
        "unknown_counter_elsewhere",
        "a pool is valid if a device of another node consumes an unknown counter",
        pools,
        "_checked",
        "for part in (*slices, *others):",
        "for part in slices:",
        "shared_devices",
        6,
    ),
    PlantedBug(
        "taint_rules_by_gate_of_taints",
        "the gate of device taints switches the rules that taint devices, too",
        features,
        "features_of",
        'gates.get("DRADeviceTaintRules", False)',
        'gates.get("DRADeviceTaints", False)',
        "tables",
        6,
    ),
    PlantedBug(
        "first_victim_alone",
        "only the first of several victims is removed from the state of a plugin",
        nominated,
        "_filter_one_node",
        "for pod in view.removed[position]:",
        "for pod in view.removed[position][:1]:",
        "points",
        0,
    ),
    PlantedBug(
        "rejections_without_nominated_pods",
        "a node that is rejected without its nominated pods gets the status of another node",
        nominated,
        "filter_with_nominated_pods",
        "second.codes[refused] + len(first.table)",
        "second.codes[refused]",
        "points",
        0,
    ),
    PlantedBug(
        "undeclared_reads_are_none",
        "a filter that does not say what it reads counts as one that reads no pods",
        nominated,
        "filters_reading_pods",
        'and (not hasattr(plugin, "reads") or',
        'and (hasattr(plugin, "reads") and',
        "points",
        0,
    ),
    PlantedBug(
        "volumes_wait_for_all",
        "the wait for a volume ends only when all volumes of the pod are ready",
        BindProgress,
        "is_condition_met",
        "self.first_pending() != pending",
        "self.first_pending() is None",
        "bind_progress",
        1,
    ),
    PlantedBug(
        "claim_of_another_pod_name",
        "the claim for extended resources is found by the UID of its owner alone",
        Claims,
        "for_extended_resources",
        "owner.uid == pod_uid and owner.name == pod_name and owner.controller",
        "owner.uid == pod_uid and owner.controller",
        "claim_store",
        0,
    ),
    PlantedBug(
        "claim_older_than_no_number",
        "a claim is not newer than a stored one whose version is no number",
        claims,
        "_is_newer",
        "return True",
        "return new_version is None",
        "claim_store",
        11,
    ),
    PlantedBug(
        "restore_of_reported_claim",
        "a claim that was assumed and reported is restored as if it had not been reported",
        Claims,
        "put",
        "is_latest = not _is_newer(entry.latest.metadata, obj.metadata)",
        "is_latest = False",
        "claim_store",
        2,
    ),
    PlantedBug(
        "requests_numbered_as_written",
        "requests for extended resources have the numbers in which a container lists them",
        _OfResource,
        "_request",
        "sorted(amounts).index(self._resource)",
        "list(amounts).index(self._resource)",
        "extended",
        0,
    ),
]
