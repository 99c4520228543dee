"""Disks that pods cannot share, and ReadWriteOncePod claims, while pods, claims and nodes change.

Pods have disks of GCE, AWS, iSCSI and Ceph in their own volumes, read-only or not, and claims of
two namespaces. Nodes go while they have pods. The reason of each node, also without some of its
pods and with others, is that of rules over plain dicts.

Source: pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from mooring.clock import seeded_random
from mooring.framework.runtime.nominated import filter_hypothetical
from mooring.objects.codec.decode import convert
from mooring.plugins.volume_restrictions import VolumeRestrictions
from mooring.state import PodInfo
from mooring.state.audit import audit
from mooring.testing import Harness, make_node, make_pod
from tests.plugins.volume_twins import clash, is_disk

STEPS: Final = 60
NODES: Final = ("a", "b", "c")
NAMESPACES: Final = ("default", "team")
CLAIMS: Final = ("data", "logs")
MODES: Final = ("ReadWriteOncePod", "ReadWriteOncePod", "ReadWriteOnce")
PODS_MAX: Final = 12
IN_USE: Final = "node(s) had no available disk"
ONCE_POD: Final = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already "
    "in-use by another pod"
)

#: The volumes of a pod, as the API has them, without their names.
Volumes = list[dict[str, Any]]


class RestrictionsRun:
    """One run.

    Attributes:
        problems: Differences to the rules.
        paths: What happened, and how often.
        cache: Has the pods and claims.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self.paths: Counter[str] = Counter()
        self._rng = rng = seeded_random(seed)
        self._harness = Harness([], [VolumeRestrictions()])
        self.cache = self._cache = self._harness.cache
        self._count = 0
        self._disk_share = rng.choice((0.3, 0.7, 1.0))
        #: "namespace/name" -> the access mode.
        self._claims: dict[str, str] = {}
        #: UID -> the node, and the pod.
        self._placed: dict[str, tuple[str, PodInfo]] = {}
        self._nodes: set[str] = set()
        for name in NODES:
            self._return(name)
        for _ in CLAIMS * 2:
            self._change_claim()

    def run(self) -> None:
        """Makes all steps, until one differs."""
        actions = [self._compare] * 4 + [self._place] * 3
        actions += [self._remove] * 2 + [self._change_claim, self._change_node]
        for _ in range(STEPS):
            self._rng.choice(actions)()
            if self.problems:
                return
        self.problems += audit(self._cache)

    # -- the cluster ------------------------------------------------------------------------------

    def _return(self, name: str) -> None:
        self._cache.put_node(make_node(name))
        self._nodes.add(name)

    def _change_node(self) -> None:
        """Removes a node, with pods on it; or makes it anew."""
        name = self._rng.choice(NODES)
        if name in self._nodes:
            self.paths["node goes"] += 1
            self._cache.remove_node(name)
            self._nodes.remove(name)
        else:
            self._return(name)

    def _change_claim(self) -> None:
        namespace, name = self._rng.choice(NAMESPACES), self._rng.choice(CLAIMS)
        key = f"{namespace}/{name}"
        if self._claims.pop(key, None) is not None and self._rng.random() < 0.3:
            self._cache.remove_object("PersistentVolumeClaim", key)
            return
        mode = self._claims[key] = self._rng.choice(MODES)
        body = {
            "metadata": {"namespace": namespace, "name": name},
            "spec": {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}},
        }
        claim = convert(body, "PersistentVolumeClaim")
        self._cache.put_object("PersistentVolumeClaim", claim)

    def _new_pod(self) -> PodInfo:
        rng = self._rng
        self._count += 1
        volumes = [
            self._disk()
            if rng.random() < self._disk_share
            else {"persistentVolumeClaim": {"claimName": rng.choice(CLAIMS)}}
            for _ in range(rng.choice((0, 1, 1, 2)))
        ]
        named = [{"name": f"v{number}", **volume} for number, volume in enumerate(volumes)]
        name = f"pod-{self._count}"
        namespace = rng.choice(NAMESPACES)
        return PodInfo(make_pod(name, uid=name, namespace=namespace, spec={"volumes": named}))

    def _disk(self) -> dict[str, Any]:
        rng = self._rng
        name, is_shared = rng.choice("xy"), rng.random() < 0.5
        monitors = rng.choice((["m1"], ["m2"], ["m1", "m2"], ["m3", "m2", "m3"]))
        return rng.choice(
            (
                {"gcePersistentDisk": {"pdName": name, "readOnly": is_shared}},
                {"awsElasticBlockStore": {"volumeID": name, "readOnly": is_shared}},
                {"iscsi": {"iqn": name, "readOnly": is_shared}},
                {
                    "rbd": {
                        "monitors": monitors,
                        "pool": rng.choice("pq"),
                        "image": name,
                        "readOnly": is_shared,
                    }
                },
            )
        )

    def _place(self) -> None:
        """Places a pod: bound by others, or assumed, and confirmed or forgotten."""
        if len(self._placed) >= PODS_MAX:
            return
        info, node = self._new_pod(), self._rng.choice(NODES)
        if node in self._nodes and self._rng.random() < 0.5:
            with self._cache.assume(info, node) as reservation:
                reservation.keep()
            if self._rng.random() < 0.4:
                self.paths["forgotten"] += 1
                self._cache.forget(info.uid)
                return
        self._cache.put_pod(info.on_node(node).pod)
        self._placed[info.uid] = node, info

    def _remove(self) -> None:
        if self._placed:
            uid = self._rng.choice(list(self._placed))
            del self._placed[uid]
            self._cache.remove_pod(uid)

    # -- attempts ---------------------------------------------------------------------------------

    def _compare(self) -> None:
        """Filters all nodes for a pod, as they are, and with other pods on them."""
        info = self._new_pod()
        begun = self._harness.begin(info.pod)
        problem = self._problem(info)
        actual = begun.refusal.reasons if begun.refusal is not None else ()
        if actual != ((problem,) if problem else ()):
            self.problems.append(f"{info.key}: {actual}, not {problem!r}")
        if problem or not self._nodes:
            return
        names = list(begun.view.names)
        self._filter(info, begun.cycle, begun.view, [self._on(name) for name in names])
        removed, added = [], []
        for name in names:
            removed.append([pod for pod in self._on(name) if self._rng.random() < 0.4])
            added.append(tuple(self._new_pod() for _ in range(self._rng.choice((0, 0, 1, 2)))))
        view = begun.view.without([self._known(pods) for pods in removed]).plus(added)
        left = [
            [*(pod for pod in self._on(name) if pod not in without), *more]
            for name, without, more in zip(names, removed, added, strict=True)
        ]
        delta = [
            self._uses(info, more) - self._uses(info, without)
            for without, more in zip(removed, added, strict=True)
        ]
        self._filter(info, begun.cycle, view, left, delta)

    def _known(self, pods: list[PodInfo]) -> tuple[PodInfo, ...]:
        """Returns the pods as the cache has them."""
        placed = [self._cache.pods.get(pod.uid) for pod in pods]
        return tuple(item.info for item in placed if item is not None)

    def _filter(
        self,
        info: PodInfo,
        cycle: Any,
        view: Any,
        pods: list[list[PodInfo]],
        delta: list[int] | None = None,
    ) -> None:
        actual: list[tuple[str, ...]] = [()] * len(view)
        for _, statuses in filter_hypothetical(self._harness.framework, cycle, view):
            actual = [it.reasons if it is not None else () for it in statuses.to_list()]
        in_use = self._in_use(info)
        # A pod without anything to check is skipped, whatever is added.
        is_skipped = not in_use and not any(map(is_disk, info.spec.volumes))
        for number, name in enumerate(view.names):
            count = in_use + (delta[number] if delta is not None else 0)
            reason = "" if is_skipped else _reason(info, pods[number], count)
            self.paths[reason] += 1
            if actual[number] != ((reason,) if reason else ()):
                self.problems.append(f"{info.key} on {name}: {actual[number]}, not {reason!r}")

    # -- the rules --------------------------------------------------------------------------------

    def _on(self, node: str) -> list[PodInfo]:
        return [info for at, info in self._placed.values() if at == node]

    def _problem(self, info: PodInfo) -> str:
        for name in _claim_names(info):
            if f"{info.metadata.namespace}/{name}" not in self._claims:
                return f'persistentvolumeclaim "{name}" not found'
        return ""

    def _once_pod(self, info: PodInfo) -> set[str]:
        namespace = info.metadata.namespace
        names = set(_claim_names(info))
        return {name for name in names if self._claims[f"{namespace}/{name}"] == MODES[0]}

    def _in_use(self, info: PodInfo) -> int:
        """Returns how many claims for one pod are in use by a pod on a node that exists."""
        namespace = info.metadata.namespace
        used = {
            name
            for at, other in self._placed.values()
            if at in self._nodes and other.metadata.namespace == namespace
            for name in _claim_names(other)
        }
        return len(self._once_pod(info) & used)

    def _uses(self, info: PodInfo, pods: Iterable[PodInfo]) -> int:
        """Returns how many volumes of pods are claims of these names, in any namespace."""
        names = self._once_pod(info)
        return sum(name in names for pod in pods for name in _claim_names(pod))


def _claim_names(info: PodInfo) -> list[str]:
    claims = [volume.persistent_volume_claim for volume in info.spec.volumes]
    return [claim.claim_name for claim in claims if claim is not None]


def _reason(info: PodInfo, others: list[PodInfo], in_use: int) -> str:
    """Returns why a node with these pods is rejected; "" if it is not."""
    for own in info.spec.volumes:
        if any(clash(own, volume) for other in others for volume in other.spec.volumes):
            return IN_USE
    return ONCE_POD if in_use > 0 else ""


def run_restrictions(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a node is rejected, or accepted, against the rules.
    """
    run = RestrictionsRun(seed)
    run.run()
    assert not run.problems, run.problems[0]
