"""Bugs at lines of the running parts and of the framework that a seed drew."""

from __future__ import annotations

from typing import Final

from mooring.client.informer.informer import Informer
from mooring.client.informer.reflector import Reflector
from mooring.client.transport import http, kubeconfig
from mooring.extenders import wire
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
from mooring.scheduler import parts, profiles
from mooring.scheduler.binding_tasks import BindingTasks
from mooring.scheduler.debugger.audit import CacheAudit
from mooring.scheduler.evictor import Evictor
from mooring.scheduler.parts import SchedulerParts
from mooring.scheduler.read_only_handle import ReadOnlyHandle
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
        seed=0,
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
        seed=16,
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
]
