"""Thirty bugs at lines that a seeded generator drew from the statements of the living parts.

For the first sixteen ``random.Random(20261620)`` drew 26, and ``random.Random(20261621)`` 24 of the
12 270 statements in the functions of ``queue``, ``state``, ``client``, ``framework``,
``scheduler``, ``extenders``, ``dra``, and of the plugins DefaultPreemption, DynamicResources,
VolumeBinding, PodTopologySpread, InterPodAffinity, NodeVolumeLimits and NodeResourcesFit, but for
the readers of kubeconfig and certificates. At sixteen of these lines a bug was possible that a
reviewer may overlook. They were committed before any was run. The other fourteen are at the lines
of ``random.Random(20261622)``; they were written after the runs had been extended for the first
ones, and committed before any of them was run. The table in docs/concepts/faults.md has the
results.
"""

from __future__ import annotations

from typing import Final

from mooring.client.informer.replica import Replica
from mooring.client.leader_election import Elector
from mooring.client.retry import Backoff
from mooring.client.transport.http import HttpTransport
from mooring.client.transport.http1_pool import Http1Pool, _Connection
from mooring.dra import pools, results
from mooring.extenders.full_objects import FullObjectCache
from mooring.framework.runtime.combined_results import CombinedResults
from mooring.framework.runtime.result_cache import CachedResults
from mooring.plugins.default_preemption import dry_run
from mooring.plugins.node_resources import scoring
from mooring.plugins.node_volume_limits import hints as limit_hints
from mooring.plugins.pod_topology_spread import hints as spreading_hints
from mooring.plugins.pod_topology_spread.plugin import PodTopologySpread
from mooring.plugins.volume_binding.bind_volumes import VolumeBinder
from mooring.queue.scheduling_queue import SchedulingQueue
from mooring.queue.unschedulable_pods import UnschedulablePods
from mooring.scheduler.reporting import Reporting
from mooring.scheduler.status_writer import StatusWriter
from mooring.state.devices.signatures import NodeSignatures
from mooring.state.tables.counters import PodCounters
from mooring.state.tables.nodes import NodeTable
from mooring.state.volumes import topology, usage
from mooring.state.volumes.capacity import _ByValue
from tests.faults.planted import PlantedBug

SEEDED_BUGS: Final = [
    PlantedBug(
        "first_change_decides",
        "Of several events of an update of a waiting pod only the first one may requeue it",
        SchedulingQueue,
        "_requeue_on_update",
        "        ):\n            return",
        "        ):\n            return\n        break",
    ),
    PlantedBug(
        "made_anew_is_update",
        "An object that was made anew is added as an update, after the deletion of the old one",
        Replica,
        "_store",
        "        self._drop(key, last=None)\n        old = None",
        "        self._drop(key, last=None)",
    ),
    PlantedBug(
        "later_filter_is_first",
        "A changed node is not rejected by the column before a later filter that rejects it, too",
        CombinedResults,
        "update",
        "is_reached = first == 0 or own_first < first != NOT_VISITED",
        "is_reached = first == 0",
        "device",
    ),
    PlantedBug(
        "released_for_another",
        "A lease that another candidate has taken is released",
        Elector,
        "release",
        "if self.leader != self.identity:",
        "if not self.leader:",
        "lease",
    ),
    PlantedBug(
        "missing_label_never_matches",
        "A node without the label does not match the NotIn of a volume",
        topology,
        "_matches",
        "results.append(condition.matches_value(None))",
        "results.append(False)",
        "volume",
    ),
    PlantedBug(
        "names_of_last_selector",
        "Nodes differ only by the attributes of devices that the last selector reads",
        NodeSignatures,
        "read",
        "None if names is None else before | names",
        "names",
        "device",
    ),
    PlantedBug(
        "ignored_nodes_are_lowest",
        "Nodes without a topology key count for the lowest score of spreading",
        PodTopologySpread,
        "normalize",
        "normalized(scores, scores[~is_ignored])",
        "normalized(scores, scores)",
    ),
    PlantedBug(
        "absent_resource_is_first",
        "A resource that a node lacks is one of its two for the balance",
        scoring,
        "_deviation",
        "number += is_present",
        "number += 1",
    ),
    PlantedBug(
        "all_devices_on_node",
        "A slice counts for a node only if all its devices are for that node",
        pools,
        "_is_relevant",
        "any(device.is_on(node)",
        "all(device.is_on(node)",
        "device",
    ),
    PlantedBug(
        "limits_of_new_values",
        "The capacity of a zone that appears later is not counted",
        _ByValue,
        "largest",
        "if self._column is not column or self._version != column.values.version:",
        "if self._column is not column:",
        "volume",
    ),
    PlantedBug(
        "config_for_last_request",
        "The configuration of a class is for the last request of the class alone",
        results,
        "_class_config",
        "requests_of.setdefault(name, []).append(choice.full_name)",
        "requests_of[name] = [choice.full_name]",
        "device",
    ),
    PlantedBug(
        "disks_are_no_use",
        "The disks of a pod without claims are not counted on its node",
        usage,
        "_uses_volumes",
        "counts(volume) or describes_disk(volume)",
        "counts(volume)",
        "volume",
    ),
    PlantedBug(
        "lost_key_is_silent",
        "A node that loses a topology key requeues no pod that waits to be spread",
        spreading_hints,
        "_node_helps",
        "if had != has:",
        "if has and not had:",
    ),
    PlantedBug(
        "gone_pod_is_written",
        "A status that met a conflict is sent again although its pod is gone",
        StatusWriter,
        "_is_pointless",
        "    except NotFound:\n        return True",
        "    except NotFound:\n        return False",
    ),
    PlantedBug(
        "reset_from_last_reset",
        "A backoff is reset when it is as old as that, not after a pause",
        Backoff,
        "next_s",
        "        self._wait_s = self._initial_s\n    self._called_at_s = now_s",
        "        self._wait_s = self._initial_s\n        self._called_at_s = now_s",
    ),
    PlantedBug(
        "lowest_is_highest",
        "The lowest priority that there is, -2147483648, is that of the most important victim",
        dry_run,
        "_sort_victims",
        "-pods.priority[slots].astype(np.int64)",
        "-pods.priority[slots]",
        "crowd",
    ),
]

LATER_SEEDED_BUGS: Final = [
    PlantedBug(
        "empty_write_has_no_length",
        "A write without a body does not say that it has none",
        Http1Pool,
        "_text",
        'if body or method in ("POST", "PUT", "PATCH"):',
        "if body:",
    ),
    PlantedBug(
        "written_stays_assumed",
        "A volume that has been written counts as assumed when the attempt fails",
        VolumeBinder,
        "_write",
        "binding.is_assumed = False",
        "pass",
        "volume",
    ),
    PlantedBug(
        "equal_is_older",
        "The version of a pod that an extender needs counts as older than itself",
        FullObjectCache,
        "_known",
        "cached_version < required_version",
        "cached_version <= required_version",
        "extender",
    ),
    PlantedBug(
        "column_does_not_grow",
        "The signatures of nodes do not grow with the table of nodes",
        NodeSignatures,
        "refresh",
        "names is None or others is None or len(self.column) != nodes.capacity",
        "names is None or others is None",
        "device",
    ),
    PlantedBug(
        "any_event_opens_gate",
        "A gated pod is tried at the events of other plugins than the one that gates it",
        UnschedulablePods,
        "accepts_event",
        "(profile_of(entry.pod), entry.gating_plugin) in self._hints.registrations_for(event)",
        "bool(self._hints.registrations_for(event))",
    ),
    PlantedBug(
        "limit_is_too_long",
        "A body of as many bytes as are allowed is too long",
        _Connection,
        "on_body",
        "if self._size > self._bytes_max:",
        "if self._size >= self._bytes_max:",
    ),
    PlantedBug(
        "restored_score_stays",
        "An entry of cached results that is reused keeps what PreScore had for other pods",
        CachedResults,
        "__init__",
        "self.restored_pre_score: Restored | None = None",
        "self.restored_pre_score = evicted.restored_pre_score if evicted else None",
    ),
    PlantedBug(
        "static_of_old_pools",
        "The signature of a node is that of its former pools of devices",
        NodeSignatures,
        "of",
        "if static is None or static.pools is not pools:",
        "if static is None:",
        "device",
    ),
    PlantedBug(
        "class_removed_with_first_pod",
        "The counts of a kind of labels end with the first of its pods",
        PodCounters,
        "remove",
        "if self._classes.find(label_class) < 0:",
        "if True:",
    ),
    PlantedBug(
        "connections_outlive_credentials",
        "Connections of old credentials are used after a renewal",
        HttpTransport,
        "_headers",
        "await self._retire()",
        "pass",
    ),
    PlantedBug(
        "new_limit_is_silent",
        "A driver that had no limit and gets one queues no pod",
        limit_hints,
        "_after_csi_node_updated",
        "limit > before.get(driver, 0)",
        "limit > before.get(driver, limit)",
    ),
    PlantedBug(
        "preempted_by_victims_profile",
        "The event of an eviction is of the victim's scheduler",
        Reporting,
        "preempted",
        "self._recorders[profile_of(preemptor)]",
        "self._recorders[profile_of(victim)]",
        "crowd",
    ),
    PlantedBug(
        "fence_at_the_end",
        "A write may start at the very end of the lease",
        Elector,
        "fence",
        "if remaining_s <= 0:",
        "if remaining_s < 0:",
        "lease",
    ),
    PlantedBug(
        "updates_count_as_nodes",
        "An update of a node counts as one more node",
        NodeTable,
        "put",
        "self._node_count += before is None",
        "self._node_count += 1",
    ),
]
