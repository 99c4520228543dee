"""The objects of a simulated cluster: what an API server stores, without requests.

Every listener sees a write before it returns, in the order in which the listeners were added: there
is no watch that lags behind. What a listener writes is reported after the change that it reacts to.
Indexes follow each write itself.
Objects have no resourceVersion.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Any

from msgspec.structs import replace

from mooring.client import ObjectChange
from mooring.clock import Clock, rfc3339
from mooring.errors import AlreadyExists, Conflict, NotFound
from mooring.objects.kinds import CREATED_FIRST, KINDS
from mooring.objects.meta import key
from mooring.objects.pod import FINISHED_PHASES, Pod

#: (kind, change): called for every write.
Listener = Callable[[str, ObjectChange], None]


class ObjectTable:
    """Objects by kind and key.

    Args:
        objects: The objects at the start; they are not reported.
        clock: For deletion timestamps.
    """

    def __init__(self, objects: Iterable[Any], *, clock: Clock) -> None:
        self._clock = clock
        self._tables: dict[str, dict[str, Any]] = {}
        self._listeners: list[tuple[Listener, Collection[str] | None]] = []
        #: Kind -> those of the listeners that follow it.
        self._listeners_of: dict[str, list[Listener]] = {}
        self._followers: dict[str, list[Callable[[ObjectChange], None]]] = {}
        self._is_used: dict[str, Callable[[Any], bool]] = {}
        self._unreported: deque[tuple[str, ObjectChange]] = deque()
        self._is_reporting = False
        for obj in objects:
            self.objects(type(obj).__name__)[key(obj)] = obj

    def objects(self, kind: str) -> dict[str, Any]:
        """Returns the objects of a kind by "namespace/name" or "name"; callers only read it."""
        table = self._tables.get(kind)
        if table is None:
            table = self._tables[kind] = {}
        return table

    def listed(self) -> list[tuple[str, Any]]:
        """Returns all objects with their kinds: those that others refer to first, and pods last.

        A scheduler's informers list them in this order, too.
        """
        rank = {kind: number for number, kind in enumerate(CREATED_FIRST)}
        rank["Pod"] = len(rank) + 1
        kinds = sorted(self._tables, key=lambda kind: rank.get(kind, len(CREATED_FIRST)))
        return [(kind, obj) for kind in kinds for obj in self._tables[kind].values()]

    def listen(self, listener: Listener, kinds: Collection[str] | None = None) -> None:
        """Calls ``listener`` for every write from now on, of some kinds; None = of all."""
        self._listeners.append((listener, kinds))
        self._listeners_of.clear()

    def follow(self, kind: str, follower: Callable[[ObjectChange], None]) -> None:
        """Calls ``follower`` in every write of a kind, before listeners; it writes nothing."""
        self._followers.setdefault(kind, []).append(follower)

    def protect(self, kind: str, is_used: Callable[[Any], bool]) -> None:
        """Keeps deleted objects of a kind, with a deletion timestamp, while they are in use."""
        self._is_used[kind] = is_used

    # -- writes -----------------------------------------------------------------------------------

    def create(self, obj: Any) -> Any:
        """Stores a new object, and returns it.

        Raises:
            AlreadyExists: there is an object of this kind with this name.
        """
        kind = type(obj).__name__
        name = key(obj)
        table = self.objects(kind)
        if name in table:
            raise AlreadyExists(
                f'{_resource(kind)} "{obj.metadata.name}" already exists',
                status=409,
                reason="AlreadyExists",
            )
        table[name] = obj
        self._report(kind, ObjectChange(None, obj))
        return obj

    def put(self, obj: Any) -> Any:
        """Stores an object, which replaces one with this name, and returns it."""
        kind = type(obj).__name__
        table = self.objects(kind)
        name = key(obj)
        old = table.get(name)
        table[name] = obj
        self._report(kind, ObjectChange(old, obj))
        return obj

    def get(self, kind: str, object_key: str, *, uid: str = "") -> Any:
        """Returns an object.

        Raises:
            NotFound: there is none.
            Conflict: it has another UID.
        """
        obj = self.objects(kind).get(object_key)
        if obj is None:
            name = object_key.rpartition("/")[2]
            text = f'{_resource(kind)} "{name}" not found'
            raise NotFound(text, status=404, reason="NotFound")
        if uid and obj.metadata.uid != uid:
            name = obj.metadata.name
            text = f'{_resource(kind)} "{name}" has UID {obj.metadata.uid}, not {uid}'
            raise Conflict(text, status=409, reason="Conflict")
        return obj

    def bind(self, pod: Pod, node_name: str, *, as_assumed: Pod | None = None) -> None:
        """Assigns a pod to a node; its kubelet sees it at once, and sets its start time.

        ``as_assumed`` is what the scheduler expects to see; it is stored if the pod is unchanged.

        Raises:
            NotFound: there is no such pod.
            Conflict: it has another UID, is bound already, or is being deleted.
        """
        live: Pod = self.get("Pod", key(pod), uid=pod.metadata.uid)
        problem, name = "", live.metadata.name
        if live.spec.node_name:
            problem = f'pod {name} is already assigned to node "{live.spec.node_name}"'
        elif live.metadata.deletion_timestamp is not None:
            problem = f"pod {name} is being deleted, cannot be assigned to a host"
        if problem:
            text = f'Operation cannot be fulfilled on pods/binding "{name}": {problem}'
            raise Conflict(text, status=409, reason="Conflict")
        if live is pod and as_assumed is not None:
            self.put(as_assumed)
            return
        spec = replace(live.spec, node_name=node_name)
        status = replace(live.status, start_time=rfc3339(self._clock.wall_s()))
        self.put(replace(live, spec=spec, status=status))

    def delete(
        self, kind: str, object_key: str, *, uid: str = "", grace_period_s: int | None = None
    ) -> None:
        """Deletes an object; a pod on a node has time to end, and its kubelet removes it.

        A claim or volume in use is marked as deleted, and goes later.

        Raises:
            NotFound: there is none.
            Conflict: it has another UID.
        """
        obj = self.get(kind, object_key, uid=uid)
        if kind == "Pod":
            grace_s = _grace_period_s(obj, grace_period_s)
            if grace_s:
                self._terminate(obj, grace_s)
                return
        is_used = self._is_used.get(kind)
        if is_used is not None and is_used(obj):
            if obj.metadata.deletion_timestamp is None:
                self._mark_deleted(obj, 0)
            return
        del self.objects(kind)[object_key]
        self._report(kind, ObjectChange(obj, None, obj))

    def _terminate(self, pod: Pod, grace_s: int) -> None:
        """Marks a pod as being deleted, unless it is already."""
        if pod.metadata.deletion_timestamp is None:
            self._mark_deleted(pod, grace_s)

    def _mark_deleted(self, obj: Any, grace_s: int) -> None:
        ends = rfc3339(self._clock.wall_s() + grace_s)
        metadata = replace(
            obj.metadata, deletion_timestamp=ends, deletion_grace_period_seconds=grace_s
        )
        self.put(replace(obj, metadata=metadata))

    def _report(self, kind: str, change: ObjectChange) -> None:
        for follower in self._followers.get(kind, ()):
            follower(change)
        if self._is_reporting:
            # A listener has written: the change that it reacts to is reported to all of them first.
            self._unreported.append((kind, change))
            return
        self._is_reporting = True
        try:
            for listener in self._listeners_of.get(kind) or self._listeners_to(kind):
                listener(kind, change)
            while self._unreported:
                kind, change = self._unreported.popleft()
                for listener in self._listeners_to(kind):
                    listener(kind, change)
        finally:
            self._is_reporting = False
            self._unreported.clear()

    def _listeners_to(self, kind: str) -> list[Listener]:
        listeners = self._listeners_of.get(kind)
        if listeners is None:
            listeners = self._listeners_of[kind] = [
                listener for listener, kinds in self._listeners if kinds is None or kind in kinds
            ]
        return listeners


def _grace_period_s(pod: Pod, requested_s: int | None) -> int:
    """Returns how long a pod has to end; 0 = it is removed at once.

    Source: pkg/registry/core/pod/strategy.go (CheckGracefulDelete).
    """
    if not pod.spec.node_name or pod.status.phase in FINISHED_PHASES:
        return 0
    grace_s = requested_s if requested_s is not None else pod.spec.termination_grace_period_seconds
    return 30 if grace_s is None else max(grace_s, 0)


def living(change: ObjectChange) -> ObjectChange | None:
    """Returns a change of a pod as a watch for unfinished pods shows it; None = it does not."""
    old, new, last = change
    was_finished = old is not None and old.status.phase in FINISHED_PHASES
    is_finished = new is not None and new.status.phase in FINISHED_PHASES
    if not was_finished and not is_finished:
        return change
    if was_finished:
        old = None
    if is_finished:
        new, last = None, new
    return None if old is None and new is None else ObjectChange(old, new, last)


def _resource(kind: str) -> str:
    return KINDS[kind].resource if kind in KINDS else f"{kind.lower()}s"
