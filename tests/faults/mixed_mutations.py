"""Sixteen bugs in functions that had none, from each package, written before any was run.

Two of them are in what nodes with equal amounts share. The table in docs/concepts/faults.md has
the result.
"""

from __future__ import annotations

from typing import Final

from mooring.client.event_recorder import Recorder
from mooring.client.leader_election import Elector
from mooring.extenders.full_objects import FullObjectCache
from mooring.framework import equal_nodes
from mooring.framework.runtime import with_extenders
from mooring.framework.runtime.result_cache import CachedResults
from mooring.plugins.default_preemption import dry_run
from mooring.plugins.dynamic_resources.extended_resources import _OfResource
from mooring.plugins.volume_binding import bind_volumes
from mooring.queue.queues import PodQueues
from mooring.queue.unschedulable_pods import UnschedulablePods
from mooring.scheduler.binding_tasks import BindingTasks
from mooring.scheduler.resource_claims.removal import Removal
from mooring.state.devices.claims import Claims
from mooring.state.volumes.capacity import _ByValue
from mooring.state.volumes.usage import VolumeUse
from tests.faults.planted import PlantedBug

MIXED_BUGS: Final = [
    PlantedBug(
        "first_attempt_at_each_move",
        "The time of a pod's first attempt is that of its last move to the active queue",
        PodQueues,
        "move_to_active",
        "if entry.initial_attempt_s is None:",
        "if True:",
    ),
    PlantedBug(
        "one_pure_is_enough",
        "Pods share the answer of hints of which only some are pure",
        UnschedulablePods,
        "_pods_requeued_by",
        "is_pure = all(",
        "is_pure = any(",
    ),
    PlantedBug(
        "problem_is_reused",
        "What cannot be counted of a pod is no longer counted once it is placed",
        VolumeUse,
        "_cached_result",
        "if last is None or last[1].problem is not None:",
        "if last is None:",
        "volume",
    ),
    PlantedBug(
        "largest_capacity_stays",
        "A capacity that is removed stays the largest of its label value while there are others",
        _ByValue,
        "remove",
        "            del self._limits[value]\n        self._update_value(value)",
        "            del self._limits[value]\n            self._update_value(value)",
        "volume",
    ),
    PlantedBug(
        "assumed_is_reported",
        "The version of a claim that is assumed counts as reported",
        Claims,
        "assume",
        "entry._replace(latest=obj)",
        "_Entry(obj, obj)",
        "device",
    ),
    PlantedBug(
        "drain_waits_for_object",
        "The last binding that begins to wait for an object does not end the drain",
        BindingTasks,
        "waiting_for_object",
        "    self._changed.set()\n",
        "",
        "lease",
    ),
    PlantedBug(
        "certain_before_read",
        "A claim counts as known before it is read again, also if that fails",
        Removal,
        "write_until_known",
        "                newest = await self._read()\n                self._is_certain = True\n",
        "                self._is_certain = True\n                newest = await self._read()\n",
        "device",
    ),
    PlantedBug(
        "finish_at_refresh",
        "Series end only some time after the last refresh, and then at each check",
        Recorder,
        "_update_series",
        "if now_s - self._finished_at_s >= FINISH_S:",
        "if now_s - self._refreshed_at_s >= FINISH_S:",
    ),
    PlantedBug(
        "deleted_lease_is_free",
        "A Lease that was deleted is made anew although its holder may still lead",
        Elector,
        "_try_once",
        "    except NotFound:\n        if self._is_held_by_another(started_at_s):",
        "    except NotFound:\n        if False:",
        "lease",
    ),
    PlantedBug(
        "memory_of_equal_nodes",
        "Nodes are equal although the memory of pods without requests differs",
        equal_nodes,
        "amounts_of",
        "nonzero.item(1, row)",
        "nonzero.item(0, row)",
    ),
    PlantedBug(
        "last_change_decides",
        "First rejections are computed anew only if the last changed node has another result",
        CachedResults,
        "refresh_filters",
        "is_other |= self.results.set_code",
        "is_other = self.results.set_code",
    ),
    PlantedBug(
        "last_prioritize_draws",
        "Ties are drawn among the nodes that the last extender scored",
        with_extenders,
        "_call_prioritize",
        "is_drawn |= has_score",
        "is_drawn = has_score",
        "extender",
    ),
    PlantedBug(
        "namesake_is_sent",
        "An extender is sent the newer pod of the same name",
        FullObjectCache,
        "_known",
        "if cached is None or cached.metadata.uid != pod.uid:",
        "if cached is None:",
        "extender",
    ),
    PlantedBug(
        "usable_is_requested_again",
        "An init container requests devices that it may use from later containers",
        _OfResource,
        "_request",
        "count=requested - available",
        "count=requested",
        "device",
    ),
    PlantedBug(
        "binding_without_version",
        "The binding of a volume overwrites a change that was not seen",
        bind_volumes,
        "_patched",
        "if metadata.resource_version:",
        "if False:",
        "volume",
    ),
    PlantedBug(
        "first_sound_is_dropped",
        "The first candidate without a violation is dropped if it is the last of them",
        dry_run,
        "dry_run_preemption",
        "max(limit, first_sound + 1)",
        "max(limit, first_sound)",
        "crowd",
    ),
]
