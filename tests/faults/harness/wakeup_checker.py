"""Checks during a run that no pod stays unschedulable although it fits: a lost wake-up.

The final checks come after another event, which may requeue a lost pod by accident. This one
compares once per second of virtual time, faults or not. It reads the scheduler's own cache: what
the scheduler does not know yet, because its watch is late, requeues nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.queue import QueuedPod, QueueName
from mooring.scheduler.service import Service
from tests.faults.harness.reference_topology import World, without_deletions

#: An event requeues pods at once; so long a pod may fit and stay unschedulable nevertheless.
FITS_S_MAX: Final = 5.0

#: The plugins whose rules the reference has. A pod that another one rejected, too, is skipped.
CHECKED: Final = frozenset(
    {
        "DefaultPreemption",
        "InterPodAffinity",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "NodeUnschedulable",
        "PodTopologySpread",
        "TaintToleration",
    }
)


class WakeupChecker:
    """Remembers since when unschedulable pods fit.

    Attributes:
        checked: How many unschedulable pods were compared with the reference.
        fitting: How many of them did fit.
    """

    def __init__(self) -> None:
        self.checked = 0
        self.fitting = 0
        #: UID -> the number of the attempt that rejected the pod, and since when it fits.
        self._since: dict[str, tuple[int, float]] = {}
        #: UID -> the number of its last attempt, and the pods that were nominated then.
        self._nominated: dict[str, tuple[int, list[str]]] = {}
        #: UID -> the number of the last attempt that chose a node.
        self._assumed: dict[str, int] = {}

    def chosen(self, entry: QueuedPod) -> None:
        """Remembers an attempt that chose a node: the pod leaves the queue, perhaps for good."""
        self._assumed[entry.uid] = entry.attempt_number

    def rejected(self, entry: QueuedPod, service: Service) -> None:
        """Remembers which pods were nominated in an attempt that no node passed."""
        nominated = [info.uid for info, _ in service.cache.nominator.pods()]
        self._nominated[entry.uid] = entry.attempt_number, nominated

    def is_exempt(self, entry: QueuedPod, service: Service) -> bool:
        """Returns whether a nomination that was not written yet ended in an attempt of its pod.

        As in kube-scheduler, that is no event: the pods that it held back wait for the next one.
        """
        number, nominated = self._nominated.get(entry.uid, (-1, []))
        if number != entry.attempt_number:
            return False
        return any(
            self._assumed.get(uid, -1) > number
            or ((other := service.queue.get(uid)) is not None and other.attempt_number > number)
            for uid in nominated
            if uid != entry.uid
        )

    def problems(self, service: Service, now_s: float) -> Iterator[str]:
        """Yields violations of L2: pods that fit for too long and were not requeued.

        Args:
            service: The scheduler.
            now_s: Virtual seconds.
        """
        since: dict[str, tuple[int, float]] = {}
        entries = [entry for entry in service.queue.pods() if is_checked(entry)]
        worlds = Worlds(service) if entries else None
        for entry in entries:
            assert worlds is not None
            self.checked += 1
            node_name = worlds.node_for(entry)
            if not node_name:
                continue
            self.fitting += 1
            if self.is_exempt(entry, service):
                continue
            number, fits_since_s = self._since.get(entry.uid, (-1, now_s))
            if number != entry.attempt_number:
                fits_since_s = now_s
            since[entry.uid] = entry.attempt_number, fits_since_s
            if now_s - fits_since_s > FITS_S_MAX:
                yield (
                    f"{entry.pod.key} fits {node_name} since {fits_since_s:.1f} s, but no event "
                    f"requeued it; rejected by {sorted(entry.unschedulable_plugins)}"
                )
        self._since = since


class Worlds:
    """The nodes of the cache, with several views of the pods on them.

    A pod has to fit in all: an assumed pod or a nominated one takes resources, but neither is an
    event, as in kube-scheduler; so a pod with affinity to it waits until it is bound, also if the
    rejection was due to another assumed pod.
    """

    def __init__(self, service: Service) -> None:
        cache = service.cache
        self._nodes = {node.metadata.name: node for node in cache.nodes.objects if node is not None}
        placed = [(other.info, cache.nodes.names[other.row]) for other in cache.pods]
        self._placed = [(info.pod, name) for info, name in placed]
        #: Those in memory, and those that the API server still has: their end is an event only
        #: when it is written and reported.
        self._nominated = [(info.pod, name) for info, name in cache.nominator.pods()]
        counted = {(info.uid, name) for info, name in placed}
        for pod in service.informers["Pod"].objects.values():
            named = pod.status.nominated_node_name
            if named and not pod.spec.node_name and (pod.metadata.uid, named) not in counted:
                self._nominated.append((pod, named))
        self._all = World(self._nodes, self._placed)
        bound = [(info.pod, name) for info, name in placed if not cache.is_assumed(info.uid)]
        self._bound = World(self._nodes, bound)
        assumed = [(info.pod, name) for info, name in placed if cache.is_assumed(info.uid)]
        #: A pod with affinity to itself may fit with all of them and with none, but not with some.
        self._with_one_assumed = [World(self._nodes, [*bound, extra]) for extra in assumed]
        self._staying = without_deletions(self._nodes, self._placed)

    def node_for(self, entry: QueuedPod) -> str:
        """Returns a node that the pod fits; "" if there is none."""
        pod = entry.pod.pod
        rejectors = entry.unschedulable_plugins
        has_ghosts = any(name not in self._nodes for _, name in self._placed)
        if has_ghosts and "InterPodAffinity" in rejectors:
            # As in kube-scheduler, the deletion of a node is no event for this plugin.
            return ""
        others = [
            (other, name)
            for other, name in self._nominated
            if other.metadata.uid != entry.uid and (other.spec.priority or 0) >= entry.pod.priority
        ]
        worlds = [self._all]
        if rejectors & {"InterPodAffinity", "PodTopologySpread"}:
            worlds.append(self._bound)
        if others:
            worlds.append(World(self._nodes, [*self._placed, *others]))
        if "PodTopologySpread" in rejectors:
            worlds.append(self._staying)
        if "InterPodAffinity" in rejectors:
            worlds += self._with_one_assumed
        for name in self._nodes:
            if not any(world.fit_error(pod, name) for world in worlds):
                return name
        return ""


def is_checked(entry: QueuedPod) -> bool:
    rejectors = entry.unschedulable_plugins
    is_unschedulable = entry.queue_name is QueueName.UNSCHEDULABLE
    return is_unschedulable and bool(rejectors) and rejectors <= CHECKED
