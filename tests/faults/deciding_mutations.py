"""Bugs at lines of plugins, framework, cache and devices that a seeded generator drew.

``random.Random(2026112817)`` drew 22 of the 8 332 statements in the functions of ``plugins`` (but
for ``contrib``), ``framework``, ``state`` (but for ``audit``) and ``dra``, without constructors. In
the order of the draw each line got a bug, or the next line of its function or class where one fits,
but for lines that only return or raise, and a second line of the same function. They were committed
before any was run. The table in docs/concepts/faults.md has the results.
"""

from __future__ import annotations

from typing import Final

from mooring.framework import pod_deltas
from mooring.framework.runtime import bind as bind_points
from mooring.framework.runtime import post_filter as post_filtering
from mooring.framework.runtime import with_extenders
from mooring.plugins.default_preemption.plugin import DefaultPreemption
from mooring.plugins.dynamic_resources import bind_claims
from mooring.plugins.inter_pod_affinity import domains
from mooring.state.cache import Cache
from mooring.state.columns.change_log import ChangeLog
from mooring.state.columns.grouped import GroupedCounts
from mooring.state.devices.signatures import NodeSignatures
from tests.faults.planted import PlantedBug

DECIDING_BUGS: Final = [
    PlantedBug(
        "nominated_is_not_gated",
        "A preemptor that is nominated is not gated while its victims are evicted",
        DefaultPreemption,
        "pre_enqueue",
        "self._handle.is_preempting(pod.uid)",
        "self._handle.is_preempting(pod.uid) and not pod.pod.status.nominated_node_name",
        "crowd",
    ),
    PlantedBug(
        "ports_of_removed_conflict",
        "A node whose pods are removed when it is added has their host ports in use",
        pod_deltas._PortConflicts,
        "add_lines",
        "self.has_conflict[line] = bool(self._used[line])",
        "self.has_conflict[line] = bool(on_row)",
        "crowd",
    ),
    PlantedBug(
        "repeated_change_is_merged",
        "A change of the row that has changed last is no new change",
        ChangeLog,
        "append",
        "    position = self.generation % self.capacity\n",
        "    last = (self.generation - 1) % self.capacity\n"
        "    if self.generation and self._rows[last] == row:\n"
        "        self._kinds[last] |= kinds\n"
        "        return\n"
        "    position = self.generation % self.capacity\n",
    ),
    PlantedBug(
        "last_term_is_anywhere",
        "Of several terms the last one alone decides whether pods of all namespaces count",
        domains,
        "_label_classes",
        "is_anywhere |= pods.namespaces is None",
        "is_anywhere = pods.namespaces is None",
    ),
    PlantedBug(
        "first_candidates_are_sent",
        "Each extender gets the candidates that the first one got",
        post_filtering,
        "_call_extenders",
        "    for extender in extenders:\n"
        "        [answer] = yield [partial(extender.preempt, cycle.pod, candidates)]\n",
        "    sent = candidates\n"
        "    for extender in extenders:\n"
        "        [answer] = yield [partial(extender.preempt, cycle.pod, sent)]\n",
        "extender",
    ),
    PlantedBug(
        "state_of_pool_is_equal",
        "Nodes are equal although the pools of their devices are not in the same state",
        NodeSignatures,
        "_number_of",
        "(pool.state, *[self._content_of(device, node) for device in pool.devices])",
        "tuple(self._content_of(device, node) for device in pool.devices)",
        "device",
    ),
    PlantedBug(
        "last_sums_are_updated",
        "Of the sums over groups of nodes those that were cached last alone are updated",
        GroupedCounts,
        "_changed",
        "in self._sums.items():",
        "in list(self._sums.items())[-1:]:",
    ),
    PlantedBug(
        "first_error_ends_preemption",
        "An error at one node ends a preemption that has candidates at others",
        DefaultPreemption,
        "post_filter",
        "not result.candidates and result.errors",
        "result.errors",
        "crowd",
    ),
    PlantedBug(
        "waiting_is_not_rejected",
        "A Permit plugin after one that waits is not called",
        bind_points,
        "permit",
        "waits[plugin.name] = result.timeout_s",
        "waits[plugin.name] = result.timeout_s; break",
    ),
    PlantedBug(
        "left_out_still_fits",
        "A node that PreFilter leaves out since a call of an extender counts as one that fits",
        with_extenders,
        "still_fits",
        "    if pre_filtered.node_names is not None and node_name not in pre_filtered.node_names:\n"
        "        return False\n",
        "",
        "extender",
    ),
    PlantedBug(
        "created_in_first_version",
        "A claim that PreBind has created is deleted in the version before its reservation",
        bind_claims,
        "_write_special",
        "attempt.created = stored",
        "pass",
        "device",
    ),
    PlantedBug(
        "confirmed_stays_nominated",
        "An assumed pod that is confirmed by its binding stays nominated",
        Cache,
        "confirm",
        "    self.nominator.remove(uid)\n",
        "",
    ),
]

#: Bug -> the run and the seed that detect it.
DECIDING_SEED_OF: Final = {
    "nominated_is_not_gated": ("choice", 1),
    "ports_of_removed_conflict": ("choice", 3),
    "repeated_change_is_merged": ("rules", 0),
    "last_term_is_anywhere": ("scores", 46),
    "first_candidates_are_sent": ("preempt_extender", 5),
    "last_sums_are_updated": ("spreading", 1),
    "waiting_is_not_rejected": ("points", 4),
    "confirmed_stays_nominated": ("state", 2),
}
