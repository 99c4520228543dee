"""Bugs at lines of all living parts that a seed drew: lists 33 and 34."""

from __future__ import annotations

import importlib
from typing import Final

from mooring.client.event_recorder import Recorder
from mooring.client.lease_requests import LeaseRequests
from mooring.client.transport.http import HttpTransport
from mooring.client.transport.http1_pool import Http1Pool
from mooring.client.transport.raw_headers import RawHeaders
from mooring.dra import capacity
from mooring.framework import pod_deltas
from mooring.framework.runtime import framework, score
from mooring.framework.runtime import with_extenders as algorithm
from mooring.framework.selector_matching import NodeTermEvaluator
from mooring.plugins import node_affinity, volume_zone
from mooring.plugins.dynamic_resources import bind_claims
from mooring.plugins.inter_pod_affinity import terms
from mooring.plugins.node_volume_limits import plugin as node_volume_limits_plugin
from mooring.plugins.pod_topology_spread.plugin import PodTopologySpread
from mooring.scheduler import with_extenders
from mooring.scheduler.binding_tasks import _Requests
from mooring.scheduler.preemption import PreemptionExecutor
from mooring.scheduler.resource_claims.reservation import Reservation
from mooring.scheduler.service import Service
from mooring.scheduler.status_writer import StatusWriter
from mooring.scheduler.with_extenders import ExtenderScheduler
from mooring.state.audit import columns as audit_columns
from mooring.state.audit import storage as audit_storage
from mooring.state.cache import Cache
from mooring.state.columns.caches import LRUCache
from mooring.state.columns.kind_columns import LabelClassColumns
from mooring.state.columns.labels import LabelColumns
from mooring.state.devices.devices import Devices
from mooring.state.devices.signatures import NodeSignatures
from mooring.state.kinds.device_classes import DeviceClasses
from mooring.state.kinds.workloads import Workloads
from mooring.state.tables.affinity_terms import TermIndex
from mooring.state.tables.counters import CounterKey
from mooring.state.tables.pods import PodInfo
from mooring.state.volumes import topology
from mooring.state.volumes.csi_nodes import CSINodes
from mooring.state.volumes.disks import Disks
from mooring.state.volumes.free_index.first_match import FirstMatchIndex
from mooring.state.volumes.free_index.free_volumes import FreeVolumes
from tests.faults.planted.bug import PlantedBug

#: The module; the package has a function of this name.
per_node: Final = importlib.import_module("mooring.framework.per_node")

BUGS: Final = [
    PlantedBug(
        "volumes_exceed_all_limits",
        "Volumes must exceed the limits of all their drivers",
        node_volume_limits_plugin,
        "_exceeds",
        "is_over = is_over_driver if is_over is None else is_over | is_over_driver",
        "is_over = is_over_driver if is_over is None else is_over & is_over_driver",
        runs="volumes",
        seed=2,
    ),
    PlantedBug(
        "ignored_nodes_have_points",
        "Nodes without all keys count in the scores of PodTopologySpread",
        PodTopologySpread,
        "pre_score",
        "        total += points(constraint, layout, number, counter, rows)",
        "        total += points(constraint, layout, number, counter, nodes.rows)",
        runs="twin_spreading",
        seed=22,
    ),
    PlantedBug(
        "contradiction_is_no_restriction",
        "Terms that exclude each other's nodes leave all of them",
        node_affinity,
        "_required_node_names",
        "    return frozenset(names) if required and required.node_selector_terms else None",
        "    return frozenset(names) if names else None",
        runs="rules",
        seed=68,
    ),
    PlantedBug(
        "selector_of_nothing_is_joined",
        "One of several terms that selects nothing is left out",
        terms,
        "counter_key_of_all",
        "    if any(key.selector.selects_nothing for key in keys):",
        "    if all(key.selector.selects_nothing for key in keys):",
        runs="twin_affinity",
        seed=8,
    ),
    PlantedBug(
        "current_zone_wins",
        "A node whose beta label has another value matches by its current one",
        volume_zone,
        "_matches",
        "        matches |= (codes == MISSING) & _has_value",
        "        matches |= (codes >= MISSING) & _has_value",
        runs="zones",
        seed=4,
    ),
    PlantedBug(
        "namesake_counts_as_reserved",
        "A claim of the same name counts as reserved for the pod",
        bind_claims,
        "_is_reserved",
        "    return is_same and has_same_devices and is_reserved_for(pod_uid, latest)",
        "    return has_same_devices and is_reserved_for(pod_uid, latest)",
    ),
    PlantedBug(
        "first_consumption_counts",
        "Only the first of several consumptions of a capacity counts",
        capacity,
        "has_capacity",
        "sum(amounts.get(name, 0) for amounts in used)",
        "sum(amounts.get(name, 0) for amounts in used[:1])",
        runs="shared_devices",
        seed=4,
    ),
    PlantedBug(
        "changed_class_loses_its_own_resource",
        "An update of a class takes its implicit resource away",
        DeviceClasses,
        "put",
        "    self._class_of[RESOURCE_PREFIX + name] = obj",
        "    elif old is None:\n        self._class_of[RESOURCE_PREFIX + name] = obj",
        runs="tables",
        seed=1,
    ),
    PlantedBug(
        "order_with_duplicates_passes",
        "The audit does not see a row that is visited more than once",
        audit_columns,
        "_audit_order",
        "    if sorted(rows) != live:",
        "    if sorted(set(rows)) != live:",
        runs="corrupted",
        seed=0,
    ),
    PlantedBug(
        "free_volume_is_inserted_again",
        "A volume that becomes free again is inserted into the list once more",
        FreeVolumes,
        "put",
        "    elif placed.is_like(entry):\n        self._list.set_free(placed, is_free=True)",
        "    elif placed.is_like(entry):\n        self._pending[name] = None",
        runs="volume_tables",
        seed=5,
    ),
    PlantedBug(
        "recent_entry_is_evicted",
        "The entry that was used last is evicted first",
        LRUCache,
        "recent",
        "        self.move_to_end(key)\n    return value",
        "        self.move_to_end(key, last=False)\n    return value",
        runs="tables",
        seed=0,
    ),
    PlantedBug(
        "falsy_status_is_none",
        "A Filter plugin may return False or 0",
        per_node,
        "_adapt_filter",
        "            if status is not None and not isinstance(status, Status):\n"
        "                raise PluginError(\n"
        '                    self.name, "Filter"',
        "            if status and not isinstance(status, Status):\n"
        "                raise PluginError(\n"
        '                    self.name, "Filter"',
        runs="contrib",
        seed=0,
    ),
    PlantedBug(
        "weights_of_cached_scores",
        "Cached scores have no weights",
        framework,
        "_cacheable_plugins",
        "                weight=weights.get(plugin.name, 1),",
        "                weight=1,",
        runs="scores",
        seed=1,
    ),
    PlantedBug(
        "first_node_of_a_pool_has_changed",
        "Only one node of a pool is changed by an allocation",
        Devices,
        "_pool_changed",
        "    for name in self.slices.nodes_of(pool):",
        "    for name in sorted(self.slices.nodes_of(pool))[:1]:",
        runs="node_devices",
        seed=73,
    ),
    PlantedBug(
        "invalid_term_selects_nodes",
        "A term that cannot be compiled selects every node",
        NodeTermEvaluator,
        "term",
        "    if term.problem:\n"
        "        return np.zeros(len(self._nodes), dtype=np.bool_)\n"
        "    matches",
        "    matches",
        runs="refusals",
        seed=0,
    ),
    PlantedBug(
        "batch_starts_at_first_node",
        "The nodes of a batch are not those from the start index",
        score,
        "_sorted_nodes",
        "    visited = visiting_order(listed, attempt.start_index)\n"
        "    visited = visited[feasible.mask[visited]]",
        "    visited = listed[feasible.mask[listed]]",
        runs="batched",
        seed=0,
    ),
    PlantedBug(
        "first_foreign_label_ends",
        "Labels after one that no selector reads are left out",
        LabelClassColumns,
        "__init__",
        "            if key not in keys:\n                continue",
        "            if key not in keys:\n                break",
        runs="tables",
        seed=9,
    ),
    PlantedBug(
        "health_of_informers_is_not_checked",
        "Nothing reports that the server cannot be reached",
        Service,
        "_start",
        "start(others, *(informer.run for informer in self._all_informers()), health.run)",
        "start(others, *(informer.run for informer in self._all_informers()))",
        runs="service",
        seed=0,
    ),
    PlantedBug(
        "lost_events_are_not_counted",
        "Events that could not be written are not counted",
        Recorder,
        "_write",
        "    if not is_written:\n        self._statistics.failed += 1\n        return None",
        "    if not is_written:\n        return None",
        runs="errors",
        seed=0,
    ),
    PlantedBug(
        "lease_waits_for_writes",
        "Requests of the lease share the connections of writes",
        LeaseRequests,
        "_request",
        "        pool=Pool.LEASE,",
        "        pool=Pool.WRITE,",
        runs="coordinated",
        seed=0,
    ),
    PlantedBug(
        "step_of_claim_write_is_not_named",
        "The error of a write of a claim names another step",
        Reservation,
        "_write",
        "    self._step = step\n    try:",
        "    try:",
        runs="reservation",
        seed=0,
    ),
    PlantedBug(
        "dry_run_with_extenders_is_not_recorded",
        "With extenders the record of a preemption is lost",
        ExtenderScheduler,
        "_try_once",
        "                attempt.preemption = post_filter_result.record",
        "                attempt.preemption = None",
        runs="silent_extender",
        seed=1,
    ),
    PlantedBug(
        "late_connection_stays_open",
        "A connection that opens after the transport was closed stays open",
        Http1Pool,
        "_open",
        "    if self._is_closed:\n"
        "        connection.abort()\n"
        '        raise Unreachable("the transport is closed")\n'
        "    self._all[connection] = None",
        "    if self._is_closed:\n"
        '        raise Unreachable("the transport is closed")\n'
        "    self._all[connection] = None",
        runs="tokens",
        seed=2,
    ),
    PlantedBug(
        "retired_sessions_stay_open",
        "Retired sessions stay open when the transport is closed",
        HttpTransport,
        "close",
        "    for session in [*sessions.values(), *retired]:",
        "    for session in sessions.values():",
        runs="tokens",
        seed=38,
    ),
    PlantedBug(
        "values_of_headers_are_reversed",
        "Repeated headers are joined in reverse order",
        RawHeaders,
        "_headers",
        'headers[key] = f"{headers[key]}, {text}" if key in headers else text',
        'headers[key] = f"{text}, {headers[key]}" if key in headers else text',
        runs="pool",
        seed=2,
    ),
    PlantedBug(
        "older_status_is_remembered",
        "An older version of a pod replaces a newer one that was stored",
        StatusWriter,
        "_remember",
        "    self._stored[stored.metadata.uid] = self._newer(_without_spec(stored))",
        "    self._stored[stored.metadata.uid] = _without_spec(stored)",
    ),
    PlantedBug(
        "preemption_without_last_victim_has_ended",
        "A preemption that has not come to its last victim counts as ended",
        PreemptionExecutor,
        "is_running",
        "return last is None or not _is_terminating(self._pods.get(last.key), last.uid)",
        "return last is not None and not _is_terminating(self._pods.get(last.key), last.uid)",
        runs="preemption",
        seed=0,
    ),
    PlantedBug(
        "extender_error_cancels_others",
        "An error of one extender cancels the calls of others",
        with_extenders,
        "_send",
        "    try:\n"
        "        return await call()\n"
        "    except ExtenderError as error:\n"
        "        return error",
        "    return await call()",
        runs="preempt_extender",
        seed=3,
    ),
    PlantedBug(
        "slow_requests_of_a_namespace_add_up",
        "The slow requests of a namespace are never subtracted",
        _Requests,
        "end",
        "    self._slow_by_namespace[namespace] -= 1\n    if not",
        "    if not",
        runs="slots",
        seed=0,
    ),
    PlantedBug(
        "shared_users_are_forgotten",
        "The last pod that does not share a disk takes the ones that do with it",
        Disks,
        "remove",
        "        counts[not is_shared] -= 1\n        if counts == [0, 0]:",
        "        counts[not is_shared] -= 1\n        if not counts[1]:",
        runs="restrictions",
        seed=0,
    ),
    PlantedBug(
        "own_start_time_wins",
        "A pod is bound with the start time that it had",
        PodInfo,
        "on_node",
        "start_time=start_time or pod.status.start_time",
        "start_time=pod.status.start_time or start_time",
    ),
    PlantedBug(
        "named_volumes_are_not_audited",
        "The audit does not compare the volumes that name a claim",
        audit_storage,
        "_audit_listings",
        '        *_differences("free volumes of class", found_free, free),\n'
        '        *_differences("volumes that name", found_named, named),',
        '        *_differences("free volumes of class", found_free, free),',
        runs="corrupted",
        seed=4,
    ),
    PlantedBug(
        "lost_labels_stay_in_columns",
        "A label that a node loses stays in its column",
        LabelColumns,
        "put",
        "        if not self._holders[key]:\n"
        "            del self._holders[key]\n"
        "    for key, column in self._columns.items():\n"
        "        column.put(row, labels.get(key))",
        "        if not self._holders[key]:\n"
        "            del self._holders[key]\n"
        "    for key in labels:\n"
        "        if key in self._columns:\n"
        "            self._columns[key].put(row, labels[key])",
        runs="scalar",
        seed=4,
    ),
    PlantedBug(
        "equal_terms_count_once",
        "Pods count once for several equal terms",
        pod_deltas,
        "_counts",
        "        counts += count * (matching if",
        "        counts += 1 * (matching if",
        runs="twin_affinity",
        seed=38,
    ),
    PlantedBug(
        "signatures_before_new_attributes_stay",
        "The signatures stay as attributes come to be read",
        NodeSignatures,
        "read",
        "    self._names = None if names is None else before | names\n    self._restart()",
        "    self._names = None if names is None else before | names",
        runs="node_devices",
        seed=1,
    ),
    PlantedBug(
        "second_owner_of_columns_is_not_updated",
        "Of the columns that depend on a CSINode only the first are updated",
        CSINodes,
        "update_row",
        "    for columns in self._all:\n        columns.update(node_name)",
        "    for columns in self._all[:1]:\n        columns.update(node_name)",
        runs="scalar",
        seed=1,
    ),
    PlantedBug(
        "old_selector_of_a_service_stays",
        "A service is found by the selector that it had",
        Workloads,
        "put",
        "        self._remove_service(key(obj))\n        self._services[key(obj)]",
        "        self._services[key(obj)]",
        runs="spreading",
        seed=0,
    ),
    PlantedBug(
        "changed_masks_are_not_seen",
        "Cached first volumes outlive a change of the topology of nodes",
        FirstMatchIndex,
        "_cached_result",
        "    cached.invalidate_if_stale(self._masks.version)\n    if now",
        "    if now",
        runs="volume_tables",
        seed=2,
    ),
    PlantedBug(
        "selector_of_namespaces_is_ignored",
        "A term is looked up in the namespaces that it names only",
        TermIndex,
        "_lookup_keys",
        "    is_listed = term.namespace_selector.selects_nothing and len(term.namespaces)"
        " <= KEYS_MAX",
        "    is_listed = bool(term.namespaces) and len(term.namespaces) <= KEYS_MAX",
        runs="corrupted",
        seed=1,
    ),
    PlantedBug(
        "no_namespace_is_every_namespace",
        "A term for no namespace counts the pods of all",
        CounterKey,
        "counts",
        "    if self.namespaces is not None and metadata.namespace not in self.namespaces:",
        "    if self.namespaces and metadata.namespace not in self.namespaces:",
        runs="scalar",
        seed=4,
    ),
    PlantedBug(
        "other_terms_are_not_looked_up",
        "With a term the others of its label are forgotten",
        TermIndex,
        "release",
        "        del of_namespace[label][shared]\n        if not of_namespace[label]:",
        "        del of_namespace[label][shared]\n        if of_namespace[label]:",
        runs="limited_choice",
        seed=4,
    ),
    PlantedBug(
        "extenders_without_nodes",
        "With extenders PreFilter runs without a node",
        algorithm,
        "schedule_pod",
        "    if len(cycle.snapshot.nodes) == 0:\n        return Diagnosis(0)\n    feasible",
        "    feasible",
        runs="silent_extender",
        seed=5,
    ),
    PlantedBug(
        "first_of_several_conditions_counts",
        "A topology of several conditions counts as its first one",
        topology,
        "one_label",
        "        if len(term) != 1 or term[0].operator != IN:",
        "        if not term or term[0].operator != IN:",
        runs="volume_tables",
        seed=0,
    ),
    PlantedBug(
        "forgotten_pod_stays_on_its_node",
        "A pod whose binding failed stays on its node",
        Cache,
        "forget",
        '        raise InvariantViolation(f"cannot forget pod {uid}: it is confirmed")\n'
        "    self._remove_from_node(uid)",
        '        raise InvariantViolation(f"cannot forget pod {uid}: it is confirmed")\n'
        "    self._assumed.pop(uid)",
        runs="verify",
        seed=0,
    ),
]
