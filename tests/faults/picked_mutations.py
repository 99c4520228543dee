"""Twenty bugs in functions that a second seed has drawn, written before any was run.

The functions are those of ``random.Random(20261128)``, two for each bug, of which one was taken:
the other only reports, or needs sockets. The table in docs/concepts/faults.md has the result.
"""

from __future__ import annotations

from typing import Final

from mooring.client.event_recorder import Recorder
from mooring.client.rest import responses
from mooring.client.write_queue import WriteQueue
from mooring.dra.requests import _Preparation
from mooring.extenders import wire
from mooring.framework.runtime import bind
from mooring.framework.runtime.opportunistic_batch import SortedNodes
from mooring.plugins.default_preemption.dry_run import DryRunResult
from mooring.plugins.dynamic_resources import binding_conditions
from mooring.plugins.pod_topology_spread.plugin import PodTopologySpread
from mooring.plugins.volume_binding import bind_volumes
from mooring.queue.backoff_queue import BackoffQueue
from mooring.queue.in_flight import InFlight
from mooring.scheduler.event_handlers import EventHandlers
from mooring.scheduler.preemption import PreemptionExecutor
from mooring.scheduler.resource_claims.reservation import Reservation
from mooring.state.devices.taint_rules import SlicesWithRules
from mooring.state.tables import pod_terms
from mooring.state.volumes.free_index.groups import Group
from mooring.state.volumes.usage import VolumeUse
from tests.faults.planted import PlantedBug

_QUEUE: Final = [
    PlantedBug(
        "number_of_attempts_in_flight",
        "The number of an attempt is that of the pods in flight",
        InFlight,
        "begin",
        "self._last_number += 1",
        "self._last_number = len(self._attempts) + 1",
    ),
    PlantedBug(
        "failed_is_refused",
        "A pod that failed with an error counts as rejected if it was rejected before",
        BackoffQueue,
        "add",
        "self._refused if entry.rejectors else self._failed",
        "self._refused if entry.rejectors or entry.unschedulable_count else self._failed",
    ),
]

_STATE: Final = [
    PlantedBug(
        "attachment_of_unknown_volume",
        "An attachment of a volume that comes later is not counted",
        VolumeUse,
        "put_attachment",
        "if obj.spec.source.persistent_volume_name is not None:",
        "if obj.spec.source.persistent_volume_name is not None and counted.volume:",
        "volume",
    ),
    PlantedBug(
        "own_namespace_as_well",
        "A term that selects namespaces by labels means the pod's own one as well",
        pod_terms,
        "_term",
        "not term.namespaces and term.namespace_selector is None",
        "not term.namespaces",
    ),
    PlantedBug(
        "last_rule_stays",
        "The removal of the last rule leaves its taints on devices",
        SlicesWithRules,
        "remove_rule",
        "if old is not None:",
        "if old is not None and self._rules:",
        "device",
    ),
    PlantedBug(
        "first_value_of_volume",
        "Of the values of a label of a new volume the first one alone counts",
        Group,
        "insert",
        "[position] * max(1, len(values)))\n    self.values[index:index] = values",
        "[position])\n    self.values[index:index] = values[:1]",
        "volume",
    ),
]

_SCHEDULER: Final = [
    PlantedBug(
        "deleted_claim_is_unanswered",
        "A claim that does not exist counts as a read without an answer",
        Reservation,
        "_seen",
        "except NotFound:\n        return True, None",
        "except NotFound:\n        return False, None",
        "device",
    ),
    PlantedBug(
        "lost_lease_after_failure",
        "A failed eviction hides that the lease was lost in another one",
        PreemptionExecutor,
        "_evict_victims",
        "    if ends:\n        raise ends[0]\n    if not all(results):\n        return False\n",
        "    if not all(results):\n        return False\n    if ends:\n        raise ends[0]\n",
        "lease",
    ),
    PlantedBug(
        "assumed_stays_in_flight",
        "A pod that is assumed stays in the queue when it is deleted",
        EventHandlers,
        "_on_pod_deleted",
        "    self._queue.delete(uid)\n    if self._cache.is_assumed(uid):\n"
        "        self._release_assumed(uid)\n        return\n",
        "    if self._cache.is_assumed(uid):\n"
        "        self._release_assumed(uid)\n        return\n    self._queue.delete(uid)\n",
    ),
]

_CLIENT: Final = [
    PlantedBug(
        "single_event_never_ends",
        "A series of one event never ends",
        Recorder,
        "_finish",
        "        del self._series[key]\n        if series.event.series is not None:\n",
        "        if series.event.series is not None:\n            del self._series[key]\n",
    ),
    PlantedBug(
        "urgent_for_ever",
        "A key that was urgent once stays urgent when its write fails",
        WriteQueue,
        "_write",
        "item.state, item.is_urgent = _State.WRITING, False",
        "item.state = _State.WRITING",
    ),
    PlantedBug(
        "wait_in_body_of_429",
        "The wait in the body of an error counts only with 429",
        responses,
        "error_of",
        "if wait_s is None:",
        "if wait_s is None and response.status == 429:",
    ),
]

_FRAMEWORK: Final = [
    PlantedBug(
        "rejected_binding_is_skipped",
        "A Bind plugin that rejects a pod leaves it to the next one",
        bind,
        "bind",
        "if result is Skip.SKIP:",
        "if result is not None:",
    ),
    PlantedBug(
        "second_of_equal_nodes",
        "Of two equal nodes of a batch the second one moves up",
        SortedNodes,
        "_sift_down",
        "totals[heap[child + 1]] > totals[heap[child]]",
        "totals[heap[child + 1]] >= totals[heap[child]]",
    ),
    PlantedBug(
        "one_violation_at_most",
        "An extender that needs whole pods gets one violation of a budget at most",
        wire,
        "victims_args",
        'b",".join(pods), violations)',
        'b",".join(pods), min(violations, 1))',
        "extender",
    ),
]

_PLUGINS: Final = [
    PlantedBug(
        "each_reason_once",
        "A reason why nodes are no candidates counts once for all of them",
        DryRunResult,
        "add_status",
        "dict.fromkeys(status.reasons, count)",
        "dict.fromkeys(status.reasons, min(count, 1))",
        "crowd",
    ),
    PlantedBug(
        "ignored_nodes_are_scored",
        "Nodes without a topology key count for the lowest and the highest score",
        PodTopologySpread,
        "normalize",
        "normalized(scores, scores[~is_ignored])",
        "normalized(scores, scores)",
    ),
    PlantedBug(
        "mixed_claim_never_times_out",
        "A claim with a device without binding conditions never times out",
        binding_conditions,
        "has_timed_out",
        "if not any(result.binding_conditions",
        "if not all(result.binding_conditions",
        "device",
    ),
    PlantedBug(
        "one_alternative_is_exact",
        "A request with one alternative counts as one without",
        _Preparation,
        "request",
        "return PreparedRequest(choices, True)",
        "return PreparedRequest(choices, len(choices) > 1)",
        "device",
    ),
    PlantedBug(
        "claim_of_same_name",
        "A volume that is reserved for a claim of the same name counts as reserved for this one",
        bind_volumes,
        "bound_volume",
        "(before.namespace, before.name, before.uid) != (\n"
        "        own.namespace,\n        own.name,\n        own.uid,\n    )",
        "(before.namespace, before.name) != (\n        own.namespace,\n        own.name,\n    )",
        "volume",
    ),
]

PICKED_BUGS: Final = [*_QUEUE, *_STATE, *_SCHEDULER, *_CLIENT, *_FRAMEWORK, *_PLUGINS]
