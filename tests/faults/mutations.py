"""Bugs, planted one at a time: a harness that does not find them finds nothing.

Each is one that a scheduler has really had, or nearly had. ``python -m tests.faults.mutations``
plants every one of them and says which seed found it, and by which invariant.
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
from mooring.client.informer.replica import Replica
from mooring.client.rest.client import Client
from mooring.client.rest.paths import path_of
from mooring.errors import Gone, OutcomeUnknown, Unreachable
from mooring.framework import Cycle, NodeView
from mooring.framework.node_info import NodeInfo
from mooring.objects.kinds import kind_named
from mooring.plugins.default_preemption import dry_run
from mooring.queue import InFlightAttempt, SchedulingQueue
from mooring.queue.in_flight import InFlight
from mooring.scheduler import plugin_handle as handle_module
from mooring.scheduler.binding_cycle import BindingCycle
from mooring.scheduler.binding_tasks import BindingTasks
from mooring.scheduler.event_handlers import EventHandlers
from mooring.scheduler.evictor import Evictor
from mooring.state import PodInfo
from mooring.state.cache import Cache
from tests.faults.harness.scenario import Scenario, run_scenario
from tests.faults.harness.trace import InvariantBroken

Patch = pytest.MonkeyPatch

#: How many seeds a bug may hide from.
SEEDS = 200


def drop_done(patch: Patch) -> None:
    """An attempt that was handed over to its binding is never ended (#138316, #126962)."""
    patch.setattr(InFlightAttempt, "done", lambda self: None)


def skip_uid(patch: Patch) -> None:
    """The binding does not say which pod of this name it is for."""

    async def bind(self: Client, pod: Any, node_name: str) -> None:
        name, namespace = pod.metadata.name, pod.metadata.namespace
        target = {"kind": "Node", "name": node_name}
        binding = {"metadata": {"name": name, "namespace": namespace}, "target": target}
        path = path_of(kind_named("Pod"), namespace, name, "binding")
        await self.write("POST", path, msgspec.json.encode(binding))

    patch.setattr(Client, "bind", bind)


def forget_on_unknown(patch: Patch) -> None:
    """A binding that was not answered counts as failed (upstream's handleBindingCycleError)."""

    async def bind_pod(client: Client, pod: Any, node_name: str, **_: Any) -> None:
        try:
            await client.bind(pod, node_name)
        except OutcomeUnknown as error:
            raise Unreachable(str(error)) from error

    patch.setattr(handle_module, "bind_pod", bind_pod)


def trust_on_unknown(patch: Patch) -> None:
    """A binding that was not answered counts as done."""

    async def bind_pod(client: Client, pod: Any, node_name: str, **_: Any) -> None:
        with suppress(OutcomeUnknown):
            await client.bind(pod, node_name)

    patch.setattr(handle_module, "bind_pod", bind_pod)


def count_one_less(patch: Patch) -> None:
    """A node takes one pod more than it may."""

    def less(of: type) -> property:
        count = vars(of)["pod_count"].fget
        return property(lambda self: count(self) - 1)

    for seen in (NodeView, NodeInfo):
        patch.setattr(seen, "pod_count", less(seen))


def assume_nothing(patch: Patch) -> None:
    """What is being bound does not count until the API server says so."""
    assume = Cache.assume

    def assume_and_forget(self: Cache, info: Any, node_name: str) -> Any:
        reservation = assume(self, info, node_name)
        self.forget(info.uid)
        return reservation

    patch.setattr(Cache, "assume", assume_and_forget)


def ignore_gone(patch: Patch) -> None:
    """After a 410 the watch begins again where it was."""
    ended = Reflector.ended

    def ended_by_nothing(self: Reflector, error: Any = None) -> float:
        return ended(self, Unreachable(str(error)) if isinstance(error, Gone) else error)

    patch.setattr(Reflector, "ended", ended_by_nothing)


def skip_after_gone(patch: Patch) -> None:
    """After a 410 the watch begins again with what comes now; what was missed is missed."""

    def ended_by_forgetting(self: Reflector, error: Any = None) -> float:
        if isinstance(error, Gone):
            self.replica.version = ""
        return ended(self, Unreachable(str(error)) if isinstance(error, Gone) else error)

    ended = Reflector.ended
    patch.setattr(Reflector, "ended", ended_by_forgetting)


def keep_the_missing(patch: Patch) -> None:
    """A new list does not tell of what is gone since the old one (#55587, #51313, #69926)."""
    replacing = Replica.replacing

    def without_deletes(self: Replica, listed: Any, unreadable: Any, version: str) -> Any:
        return replacing(self, {**self.objects, **listed}, unreadable, version)

    patch.setattr(Replica, "replacing", without_deletes)


def believe_old_news(patch: Patch) -> None:
    """An event that was seen before is taken in again."""
    patch.setattr(Replica, "_is_known", lambda self, version, number: False)


def mistake_the_new_pod(patch: Patch) -> None:
    """A pod made anew under its name is taken for the old one, changed (#106545)."""

    def take(self: Replica, key: str, new: Any) -> bool:
        old = self.objects.get(key)
        self.objects[key] = new
        self._on_change(change(old, new))
        return True

    from mooring.client.informer.replica import Change as change  # noqa: N813 - called as a function

    patch.setattr(Replica, "_store", take)


def tell_the_queue_first(patch: Patch) -> None:
    """The queue hears of nodes before the cache has them (#88389)."""
    put_node = Cache.put_node

    def later(self: Cache, node: Any) -> None:
        asyncio.get_running_loop().call_later(0.01, put_node, self, node)

    patch.setattr(Cache, "put_node", later)


def hold_the_deleted(patch: Patch) -> None:
    """A pod that is deleted on its way to a node keeps what it holds there."""
    patch.setattr(EventHandlers, "_release_assumed", lambda self, uid: None)


def keep_what_failed(patch: Patch) -> None:
    """What a failed binding held is never given back."""
    patch.setattr(Cache, "forget", lambda self, uid: None)


def lose_what_failed(patch: Patch) -> None:
    """A pod whose binding failed is not queued again (#139186)."""

    def give_back(self: BindingCycle, held: Any, refusal: Any) -> None:
        give_back_all(self, held, refusal)
        self._queue.delete(held.cycle.pod.uid)

    give_back_all = BindingCycle._handle_binding_failure
    patch.setattr(BindingCycle, "_handle_binding_failure", give_back)


def miss_events_in_flight(patch: Patch) -> None:
    """What happens during an attempt wakes nobody (#120413)."""
    patch.setattr(InFlight, "record", lambda self, event, old, new: None)


def wake_nobody(patch: Patch) -> None:
    """No event moves parked pods; only the flush after five minutes does."""
    patch.setattr(SchedulingQueue, "move", lambda self, event, old, new, *, only=None: None)


def queue_the_bound(patch: Patch) -> None:
    """A pod that somebody else bound stays in the queue."""

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
    """Plugins do not hear that a binding failed."""

    def unreserve(self: Any, *_: Any) -> None:
        pass

    from mooring.framework.runtime import bind as binding

    patch.setattr(binding, "unreserve", unreserve)


def come_too_early(patch: Patch) -> None:
    """What Retry-After asks for is not done."""
    from mooring.client.rest import responses

    patch.setattr(responses, "retry_after_s", lambda answer: 0.5)


def ignore_nodes_that_go(patch: Patch) -> None:
    """Nodes that are deleted stay in the cache."""
    patch.setattr(Cache, "remove_node", lambda self, name: None)


def stop_at_a_break(patch: Patch) -> None:
    """A watch that broke in the middle of a line is never taken up again."""
    run = Informer._stream

    async def stream_once(self: Informer, ask: Any) -> None:
        await run(self, ask)
        if self.has_synced:
            await asyncio.sleep(3600)

    patch.setattr(Informer, "_stream", stream_once)


def read_half_a_list(patch: Patch) -> None:
    """A list that broke off counts as whole."""
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
    """After a server was away, decisions pause for ever."""
    patch.setattr(BindingTasks, "record_success", lambda self: None)
    patch.setattr(BindingTasks, "record_unreachable", lambda self: setattr(self, "_pause_s", 600.0))


def evict_more_than_needed(patch: Patch) -> None:
    """All pods of a lower priority leave, also those that could stay."""
    patch.setattr(dry_run, "_reprieve", lambda *_: None)


def evict_the_protected(patch: Patch) -> None:
    """Budgets mean nothing."""
    patch.setattr(
        dry_run, "_violates_budget", lambda _, slots, __: np.zeros(len(slots), dtype=np.bool_)
    )


def evict_equals(patch: Patch) -> None:
    """Pods of the same priority make room for each other."""
    line_up = dry_run._sort_victims

    def with_equals(cycle: Any, rows: Any, counts: Any) -> Any:
        pod = cycle.pod.pod
        higher = replace(pod, spec=replace(pod.spec, priority=(pod.spec.priority or 0) + 1))
        twin = Cycle(PodInfo(higher), cycle.snapshot, cycle.profile, cycle.framework)
        return line_up(twin, rows, counts)

    patch.setattr(dry_run, "_sort_victims", with_equals)


def leave_the_evicted(patch: Patch) -> None:
    """Whoever is to leave is forgotten, and the pod waits for ever."""
    patch.setattr(Evictor, "evict", lambda *_: asyncio.sleep(0, True))


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
    believe_old_news,
    mistake_the_new_pod,
    tell_the_queue_first,
    hold_the_deleted,
    keep_what_failed,
    lose_what_failed,
    miss_events_in_flight,
    wake_nobody,
    queue_the_bound,
    skip_unreserve,
    come_too_early,
    ignore_nodes_that_go,
    stop_at_a_break,
    read_half_a_list,
    never_stop_pausing,
    evict_more_than_needed,
    evict_the_protected,
    evict_equals,
    leave_the_evicted,
]


#: These show where pods make room for others all the time.
CROWDED = (evict_more_than_needed, evict_the_protected, evict_equals, leave_the_evicted)
CROWD: dict[str, Any] = {"nodes": 4, "n_safe": 2, "pods": 45}


class Caught(NamedTuple):
    """A bug was found: by the run of this seed, and how."""

    seed: int
    how: str


def hunt(mutation: Callable[[Patch], None], seeds: range) -> Caught | None:
    """The first seed that finds a bug; None if none of them does."""
    with Patch.context() as patch:
        mutation(patch)
        for seed in seeds:
            try:
                run_scenario(Scenario(seed, **(CROWD if mutation in CROWDED else {})))
            except InvariantBroken as found:
                return Caught(seed, str(found))
            except Exception as found:  # noqa: BLE001 - the scheduler itself may have noticed
                return Caught(seed, f"{type(found).__name__}: {found}")
            finally:
                # What was broken off in the middle goes now, and not in somebody else's test.
                gc.collect()
    return None


def main() -> int:
    """Plant each; 1 if one is not found."""
    missed = 0
    for mutation in MUTATIONS:
        if len(sys.argv) > 1 and mutation.__name__ not in sys.argv[1:]:
            continue
        caught = hunt(mutation, range(SEEDS))
        missed += caught is None
        told = f"seed {caught.seed}: {caught.how[:150]}" if caught else "NOT FOUND"
        print(f"{mutation.__name__:24} {told}", flush=True)
    return min(missed, 1)


if __name__ == "__main__":
    import logging

    logging.disable(logging.CRITICAL)
    sys.exit(main())
