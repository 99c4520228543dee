"""Bugs at lines of the running parts and of the framework that a seed drew."""

from __future__ import annotations

from typing import Final

from mooring.client.informer.informer import Informer
from mooring.client.informer.reflector import Reflector
from mooring.client.transport import http, http1_pool, kubeconfig
from mooring.client.transport.auth import Credentials
from mooring.client.transport.http1_pool import Http1Pool
from mooring.client.transport.kubeconfig import _Entry
from mooring.client.write_queue import WriteQueue
from mooring.extenders import wire
from mooring.extenders.http import HttpExtenderTransport
from mooring.extenders.http_extender import HTTPExtender
from mooring.framework.diagnosis import Diagnosis
from mooring.framework.runtime import (
    evaluate,
    post_filter,
    scheduling_algorithm,
    with_extenders,
)
from mooring.framework.runtime import filter as filtering
from mooring.framework.runtime.framework import Framework
from mooring.scheduler import informer_health, parts, profiles
from mooring.scheduler.binding_cycle import BindingCycle
from mooring.scheduler.binding_tasks import BindingTasks
from mooring.scheduler.debugger.audit import CacheAudit
from mooring.scheduler.evictor import Evictor
from mooring.scheduler.informer_health import InformerHealth
from mooring.scheduler.parts import SchedulerParts
from mooring.scheduler.preemption import PreemptionExecutor
from mooring.scheduler.read_only_handle import ReadOnlyHandle
from mooring.scheduler.resource_claims.reservation import Reservation
from mooring.scheduler.schedule_one import Scheduler
from tests.faults.planted.bug import PlantedBug

BUGS: Final = [
    PlantedBug(
        "first_wait_is_not_announced",
        "A binding that begins to wait does not let the next one begin",
        BindingTasks,
        "outside_request",
        "    self._waiting += 1\n    self._changed.set()",
        "    self._waiting += 1",
        runs="slots",
        seed=0,
    ),
    PlantedBug(
        "preemption_counts_if_it_succeeds",
        "A preemption that fails with an error is not counted",
        post_filter,
        "_run_plugins",
        "        if plugin.name == PREEMPTION:\n"
        "            framework.recorder.preemption_attempted()\n"
        '        result = framework.call(plugin, "PostFilter", plugin.post_filter, '
        "cycle, diagnosis)",
        '        result = framework.call(plugin, "PostFilter", plugin.post_filter, '
        "cycle, diagnosis)\n"
        "        if plugin.name == PREEMPTION:\n"
        "            framework.recorder.preemption_attempted()",
        runs="points",
        seed=26,
    ),
    PlantedBug(
        "lists_again_without_a_wait",
        "A version that is lost again and again is listed again at once",
        Reflector,
        "_on_lost_version",
        "is_again, self._is_lost_again = self._is_lost_again, True",
        "is_again, self._is_lost_again = self._is_lost_again, False",
        runs="watching",
        seed=14,
    ),
    PlantedBug(
        "finished_pods_are_missing",
        "A finished pod that is not in the cache is a difference",
        CacheAudit,
        "_is_pod_missing",
        "return pod.status.phase not in FINISHED_PHASES",
        "return True",
        runs="audit",
        seed=0,
    ),
    PlantedBug(
        "the_framework_is_not_timed",
        "Calls of plugins are not timed in the attempts that are sampled",
        Framework,
        "new_cycle",
        "cycle.is_timed = self.is_timed = every > 0",
        "cycle.is_timed = every > 0",
        runs="points",
        seed=1,
    ),
    PlantedBug(
        "broken_end_is_no_progress",
        "A stream that breaks after its list has no progress",
        Informer,
        "_request_and_wait",
        "    # A stream may break in the batch that ends its list.\n    self._note_progress()",
        "    # A stream may break in the batch that ends its list.",
        runs="watching",
        seed=1,
    ),
    PlantedBug(
        "failed_is_unresolvable",
        "Nodes that an extender rejected are unresolvable",
        wire,
        "read_filter",
        '_messages(fields, "failedandunresolvablenodes")',
        '_messages(fields, "failednodes")',
        runs="filter_extender",
        seed=1,
    ),
    PlantedBug(
        "loopback_is_remote",
        "http is refused for loopback addresses",
        kubeconfig,
        "_server",
        'is_local = url.hostname == "localhost" or _is_loopback(url.hostname)',
        'is_local = url.hostname == "localhost"',
        runs="access",
        seed=5,
    ),
    PlantedBug(
        "order_is_made_late",
        "The nodes to visit are listed only when they are filtered",
        scheduling_algorithm,
        "schedule_pod",
        "if not cycle.snapshot.nodes.order.rows():",
        "if not len(cycle.snapshot.nodes):",
        runs="sampled",
        seed=26,
    ),
    PlantedBug(
        "sums_are_too_large",
        "Scores of extenders do not wrap around",
        with_extenders,
        "_sums",
        "sums[name] = (sums[name] + score + _INT64_MIN_ABS) % (2 * _INT64_MIN_ABS) - "
        "_INT64_MIN_ABS",
        "sums[name] = sums[name] + score",
        runs="filter_extender",
        seed=4,
    ),
    PlantedBug(
        "listers_by_any_name",
        "A lister is looked for by the name that a plugin says",
        ReadOnlyHandle,
        "lister",
        "return self.listers.lister(kind_named(kind).name)",
        "return self.listers.lister(kind)",
        runs="handle",
        seed=0,
    ),
    PlantedBug(
        "lost_version_is_sent_again",
        "A version that the server has lost is sent again",
        Reflector,
        "ask",
        "if self.replica.version and not self._is_version_lost:",
        "if self.replica.version:",
        runs="watching",
        seed=0,
    ),
    PlantedBug(
        "rows_of_any_code",
        "All nodes have the code that PreFilter has not",
        Diagnosis,
        "rows_of",
        "return rows if self.pre_filter.code is code else rows[:0]",
        "return rows",
        runs="views",
        seed=0,
    ),
    PlantedBug(
        "batch_ends_with_evictions",
        "A batch that ends does not wait for its evictions",
        Scheduler,
        "schedule_batch",
        "        if self._waits_for_evictions:\n"
        "            await self._preemptions_end()\n"
        "        if self._clock.monotonic_s() >= ends_s:\n"
        "            break",
        "        if self._clock.monotonic_s() >= ends_s:\n"
        "            break\n"
        "        if self._waits_for_evictions:\n"
        "            await self._preemptions_end()",
        runs="turns",
        seed=0,
    ),
    PlantedBug(
        "nominated_rejection_is_lost",
        "The status of the nominated node is forgotten",
        filtering,
        "try_nominated",
        "        attempt.extra[row] = status\n        framework",
        "        framework",
        runs="sampled",
        seed=2,
    ),
    PlantedBug(
        "ties_are_batched",
        "Pods are batched although the profile breaks ties by itself",
        profiles,
        "_batch_pods",
        "if can_batch(plugins) and framework.tie_break is None:",
        "if can_batch(plugins):",
        runs="batched",
        seed=0,
    ),
    PlantedBug(
        "unresolvable_does_not_override",
        "A node that is both rejected and unresolvable is rejected",
        with_extenders,
        "_rejections",
        "if name in sent:",
        "if name not in statuses:",
        runs="filter_extender",
        seed=1,
    ),
    PlantedBug(
        "nodes_that_pre_filter_left_out",
        "A preemption looks at nodes that PreFilter has left out",
        evaluate,
        "filter_nodes_without_victims",
        "        if pre_filtered.node_names is None or name in pre_filtered.node_names\n    ]",
        "    ]",
        runs="points",
        seed=3,
    ),
    PlantedBug(
        "pages_are_not_accepted",
        "The pages of a list do not count as accepted",
        Informer,
        "_list",
        "            self._reflector.accepted()\n            listing.add_page(page)",
        "            listing.add_page(page)",
        runs="watching",
        seed=103,
    ),
    PlantedBug(
        "idle_once",
        "The time limit between chunks applies once",
        http,
        "_chunks",
        "            idle.begin()\n    except",
        "    except",
        runs="proxied",
        seed=0,
    ),
    PlantedBug(
        "violations_are_not_sent",
        "Extenders get no violations of budgets",
        HTTPExtender,
        "preempt",
        "tuple(victim.uid for victim in candidate.victims), candidate.violations",
        "tuple(victim.uid for victim in candidate.victims), 0",
        runs="preempt_extender",
        seed=4,
    ),
    PlantedBug(
        "every_error_is_retried",
        "An eviction is retried after any error",
        Evictor,
        "_write_with_retry",
        "if isinstance(error, retried):",
        "if isinstance(error, SchedulerError):",
        runs="errors",
        seed=0,
    ),
    PlantedBug(
        "backoff_is_popped_early",
        "SchedulerPopFromBackoffQ cannot be turned off",
        parts,
        "_queue_options",
        'gates.get("SchedulerPopFromBackoffQ", True)',
        "True",
        runs="wiring",
        seed=12,
    ),
    PlantedBug(
        "kinds_of_gates_are_optional",
        "A scheduler does not wait for the kind of a gate that is on",
        SchedulerParts,
        "_informer",
        'kind_named(kind).group == "resource.k8s.io" and kind not in GATED_KINDS',
        'kind_named(kind).group == "resource.k8s.io"',
        runs="wiring",
        seed=11,
    ),
    PlantedBug(
        "waits_for_objects_are_drained",
        "The end waits for bindings that wait for an object",
        SchedulerParts,
        "__init__",
        "    self.handle.while_waiting = self.bindings.waiting_for_object\n",
        "",
        runs="wiring",
        seed=0,
    ),
    PlantedBug(
        "resources_are_not_exposed",
        "The metrics of resources have no pods",
        SchedulerParts,
        "_connect_metrics",
        "    metrics.set_pods(lambda: self._pods.values())",
        "",
        runs="wiring",
        seed=5,
    ),
    PlantedBug(
        "reached_server_is_out_of_reach",
        "That the server can be reached again is forgotten",
        InformerHealth,
        "_check_reachable",
        '        self._unreachable_since_s = None\n        fields = {"after_s"',
        '        fields = {"after_s"',
        runs="health",
        seed=0,
    ),
    PlantedBug(
        "fresh_kinds_are_listed",
        "A kind that is fresh counts as one that cannot be listed",
        informer_health,
        "wait_until_fresh",
        "        await informer.wait_until_fresh(since_s)\n"
        "        stale.discard(informer.kind.name)",
        "        await informer.wait_until_fresh(since_s)",
        runs="health",
        seed=0,
    ),
    PlantedBug(
        "uncleared_nomination_is_evicted",
        "A nomination that could not be cleared counts as evicted",
        PreemptionExecutor,
        "_clear_lower_priority_nominations",
        "                is_evicted = False\n"
        "                _log.warning(\n"
        '                    "clearing',
        '                _log.warning(\n                    "clearing',
        runs="preemption",
        seed=5,
    ),
    PlantedBug(
        "retired_pool_keeps_new_connections",
        "A retired pool keeps the connections that become idle",
        Http1Pool,
        "retire",
        "    self._is_retired = True\n    while self._idle:",
        "    while self._idle:",
        runs="pool",
        seed=4,
    ),
    PlantedBug(
        "carriage_return_is_no_break",
        "A carriage return in a request is no line break",
        http1_pool,
        "_has_line_break",
        '    return "\\n" in text or "\\r" in text or "\\0" in text',
        '    return "\\n" in text or "\\0" in text',
        runs="pool",
        seed=0,
    ),
    PlantedBug(
        "step_of_reading_is_not_named",
        "An error of a read after a conflict names the step before",
        Reservation,
        "_newest",
        '    self._step = "get updated claim"\n    try:',
        "    try:",
        runs="reservation",
        seed=0,
    ),
    PlantedBug(
        "urgent_value_is_not_urgent",
        "A value that becomes urgent is ready, but not before others",
        WriteQueue,
        "put",
        "        item.is_urgent = True\n        self._make_ready",
        "        self._make_ready",
        runs="writes",
        seed=27,
    ),
    PlantedBug(
        "falsy_values_are_empty_texts",
        "A value of another type that is false counts as an empty text",
        _Entry,
        "text",
        "    value = self.values.get(word)\n    if value is None:",
        "    value = self.values.get(word)\n    if not value:",
        runs="access",
        seed=0,
    ),
    PlantedBug(
        "skipped_is_silent",
        "A terminating pod that is skipped gets no event",
        Scheduler,
        "_should_skip",
        "        self._reporting.skipped(pod)\n        return True",
        "        return True",
        runs="turns",
        seed=0,
    ),
    PlantedBug(
        "current_context_comes_first",
        "The current context takes precedence over the one that is asked for",
        kubeconfig,
        "read_kubeconfig",
        "    name = context or merged.current",
        "    name = merged.current or context",
        runs="access",
        seed=0,
    ),
    PlantedBug(
        "new_certificate_is_not_used",
        "A certificate that is replaced does not lead to new connections",
        Credentials,
        "_load",
        '        raise Unreachable(f"the client certificate {error}") from error\n'
        "    self.generation += 1",
        '        raise Unreachable(f"the client certificate {error}") from error',
        runs="credentials",
        seed=5,
    ),
    PlantedBug(
        "gzip_is_no_coding",
        "An answer of an extender may be compressed",
        HttpExtenderTransport,
        "__call__",
        '    if coding != "identity":',
        '    if coding not in ("identity", "gzip"):',
        runs="calls",
        seed=0,
    ),
    PlantedBug(
        "no_time_of_prebind",
        "PreBind without plugins is not recorded",
        BindingCycle,
        "_bind",
        '        framework.recorder.succeeded["PreBind"](0.0)',
        "        pass",
        runs="cycle",
        seed=3,
    ),
    PlantedBug(
        "extender_outlives_lease",
        "A bind call of an extender may outlive the lease",
        HTTPExtender,
        "bind",
        "    limit_s = min(self._client.pass_fence(), self._timeout_s)\n"
        "    body = wire.binding_args",
        "    self._client.pass_fence()\n"
        "    limit_s = self._timeout_s\n"
        "    body = wire.binding_args",
        runs="calls",
        seed=0,
    ),
]
