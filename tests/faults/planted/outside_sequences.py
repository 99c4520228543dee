"""Bugs of sequences of events and memory, by a reviewer who had read the sources alone.

List 39 of ``docs/concepts/planted-bugs.md``.
"""

from __future__ import annotations

from typing import Final

from mooring.client.leader_election import Elector
from mooring.client.transport.auth import Credentials
from mooring.client.transport.idle_timer import IdleTimer
from mooring.client.write_queue import _Ready
from mooring.framework.runtime import nominated
from mooring.framework.runtime.opportunistic_batch import OpportunisticBatch
from mooring.framework.runtime.result_cache import CachedResults
from mooring.framework.waiting_pods import WaitingPod
from mooring.plugins.default_preemption import dry_run
from mooring.plugins.dynamic_resources import bind_claims
from mooring.plugins.dynamic_resources.shared_results import ResultsByTemplate
from mooring.plugins.inter_pod_affinity import plugin as inter_pod_affinity_plugin
from mooring.plugins.inter_pod_affinity.hints import Hints
from mooring.plugins.pod_topology_spread import plugin as pod_topology_spread_plugin
from mooring.plugins.volume_binding.matches import VolumeMatches
from mooring.queue.scheduling_queue import SchedulingQueue
from mooring.scheduler import binding_cycle, preemption
from mooring.scheduler.binding_tasks import BindingTasks
from mooring.scheduler.informer_health import InformerHealth
from mooring.scheduler.resource_claims.reservation import Reservation
from mooring.scheduler.schedule_one import Scheduler
from mooring.scheduler.status_writer import StatusWriter
from mooring.scheduler.with_extenders import ExtenderScheduler
from mooring.state.cache import Cache
from mooring.state.kinds.budgets import Budgets
from mooring.state.tables.pods import PodTable
from tests.faults.planted.bug import PlantedBug

BUGS: Final = [
    PlantedBug(
        "gated_preemptor_stays_counted",
        "A gated preemptor whose eviction failed stays counted as rejected",
        SchedulingQueue,
        "retry_after_backoff",
        "self._queues.count_rejectors(entry, -1)",
        "self._queues.count_rejectors(entry, 0)",
        runs="queue",
        seed=0,
    ),
    PlantedBug(
        "edited_in_its_attempt_stays_old",
        "A pod that was edited during its attempt is requeued in its old version",
        Scheduler,
        "_handle_scheduling_failure",
        "pod = entry.pod if live is entry.pod.pod else PodInfo(live)",
        "pod = entry.pod if live.metadata.uid == entry.uid else PodInfo(live)",
        runs="cycle",
        seed=1,
    ),
    PlantedBug(
        "activated_a_second_time",
        "Pods that a plugin asked to activate are activated again after the binding",
        binding_cycle,
        "activate_pods",
        "cycle.pods_to_activate.clear()",
        "cycle.pods_to_activate = dict(cycle.pods_to_activate)",
        runs="cycle",
        seed=4,
    ),
    PlantedBug(
        "victims_have_to_disappear",
        "A preemptor waits until its victims have disappeared, not until they terminate",
        preemption,
        "_is_settled",
        "return _is_terminating(live, uid) or (live is not None and not live.spec.node_name)",
        "return live is None or not live.spec.node_name",
        runs="preemption",
        seed=0,
    ),
    PlantedBug(
        "each_ended_nomination_is_urgent",
        "The end of a nomination is as urgent as a nomination",
        StatusWriter,
        "enqueue",
        "urgent=bool(update.nominated))",
        "urgent=update.nominated is not None)",
        runs="status",
        seed=0,
    ),
    PlantedBug(
        "limit_is_looked_at_once",
        "The limit of bindings in progress is looked at once",
        BindingTasks,
        "wait_for_slot",
        "while self._in_progress() >= self._limit:",
        "if self._in_progress() >= self._limit:",
        runs="slots",
        seed=2,
    ),
    PlantedBug(
        "unread_answer_is_an_answer",
        "A server error whose effect is unknown counts as an answer",
        Reservation,
        "_judge",
        "return failure.__cause__, is_answered, stored",
        "return failure.__cause__, True, stored",
        runs="reservation",
        seed=1,
    ),
    PlantedBug(
        "accepted_again_by_an_absent_server",
        "A server that is absent accepts the credentials again",
        InformerHealth,
        "_check_credentials",
        "elif before is not None and not any(errors.values()):",
        "elif before is not None and not refused:",
        runs="health",
        seed=0,
    ),
    PlantedBug(
        "old_state_after_a_call",
        "An attempt goes on with the state from before an extender's call",
        ExtenderScheduler,
        "_try_once",
        "        cycle = new_cycle",
        "        cycle.snapshot = new_cycle.snapshot",
        runs="cycle",
        seed=41,
    ),
    PlantedBug(
        "namespace_keeps_its_turn",
        "The namespace that was served last is served next",
        _Ready,
        "pop",
        "self._keys.move_to_end(namespace)",
        "self._keys.move_to_end(namespace, last=False)",
        runs="writes",
        seed=9,
    ),
    PlantedBug(
        "own_duration_ends_a_lease",
        "The lease of a holder ends after the candidate's duration",
        Elector,
        "_is_held_by_another",
        "return now_s < self._observed_at_s + (self.lease.spec.lease_duration_seconds or 0)",
        "return now_s < self._observed_at_s + self._times.duration_s",
        runs="coordinated",
        seed=0,
    ),
    PlantedBug(
        "each_request_asks_the_plugin",
        "Each request that waited runs the exec plugin again",
        Credentials,
        "headers",
        "        if self._is_expired():",
        "        if self._access.plugin is not None:",
        runs="credentials",
        seed=0,
    ),
    PlantedBug(
        "idle_since_the_last_look",
        "A watch is idle since the last look, not since its last data",
        IdleTimer,
        "_set",
        "due_s = (self._loop.time() if since_s is None else since_s) + self._idle_s",
        "due_s = self._loop.time() + self._idle_s",
        runs="proxied",
        seed=0,
    ),
    PlantedBug(
        "sorted_nodes_of_an_older_attempt",
        "The sorted nodes of an attempt that was not the last one are used",
        OpportunisticBatch,
        "_unusable",
        "if cycle.number != self._last_number + 1:",
        "if cycle.number <= self._last_number:",
        runs="batch",
        seed=0,
    ),
    PlantedBug(
        "ports_are_not_checked_for_victims",
        "Host ports are not checked again when victims are reprieved",
        nominated,
        "filters_reading_pods",
        "plugin.reads & _OF_PODS)",
        "plugin.reads & Change.USAGE)",
        runs="preempt_extender",
        seed=3,
    ),
    PlantedBug(
        "first_waiting_plugin_rejects",
        "The first plugin that waits rejects, not the one whose time is over",
        WaitingPod,
        "expire",
        "plugin = min(self._deadlines, key=self._deadlines.__getitem__)",
        "plugin = next(iter(self._deadlines))",
        runs="waiting",
        seed=0,
    ),
    PlantedBug(
        "sums_of_changed_rows_alone",
        "The sums of a score of all nodes are renewed for changed rows alone",
        CachedResults,
        "refresh_scores",
        "self._add_up(None if is_full else rows, plugins)",
        "self._add_up(rows, plugins)",
        runs="rules",
        seed=4,
    ),
    PlantedBug(
        "latest_start_of_any_priority",
        "Victims of any priority decide which start is the latest",
        dry_run,
        "_ranks",
        "is_highest = removed & (priority == highest[:, None])",
        "is_highest = removed",
        runs="choice",
        seed=17,
    ),
    PlantedBug(
        "nominated_domain_is_its_own_minimum",
        "The minimum of domains does not rise with nominated pods",
        pod_topology_spread_plugin,
        "_shifted_counts",
        "second = rest.min() if len(rest) else NO_DOMAIN",
        "second = first",
        runs="twin_spreading",
        seed=0,
    ),
    PlantedBug(
        "lost_topology_label_is_silent",
        "A node that loses the label of a term requeues nothing",
        Hints,
        "after_node_change",
        "before[key] != after.get(key) for",
        "before[key] != after.get(key, before[key]) for",
        runs="hint_rules",
        seed=0,
    ),
    PlantedBug(
        "victims_leave_no_first_of_a_series",
        "A pod is not the first of its series without the victims",
        inter_pod_affinity_plugin,
        "_satisfies_affinity",
        "is_first: Bools = required.total + required.total_change == 0",
        "is_first: Bools = np.full(len(nodes), required.total == 0)",
        runs="twin_affinity",
        seed=1,
    ),
    PlantedBug(
        "plan_is_used_after_a_change",
        "A plan for volumes is used although they have changed since Filter",
        VolumeMatches,
        "covers_row",
        "return bool(includes_row) and self.version == snapshot.storage.version",
        "return bool(includes_row)",
        runs="volumes",
        seed=142,
    ),
    PlantedBug(
        "flight_of_another_attempt_ends",
        "The end of a binding ends the flight of a later attempt",
        bind_claims,
        "end_flight",
        "if reserved is None or devices.in_use.in_flight(reserved.metadata.uid) is not reserved:",
        "if reserved is None:",
        runs="claims",
        seed=130,
    ),
    PlantedBug(
        "usage_without_requests_stays",
        "A change of the usage that leaves the requests is lost",
        Cache,
        "put_pod",
        "placed.info.derived() == info.derived()",
        "placed.info.requests == info.requests",
        runs="state",
        seed=1,
    ),
    PlantedBug(
        "reported_start_is_lost",
        "The start time that a kubelet reports is lost",
        PodTable,
        "update",
        "self.start_s[placed.slot] = info.start_s",
        "self.start_s[placed.slot] = max(self.start_s[placed.slot], info.start_s)",
        runs="state",
        seed=0,
    ),
    PlantedBug(
        "budget_keeps_its_selector",
        "A budget goes on with its old selector",
        Budgets,
        "put",
        "if before is None or before.selector != budget.selector:",
        "if before is None:",
        runs="budgets",
        seed=2,
    ),
    PlantedBug(
        "results_of_the_old_class",
        "Results stay when a device class is changed",
        ResultsByTemplate,
        "template",
        "return Template(claims, (devices.classes.version, specs))",
        "return Template(claims, (len(devices.classes), specs))",
        runs="node_devices",
        seed=7,
    ),
]
