"""Bugs at lines of the queue, the framework and the state that later seeds drew."""

from __future__ import annotations

from typing import Final

from mooring.client.event_recorder import Recorder
from mooring.client.informer.reflector import Reflector
from mooring.client.informer.replica import Replica
from mooring.client.transport import client_certificate, kubeconfig
from mooring.client.transport.http import HttpTransport
from mooring.client.write_queue import _Ready
from mooring.dra.search import Search
from mooring.framework.node_view import NodeView
from mooring.framework.pod_deltas import LabelClassCounts
from mooring.framework.runtime import (
    attempt_copy,
    host_selection,
    post_filter,
    registry,
    score,
    with_extenders,
)
from mooring.framework.runtime.with_extenders import _FeasibleNodes
from mooring.plugins import node_declared_features
from mooring.plugins.contrib import node_ready
from mooring.plugins.dynamic_resources import claims
from mooring.plugins.dynamic_resources.plugin import DynamicResources
from mooring.plugins.node_affinity import NodeAffinity
from mooring.queue.queueing_hints import QueueingHints
from mooring.queue.queues import PodQueues
from mooring.scheduler import bind_pod
from mooring.scheduler.binding_cycle import BindingCycle
from mooring.scheduler.resource_claims.claim_writer import ClaimWriter
from mooring.scheduler.status_writer import _Requests
from mooring.scheduler.with_extenders import ExtenderScheduler
from mooring.state.audit import columns as audit_columns
from mooring.state.audit import storage as audit_storage
from mooring.state.audit import terms as audit_terms
from mooring.state.cache import Cache
from mooring.state.devices.allocated import AllocatedDevices
from mooring.state.tables.counters import PodCounters
from mooring.state.tables.nodes import NodeTable
from mooring.state.tables.pods import PodInfo
from mooring.state.volumes.capacity import _ByValue
from mooring.state.volumes.free_index.first_match import FirstMatchIndex
from mooring.state.volumes.limits import _Count
from tests.faults.planted.bug import PlantedBug

BUGS: Final = [
    PlantedBug(
        "refused_nodes_are_sorted",
        "Nodes that do not fit are candidates for the next pod",
        score,
        "_sorted_nodes",
        "    visited = visited[feasible.mask[visited]]\n    totals",
        "    totals",
        runs="batched",
        seed=0,
    ),
    PlantedBug(
        "assumed_pod_stays_nominated",
        "A pod that is bound as it was assumed stays nominated",
        Cache,
        "put_pod",
        "        self._assumed.pop(pod.metadata.uid, None)\n"
        "        self.nominator.remove(pod.metadata.uid)\n"
        "        return",
        "        self._assumed.pop(pod.metadata.uid, None)\n        return",
        runs="state",
        seed=5,
    ),
    PlantedBug(
        "surplus_classes_are_not_audited",
        "The audit does not see label classes that no pod has",
        audit_columns,
        "_audit_counters",
        "    if cache.counters.label_class_count != len(label_classes):",
        "    if cache.counters.label_class_count < len(label_classes):",
        runs="corrupted",
        seed=0,
    ),
    PlantedBug(
        "turns_are_not_audited",
        "The audit does not count the turns of a zone",
        audit_columns,
        "_audit_order",
        "        turn_of_row.append(next_turn[zone])\n        next_turn[zone] += 1",
        "        turn_of_row.append(next_turn[zone])",
        runs="corrupted",
        seed=4,
    ),
    PlantedBug(
        "first_resource_is_not_released",
        "A removed pod keeps the first of its resources in use",
        NodeTable,
        "remove_pod",
        "    for resource in placed.info.usage:\n        self.resources.release",
        "    for resource in list(placed.info.usage)[1:]:\n        self.resources.release",
        runs="state",
        seed=0,
    ),
    PlantedBug(
        "regated_counts_as_move",
        "A pod that is gated again counts as a move, too",
        PodQueues,
        "__init__",
        "    self.regated: Counter[tuple[QueueName, str]] = Counter()",
        "    self.regated: Counter[tuple[QueueName, str]] = self.moves",
        runs="queue",
        seed=0,
    ),
    PlantedBug(
        "creation_error_has_no_place",
        "The error of a plugin that cannot be created names no field",
        registry,
        "_create",
        "                raise error.located(path=path) from error",
        "                raise",
        runs="profiles",
        seed=1,
    ),
    PlantedBug(
        "second_registration_wins",
        "Of two registrations of a plugin for an event the last one counts",
        QueueingHints,
        "registrations_for",
        "                matching.setdefault((profile, plugin), []).append(event_with_hint)",
        "                matching[profile, plugin] = [event_with_hint]",
        runs="queue",
        seed=34,
    ),
    PlantedBug(
        "no_least_percentage",
        "The adaptive percentage of a large cluster has no lower limit",
        host_selection,
        "feasible_nodes_to_find",
        "        percentage = max(MIN_PERCENTAGE, 50 - node_count // 125)",
        "        percentage = 50 - node_count // 125",
        runs="sampled",
        seed=1,
    ),
    PlantedBug(
        "absent_claim_is_no_dependency",
        "A pod does not depend on a claim that is absent",
        _Count,
        "add",
        "    self._depend(CLAIM, claim_key)\n    claim = self._known.claims.get(claim_key)\n",
        "    claim = self._known.claims.get(claim_key)\n"
        "    if claim is not None:\n"
        "        self._depend(CLAIM, claim_key)\n",
        runs="restrictions",
        seed=2,
    ),
    PlantedBug(
        "amounts_of_all_resources",
        "The change of one resource's amount is that of all",
        NodeView,
        "requested",
        "    return amounts + self.change(lambda pod: pod.usage.get(resource, 0), (USAGE,"
        " resource))",
        '    return amounts + self.change(lambda pod: pod.usage.get(resource, 0), (USAGE, ""))',
        runs="preempt_extender",
        seed=1,
    ),
    PlantedBug(
        "narrow_lowest_score",
        "A copied score may be lower than its type allows",
        attempt_copy,
        "_narrow",
        "        if limits.min <= lowest and highest <= limits.max:",
        "        if highest <= limits.max:",
        runs="points",
        seed=1,
    ),
    PlantedBug(
        "dependents_are_not_audited",
        "The audit does not compare which pods depend on an object",
        audit_storage,
        "_audit_pods",
        '        *_differences("pods that depend on", known_dependents, dependents),\n',
        "",
        runs="corrupted",
        seed=4,
    ),
    PlantedBug(
        "changed_amounts_are_equal",
        "A change of consumed amounts does not invalidate results",
        AllocatedDevices,
        "_update",
        "    if (is_dedicated, is_shared, self._all_consumed.get(device)) != before:",
        "    if (is_dedicated, is_shared) != before[:2]:",
        runs="tables",
        seed=0,
    ),
    PlantedBug(
        "counts_do_not_grow",
        "Counts by label class do not grow with the classes",
        LabelClassCounts,
        "of",
        "    if counts is None or len(counts) < length:",
        "    if counts is None:",
        runs="limited_choice",
        seed=10,
    ),
    PlantedBug(
        "new_class_is_counted_always",
        "A new label class is counted by counters that it does not match",
        PodCounters,
        "_new_label_class",
        "        for counter in self._candidates(label_class, labels)\n"
        "        if counter.matches(label_class, labels)\n"
        "    }\n"
        "    if index",
        "        for counter in self._candidates(label_class, labels)\n    }\n    if index",
        runs="spreading",
        seed=2,
    ),
    PlantedBug(
        "handles_of_drivers_are_equal",
        "Volumes of two drivers with one handle count once",
        _Count,
        "_add_inline",
        '    self.volumes[f"{kind.driver}/{handle}"] = kind.driver',
        "    self.volumes[handle] = kind.driver",
        runs="volume_tables",
        seed=0,
    ),
    PlantedBug(
        "free_volume_matches",
        "A volume that becomes free counts as one that matches",
        FirstMatchIndex,
        "_invalidate_if_stale",
        "            cached.is_match[position] and self._list.is_free[position]",
        "            self._list.is_free[position]",
        runs="volume_tables",
        seed=0,
    ),
    PlantedBug(
        "first_pod_of_a_row_is_not_audited",
        "The audit of a row does not compare its first pod",
        audit_columns,
        "audit_row",
        "    problems = _audit_row(cache.nodes, row, placed)\n    for pod in placed:",
        "    problems = _audit_row(cache.nodes, row, placed)\n    for pod in placed[1:]:",
        runs="corrupted",
        seed=0,
    ),
    PlantedBug(
        "evaluated_nodes_fit",
        "With extenders all evaluated nodes count as feasible",
        _FeasibleNodes,
        "placement",
        "    return Placement(self.names[position], row, len(self.names), self.evaluated_count)",
        "    return Placement(self.names[position], row, self.evaluated_count, self.evalu"
        "ated_count)",
        runs="filter_extender",
        seed=0,
    ),
    PlantedBug(
        "capacity_of_the_last_value",
        "A capacity for several values of a label counts for the last one",
        _ByValue,
        "put",
        "        self._limits.setdefault(value, {})[object_key] = limit\n"
        "        self._update_value(value)",
        "        self._limits.setdefault(value, {})[object_key] = limit\n"
        "    self._update_value(value)",
        runs="volume_tables",
        seed=2,
    ),
    PlantedBug(
        "one_with_extenders",
        "With extenders and without score plugins each total has the one that is for neither",
        with_extenders,
        "_select_host",
        "    if not framework.scorers:\n"
        "        total = np.zeros(len(rows), dtype=np.int64)"
        "  # upstream's score of 1 is without extenders\n"
        "    extra",
        "    extra",
        runs="filter_extender",
        seed=3,
    ),
    PlantedBug(
        "selector_values_are_not_signed",
        "The signature of a pod has the keys of its nodeSelector only",
        NodeAffinity,
        "sign",
        "    return tuple(sorted(pod.spec.node_selector.items())), node_affinity",
        "    return tuple(sorted(pod.spec.node_selector)), node_affinity",
        runs="reactive",
        seed=0,
    ),
    PlantedBug(
        "absent_claim_is_not_needed",
        "A claim that is not created yet counts as one that the pod does not need",
        claims,
        "_generated_name",
        "    raise ClaimProblem(f'pod \"{key(pod)}\": ResourceClaim not created yet')",
        "    return None",
        runs="pod_claims",
        seed=0,
    ),
    PlantedBug(
        "second_feature_is_not_required",
        "Of two features that a pod needs one is required",
        node_declared_features,
        "required_features",
        "(USER_NAMESPACES_HOST_NETWORK,) if needs_user_namespaces else ()",
        "(USER_NAMESPACES_HOST_NETWORK,) if needs_user_namespaces and not needs_restart else ()",
        runs="rules",
        seed=7,
    ),
    PlantedBug(
        "unknown_template_is_known",
        "The selectors of a pod without results are not compiled in PreFilter",
        DynamicResources,
        "pre_filter",
        "is_known=self._shared.is_known(template))",
        "is_known=True)",
        runs="pod_claims",
        seed=1,
    ),
    PlantedBug(
        "failure_stays_for_the_next_step",
        "A step of the search gets the failure of the one before",
        Search,
        "run",
        "    while following is not None:\n"
        "        stack.append(following)\n"
        "        failure: Failure | None = None\n"
        "        while True:",
        "    failure: Failure | None = None\n"
        "    while following is not None:\n"
        "        stack.append(following)\n"
        "        while True:",
        runs="node_devices",
        seed=0,
    ),
    PlantedBug(
        "added_node_is_not_ready",
        "An added node that is ready queues no pod",
        node_ready,
        "_after_node_change",
        "not (old is not None and _is_ready(old))",
        "old is not None and not _is_ready(old)",
        runs="contrib",
        seed=0,
    ),
    PlantedBug(
        "all_allocations_have_times",
        "Without binding conditions an allocation has a time, too",
        ClaimWriter,
        "__init__",
        "self._has_time = devices.features.has_binding_conditions",
        "self._has_time = True",
        runs="claim_errors",
        seed=1,
    ),
    PlantedBug(
        "command_in_a_folder_is_not_relative",
        "A command with a folder is not relative to its kubeconfig",
        kubeconfig,
        "_plugin",
        "    if os.sep in command:",
        '    if command.startswith("."):',
        runs="access",
        seed=10,
    ),
    PlantedBug(
        "namespaces_do_not_take_turns",
        "A namespace with many values to write is always the next one",
        _Ready,
        "pop",
        "                self._keys.move_to_end(namespace)",
        "                pass",
        runs="writes",
        seed=9,
    ),
    PlantedBug(
        "binding_is_tried_at_once",
        "The tries of a binding follow each other without a wait",
        bind_pod,
        "bind_pod",
        "        tries += 1\n        await sleep(RETRY_POLICY.wait_s(tries, cause, rng))",
        "        tries += 1",
        runs="binding",
        seed=1,
    ),
    PlantedBug(
        "extenders_begin_at_the_first_node",
        "With extenders each attempt begins at the node at which the last one did",
        ExtenderScheduler,
        "_try_once",
        "            self._next_start_index = attempt.next_start_index(self._next_start_index)",
        "            pass",
        runs="turns",
        seed=4,
    ),
    PlantedBug(
        "newest_unknown_status_is_forgotten",
        "Of too many requests for statuses without an answer the newest is forgotten",
        _Requests,
        "sending",
        "            del self._unknown[next(iter(self._unknown))]",
        "            self._unknown.popitem()",
        runs="status",
        seed=1,
    ),
    PlantedBug(
        "opaque_version_is_news",
        "An event of the replica's own version counts as new, if versions are no numbers",
        Replica,
        "_is_known",
        "        return bool(version) and version == self.version",
        "        return False",
        runs="informer",
        seed=1,
    ),
    PlantedBug(
        "list_ends_at_version_zero",
        "A stream of a list may end at version 0",
        Reflector,
        "received",
        "            if not is_position(event.version):\n"
        "                raise StreamUnreadable(NO_VERSION.format(event.version))\n",
        "",
        runs="watching",
        seed=4,
    ),
    PlantedBug(
        "eleven_tries_of_an_event",
        "An event is given up after one try less",
        Recorder,
        "_write",
        "        if tries < TRIES_MAX:",
        "        if tries < TRIES_MAX - 1:",
        runs="recorder",
        seed=0,
    ),
    PlantedBug(
        "cancelled_binding_has_failed",
        "A binding that is cancelled with the scheduler counts as failed",
        BindingCycle,
        "run",
        "        if task is None or task.cancelling():",
        "        if task is None:",
        runs="cycle",
        seed=0,
    ),
    PlantedBug(
        "assumed_pod_has_its_nomination",
        "A pod is assumed with the nomination that it had",
        PodInfo,
        "on_node",
        '                nominated_node_name="",\n',
        "",
        runs="cycle",
        seed=1,
    ),
    PlantedBug(
        "best_candidate_alone_is_acceptable",
        "The record of a preemption beside extenders leaves out other candidates that are as good",
        post_filter,
        "_record",
        "            candidate.node_name for candidate in in_order if candidate.rank == best.rank",
        "            candidate.node_name for candidate in in_order if candidate is best",
        runs="preempt_extender",
        seed=3,
    ),
    PlantedBug(
        "rejected_pod_still_fits",
        "A pod that PreFilter rejects after the calls of extenders still fits",
        with_extenders,
        "still_fits",
        "    if pre_filtered.status is not None:\n        return False\n",
        "",
        runs="sampled",
        seed=0,
    ),
    PlantedBug(
        "half_of_a_pair_is_loaded",
        "A certificate that does not match its key takes the one of the context away",
        client_certificate,
        "load_pair",
        "for loading in (ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), context):",
        "for loading in (context,):",
        runs="credentials",
        seed=63,
    ),
    PlantedBug(
        "refused_stream_is_sent_again",
        "A stream that is refused with 401 is opened again with the same token",
        HttpTransport,
        "_open",
        "                await self._authorization.renew()\n",
        "",
        runs="proxied",
        seed=0,
    ),
    PlantedBug(
        "terms_of_a_pod_are_not_audited",
        "The audit does not see that a pod has the terms of another one",
        audit_terms,
        "audit_terms",
        "        if cache.terms.terms_of(placed) != terms:",
        "        if False:",
        runs="corrupted",
        seed=0,
    ),
]
