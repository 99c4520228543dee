"""Bugs that the harness must find, planted one at a time.

Each is a bug that a scheduler had, or almost had. ``python -m tests.faults.planted.whole_runs``
plants each of them and prints the seed and the invariant that found it.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from mooring.client.informer.informer import Informer
from mooring.client.informer.reflector import Listing, Reflector
from mooring.client.informer.replica import ObjectChange, Replica
from mooring.client.rest.client import Client
from mooring.client.rest.paths import path_of
from mooring.errors import ApiError, Gone, OutcomeUnknown, ServerError, Unreachable
from mooring.framework import Cycle, NodeView
from mooring.framework.node_info import NodeInfo
from mooring.objects.kinds import kind_named
from mooring.plugins.default_preemption import dry_run
from mooring.plugins.default_preemption import plugin as preemption_plugin
from mooring.queue import InFlightAttempt, SchedulingQueue
from mooring.queue.in_flight import InFlight
from mooring.scheduler import plugin_handle as handle_module
from mooring.scheduler.bind_pod import bind_pod
from mooring.scheduler.binding_cycle import BindingCycle
from mooring.scheduler.binding_tasks import BindingTasks
from mooring.scheduler.event_handlers import EventHandlers
from mooring.scheduler.evictor import Evictor
from mooring.scheduler.status_writer import StatusWriter
from mooring.state import PodInfo
from mooring.state.cache import Cache
from tests.faults.harness.faults import Faults
from tests.faults.harness.scenario import Scenario, run_scenario
from tests.faults.harness.swarm import scenario_of
from tests.faults.harness.trace import InvariantBroken
from tests.faults.planted.whole_runs_requests import REQUEST_MUTATIONS
from tests.faults.planted.whole_runs_topology import TOPOLOGY_MUTATIONS

Patch = pytest.MonkeyPatch

#: Maximum number of seeds per bug.
SEEDS = 200


def drop_done(patch: Patch) -> None:
    """Does not end an attempt that was detached for its binding (#138316, #126962)."""
    patch.setattr(InFlightAttempt, "done", lambda self: None)


def skip_uid(patch: Patch) -> None:
    """Omits the pod's UID from the binding."""

    async def bind(self: Client, pod: Any, node_name: str) -> None:
        name, namespace = pod.metadata.name, pod.metadata.namespace
        target = {"kind": "Node", "name": node_name}
        binding = {"metadata": {"name": name, "namespace": namespace}, "target": target}
        path = path_of(kind_named("Pod"), namespace, name, "binding")
        await self.write("POST", path, msgspec.json.encode(binding))

    patch.setattr(Client, "bind", bind)


def forget_on_unknown(patch: Patch) -> None:
    """Treats an unknown outcome of a binding as a failure (upstream's handleBindingCycleError)."""

    async def bind_pod(client: Client, pod: Any, node_name: str, **_: Any) -> None:
        try:
            await client.bind(pod, node_name)
        except OutcomeUnknown as error:
            raise Unreachable(str(error)) from error

    patch.setattr(handle_module, "bind_pod", bind_pod)


def trust_on_unknown(patch: Patch) -> None:
    """Treats an unknown outcome of a binding as a success."""

    async def bind_pod(client: Client, pod: Any, node_name: str, **_: Any) -> None:
        with suppress(OutcomeUnknown):
            await client.bind(pod, node_name)

    patch.setattr(handle_module, "bind_pod", bind_pod)


def count_one_less(patch: Patch) -> None:
    """Allows one pod too many on each node."""

    def less(of: type) -> property:
        count = vars(of)["pod_count"].fget
        return property(lambda self: count(self) - 1)

    for view in (NodeView, NodeInfo):
        patch.setattr(view, "pod_count", less(view))


def assume_nothing(patch: Patch) -> None:
    """Ignores assumed pods until the API server has them."""
    assume = Cache.assume

    def assume_and_forget(self: Cache, info: Any, node_name: str) -> Any:
        reservation = assume(self, info, node_name)
        self.forget(info.uid)
        return reservation

    patch.setattr(Cache, "assume", assume_and_forget)


def ignore_gone(patch: Patch) -> None:
    """Resumes a watch at the same resourceVersion after a 410."""
    ended = Reflector.ended

    def ended_by_nothing(self: Reflector, error: Any = None) -> float:
        return ended(self, Unreachable(str(error)) if isinstance(error, Gone) else error)

    patch.setattr(Reflector, "ended", ended_by_nothing)


def skip_after_gone(patch: Patch) -> None:
    """Resumes a watch at the newest resourceVersion after a 410, without a list."""

    def ended_by_forgetting(self: Reflector, error: Any = None) -> float:
        if isinstance(error, Gone):
            self.replica.version = ""
        return ended(self, Unreachable(str(error)) if isinstance(error, Gone) else error)

    ended = Reflector.ended
    patch.setattr(Reflector, "ended", ended_by_forgetting)


def keep_the_missing(patch: Patch) -> None:
    """Ignores deletions that a new list shows (#55587, #51313, #69926)."""
    replacing = Replica.replacing

    def without_deletes(self: Replica, listed: Any, unreadable: Any, version: str) -> Any:
        return replacing(self, {**self.objects, **listed}, unreadable, version)

    patch.setattr(Replica, "replacing", without_deletes)


def apply_old_events(patch: Patch) -> None:
    """Applies repeated events."""
    patch.setattr(Replica, "_is_known", lambda self, version, number: False)


def mistake_the_new_pod(patch: Patch) -> None:
    """Treats a recreated pod as an update of the old one (#106545)."""

    def take(self: Replica, key: str, new: Any) -> bool:
        old = self.objects.get(key)
        self.objects[key] = new
        self._on_change(ObjectChange(old, new))
        return True

    patch.setattr(Replica, "_store", take)


def move_pods_too_early(patch: Patch) -> None:
    """Moves pods in the queue before the cache has the new node (#88389)."""
    put_node = Cache.put_node

    def later(self: Cache, node: Any) -> None:
        asyncio.get_running_loop().call_later(0.01, put_node, self, node)

    patch.setattr(Cache, "put_node", later)


def hold_the_deleted(patch: Patch) -> None:
    """Does not release the resources of a pod that is deleted while it is assumed."""
    patch.setattr(EventHandlers, "_release_assumed", lambda self, uid: None)


def keep_what_failed(patch: Patch) -> None:
    """Does not release the resources of a failed binding."""
    patch.setattr(Cache, "forget", lambda self, uid: None)


def lose_what_failed(patch: Patch) -> None:
    """Does not requeue a pod whose binding failed (#139186)."""

    def handle(self: BindingCycle, binding_ctx: Any, reason: Any) -> None:
        handle_failure(self, binding_ctx, reason)
        self._queue.delete(binding_ctx.cycle.pod.uid)

    handle_failure = BindingCycle._handle_binding_failure
    patch.setattr(BindingCycle, "_handle_binding_failure", handle)


def miss_events_in_flight(patch: Patch) -> None:
    """Drops the events during an attempt (#120413)."""
    patch.setattr(InFlight, "record", lambda self, event, old, new: None)


def ignore_events(patch: Patch) -> None:
    """Requeues unschedulable pods only by the flush after five minutes."""
    patch.setattr(SchedulingQueue, "move", lambda self, event, old, new, *, only=None: None)


def queue_the_bound(patch: Patch) -> None:
    """Leaves a pod that another scheduler bound in the queue."""

    def assigned(self: EventHandlers, old: Any, new: Any) -> None:
        queue, self._queue = self._queue, _DeafQueue(self._queue)  # type: ignore[assignment]
        try:
            on_assigned(self, old, new)
        finally:
            self._queue = queue

    on_assigned = EventHandlers._on_assigned
    patch.setattr(EventHandlers, "_on_assigned", assigned)


class _DeafQueue:
    """A queue from which nothing can be deleted."""

    def __init__(self, queue: SchedulingQueue) -> None:
        self._queue = queue

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def delete(self, uid: str) -> None:
        pass


def skip_unreserve(patch: Patch) -> None:
    """Skips Unreserve after a failed binding."""

    def unreserve(self: Any, *_: Any) -> None:
        pass

    from mooring.framework.runtime import bind as binding

    patch.setattr(binding, "unreserve", unreserve)


def ignore_retry_after(patch: Patch) -> None:
    """Ignores Retry-After."""
    from mooring.client.rest import responses

    patch.setattr(responses, "retry_after_s", lambda answer: 0.5)


def ignore_nodes_that_go(patch: Patch) -> None:
    """Leaves deleted nodes in the cache."""
    patch.setattr(Cache, "remove_node", lambda self, name: None)


def stop_at_a_break(patch: Patch) -> None:
    """Does not resume a watch that broke."""
    run = Informer._stream

    async def stream_once(self: Informer, ask: Any) -> None:
        await run(self, ask)
        if self.has_synced:
            await asyncio.sleep(3600)

    patch.setattr(Informer, "_stream", stream_once)


def read_half_a_list(patch: Patch) -> None:
    """Treats an incomplete list as complete."""
    ended = Reflector.ended

    def ended_whole(self: Reflector, error: Any = None) -> float:
        listing = self._listing
        if isinstance(listing, Listing) and listing.objects:
            for _ in self.listed(listing, max(_versions(listing.objects), key=int)):
                pass
        return ended(self, error)

    patch.setattr(Reflector, "ended", ended_whole)


def _versions(objects: Mapping[str, Any]) -> list[str]:
    return [obj.metadata.resource_version for obj in objects.values()]


def never_stop_pausing(patch: Patch) -> None:
    """Pauses decisions for ever after the server was unreachable."""
    patch.setattr(BindingTasks, "record_success", lambda self: None)
    patch.setattr(BindingTasks, "record_unreachable", lambda self: setattr(self, "_pause_s", 600.0))


def evict_more_than_needed(patch: Patch) -> None:
    """Evicts all pods of a lower priority, without reprieve."""
    patch.setattr(dry_run, "_reprieve", lambda *_: None)


def evict_the_protected(patch: Patch) -> None:
    """Ignores PodDisruptionBudgets."""
    patch.setattr(
        dry_run, "_violates_budget", lambda _, slots, __: np.zeros(len(slots), dtype=np.bool_)
    )


def evict_equals(patch: Patch) -> None:
    """Evicts pods of the same priority."""
    sort_victims = dry_run._sort_victims

    def with_equals(cycle: Any, rows: Any, counts: Any) -> Any:
        pod = cycle.pod.pod
        higher = replace(pod, spec=replace(pod.spec, priority=(pod.spec.priority or 0) + 1))
        other = Cycle(PodInfo(higher), cycle.snapshot, cycle.profile, cycle.framework)
        return sort_victims(other, rows, counts)

    patch.setattr(dry_run, "_sort_victims", with_equals)


def leave_the_evicted(patch: Patch) -> None:
    """Drops evictions, so that the preemptor waits for ever."""
    patch.setattr(Evictor, "evict", lambda *_: asyncio.sleep(0, True))


def evict_again(patch: Patch) -> None:
    """Looks for victims again until the nomination is in the pod's status."""
    ineligible_reason = preemption_plugin._ineligible_reason

    def reason(cycle: Cycle, diagnosis: Any) -> str:
        nominated = cycle.pod.status.nominated_node_name
        return ineligible_reason(cycle, diagnosis) if nominated else ""

    patch.setattr(preemption_plugin, "_ineligible_reason", reason)


def drop_refused_status(patch: Patch) -> None:
    """Drops the condition of a pod after any refusal, such as a conflict."""

    async def is_deleted(self: StatusWriter, pod: Any, error: Exception) -> bool:
        return isinstance(error, ApiError)

    patch.setattr(StatusWriter, "_is_pointless", is_deleted)


def retry_broken_bindings(patch: Patch) -> None:
    """Sends a binding again for ever that the server fails, while it holds its resources."""

    async def bind(client: Client, pod: Any, node_name: str, **options: Any) -> None:
        while True:
            try:
                return await bind_pod(client, pod, node_name, **options)
            except ServerError:
                await asyncio.sleep(5.0)

    patch.setattr(handle_module, "bind_pod", bind)


MUTATIONS: list[Callable[[Patch], None]] = [
    drop_done,
    skip_uid,
    forget_on_unknown,
    trust_on_unknown,
    count_one_less,
    assume_nothing,
    ignore_gone,
    skip_after_gone,
    keep_the_missing,
    apply_old_events,
    mistake_the_new_pod,
    move_pods_too_early,
    hold_the_deleted,
    keep_what_failed,
    lose_what_failed,
    miss_events_in_flight,
    ignore_events,
    queue_the_bound,
    skip_unreserve,
    ignore_retry_after,
    ignore_nodes_that_go,
    stop_at_a_break,
    read_half_a_list,
    never_stop_pausing,
    evict_more_than_needed,
    evict_the_protected,
    evict_equals,
    leave_the_evicted,
    evict_again,
    drop_refused_status,
    retry_broken_bindings,
]


#: These need clusters with many preemptions.
CROWDED = (
    evict_more_than_needed,
    evict_the_protected,
    evict_equals,
    leave_the_evicted,
    evict_again,
)
CROWD: dict[str, Any] = {"nodes": 4, "n_safe": 2, "pods": 45, "has_broken_pods": False}


#: This one needs refusals of nominations, too.
REFUSED: dict[str, Any] = {**CROWD, "faults": Faults(refused_status=0.3)}

#: This one needs lists that break off.
BROKEN_LISTS: dict[str, Any] = {"faults": Faults(cut=0.3, expired=0.2)}


#: These run in the scenarios of ``scenario_of``, as the test of seeds.
SWARM_MUTATIONS = [*TOPOLOGY_MUTATIONS, *REQUEST_MUTATIONS]


class Caught(NamedTuple):
    """The seed that found a bug, and the violation."""

    seed: int
    how: str


def hunt(mutation: Callable[[Patch], None], seeds: range) -> Caught | None:
    """Returns the first seed that finds a bug; None if none does."""
    with Patch.context() as patch:
        mutation(patch)
        for seed in seeds:
            try:
                run_scenario(_scenario(mutation, seed))
            except InvariantBroken as error:
                return Caught(seed, str(error))
            except Exception as error:  # noqa: BLE001 - the scheduler may detect the bug itself
                return Caught(seed, f"{type(error).__name__}: {error}")
            finally:
                # Collects cancelled tasks now, and not in another test.
                gc.collect()
    return None


def _scenario(mutation: Callable[[Patch], None], seed: int) -> Scenario:
    if mutation in SWARM_MUTATIONS:
        return scenario_of(seed)
    return Scenario(seed, **_options(mutation))


def _options(mutation: Callable[[Patch], None]) -> dict[str, Any]:
    """Returns the parameters of the scenarios that show a bug."""
    if mutation is drop_refused_status:
        return REFUSED
    if mutation is read_half_a_list:
        return BROKEN_LISTS
    return CROWD if mutation in CROWDED else {}


def main() -> int:
    """Plants each bug; returns 1 if one is not found."""
    missed = 0
    for mutation in (*MUTATIONS, *SWARM_MUTATIONS):
        if len(sys.argv) > 1 and mutation.__name__ not in sys.argv[1:]:
            continue
        caught = hunt(mutation, range(SEEDS))
        missed += caught is None
        message = f"seed {caught.seed}: {caught.how[:150]}" if caught else "NOT FOUND"
        print(f"{mutation.__name__:24} {message}", flush=True)
    return min(missed, 1)


if __name__ == "__main__":
    import logging

    logging.disable(logging.CRITICAL)
    sys.exit(main())
