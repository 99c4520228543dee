"""The free volumes of a class, its storage capacities, and counted volumes, beside plain loops.

Volumes come, go and change, nodes move, and claims are matched with the smallest volumes: the index
is compared with a loop over all volumes, for each node, also past volumes that are taken. And pods
have disks in their own volumes, and claims whose volumes and classes come and go: which volumes
count for which driver are rules over the documents, for pods on nodes and for others.

Source: component-helpers v0.36.3, storage/volume/pv_helpers.go (FindMatchingVolume);
pkg/scheduler/framework/plugins/nodevolumelimits/csi.go (filterAttachableVolumes).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pytest
from msgspec.structs import replace

from mooring.clock import Rng, seeded_random
from mooring.objects.codec.decode import convert
from mooring.objects.selectors import requirement, selector_of
from mooring.state import PodInfo, audit
from mooring.state.cache import Cache
from mooring.state.tables.nodes import NodeTable
from mooring.state.volumes import topology
from mooring.state.volumes.free_index import first_match, free_volumes, sorted_list
from mooring.state.volumes.free_index.first_match import NONE, VolumeRequest
from mooring.state.volumes.free_index.free_volumes import FreeVolumes
from mooring.state.volumes.limits import attach_limit_volumes
from mooring.state.volumes.topology import TopologyMasks
from mooring.testing import make_node, make_pod
from tests.faults.parts.limits import first_rows, set_limit
from tests.faults.parts.volume_capacities import CapacitiesRun
from tests.faults.parts.volume_nodes import FIRST_ROWS, VolumeNodes
from tests.faults.parts.volumes_model import reaches
from tests.faults.twins.leftovers import CacheLeftovers

CALLS: Final = 40
#: Added to the seed: volumes of which all are in zones.
ZONES_SEED: Final = 1 << 44
#: Added to the seed: nodes that come and go, with CSINodes and attachments.
NODES_SEED: Final = 1 << 45
#: Added to the seed: capacities without a field.
CAPACITIES_SEED: Final = 1 << 46
GI: Final = 1 << 30
NANOS: Final = 10**9
NODES: Final = ("n0", "n1", "n2", "n3")
MODES: Final = ("ReadWriteOnce", "ReadOnlyMany")
LIMITS: Final = (
    (first_match, "_CACHED_MAX", 1),
    (first_match, "_FEW_ROWS", 0),
    (first_match, "_ROW_CHANGES_MAX", 0),
    (first_match, "_CHANGES_MAX", 1),
    (free_volumes, "INSERTIONS_MAX", 0),
    (sorted_list, "CHANGES_MAX", 1),
    (topology, "MASKS_MAX", 1),
)
PV, PVC, CLASS = "PersistentVolume", "PersistentVolumeClaim", "StorageClass"
#: The source of a disk, the field with its handle, its driver, and the text before its handle in
#: the volume of a pod; "" = it does not count.
DISKS: Final = (
    (
        "gcePersistentDisk",
        "pdName",
        "pd.csi.storage.gke.io",
        "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/",
    ),
    ("awsElasticBlockStore", "volumeID", "ebs.csi.aws.com", ""),
    ("cinder", "volumeID", "cinder.csi.openstack.org", ""),
    ("iscsi", "iqn", "", ""),
)
PROVISIONERS: Final = {
    "csi.example.com": "csi.example.com",
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
}
#: "driver/handle" -> driver.
Counted = dict[str, str]


class FreeVolumesRun:
    """The free volumes of a class, and the nodes that reach them."""

    def __init__(self, rng: Rng, zones: Rng | None = None) -> None:
        """Creates nodes; ``zones`` draws the zones of volumes that all are in some zones."""
        self._rng = rng
        self._zones = zones
        self._nodes = NodeTable()
        self._objects: dict[str, Any] = {}
        self._free = FreeVolumes(self._nodes, TopologyMasks(self._nodes))
        self._volumes: dict[str, Any] = {}
        self._requests = [self._request() for _ in range(3)]
        for name in NODES:
            self._put_node(name)

    def run(self) -> None:
        """Changes volumes and nodes, and compares what is chosen for claims."""
        for _ in range(CALLS):
            for _ in range(self._rng.choice((0, 1, 1, 3))):
                self._change()
            self._compare()

    def _put_node(self, name: str) -> None:
        labels = {"host": name, "zone": self._rng.choice("abc")}
        if self._rng.random() < 0.15:
            del labels["zone"]
        self._objects[name] = make_node(name, labels=labels)
        self._nodes.put(self._objects[name])

    def _change(self) -> None:
        rng = self._rng
        name = f"v{rng.randrange(9)}"
        if rng.random() < 0.12:
            self._put_node(rng.choice(NODES))
        elif name in self._volumes and rng.random() < 0.5:
            del self._volumes[name]
            self._free.remove(name)
        else:
            # One that was taken is often free again as it was.
            is_new = name not in self._volumes or rng.random() < 0.3
            volume = self._volume(name, rng if is_new else seeded_random(len(name)))
            self._volumes[name] = volume
            self._free.put(volume)

    def _volume(self, name: str, rng: Rng) -> Any:
        zone = {"key": "zone", "operator": "In", "values": [rng.choice("abc")]}
        other: dict[str, Any] = {
            "key": "zone",
            "operator": rng.choice(("NotIn", "Exists", "DoesNotExist")),
        }
        other |= {"values": ["a"]} if other["operator"] == "NotIn" else {}
        host = {"key": "host", "operator": "In", "values": [rng.choice(NODES)]}
        terms: list[list[dict[str, Any]]] = rng.choice(
            ([[zone]], [[zone]], [[host]], [], [[other]], [[zone, host]], [[zone], [host]])
        )
        if self._zones is not None:
            values = self._zones.sample("abcd", self._zones.choice((1, 1, 2)))
            # All zones in one term, or each of them in a term of its own.
            of_terms = [values] if self._zones.random() < 0.6 else [[value] for value in values]
            terms = [[{"key": "zone", "operator": "In", "values": it}] for it in of_terms]
        spec: dict[str, Any] = {
            "capacity": {"storage": f"{rng.choice((1, 2, 2, 3))}Gi"},
            "accessModes": rng.choice(([MODES[0]], list(MODES))),
            "volumeMode": rng.choice((None, None, "Filesystem", "Block")),
            "volumeAttributesClassName": rng.choice((None, None, None, "gold")),
        }
        if terms:
            selector = [{"matchExpressions": term} for term in terms]
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": selector}}
        metadata = {"name": name, "labels": rng.choice(({}, {"disk": "fast"}))}
        return convert({"metadata": metadata, "spec": spec}, PV)

    def _request(self) -> VolumeRequest:
        rng = self._rng
        fast = selector_of([requirement("disk", "In", ("fast",))])
        return VolumeRequest(
            rng.choice((1, 2)) * GI * NANOS,
            rng.choice(("Filesystem", "Filesystem", "Block")),
            rng.choice(("", "", "", "gold")),
            rng.choice(((MODES[0],), MODES)),
            rng.choice((None, None, fast)),
        )

    def _compare(self) -> None:
        """Compares the volumes of up to three claims of one pod on some nodes."""
        rng = self._rng
        names = rng.sample(NODES, rng.randint(1, len(NODES)))
        rows = np.array([self._nodes.row(name) for name in names], dtype=np.intp)
        taken: list[Any] = []
        before: list[list[str]] = [[] for _ in names]
        for number in range(rng.choice((1, 2, 3))):
            request = rng.choice(self._requests)._replace(nanos=rng.choice((1, 2)) * GI * NANOS)
            after = taken[-1] if taken and rng.random() < 0.4 else None
            others = () if after is not None else tuple(taken)
            chosen = self._free.choose(request, rows, after=after, taken=others)
            actual = [None if at == NONE else _name(self._free, at) for at in chosen.tolist()]
            expected = []
            for index, name in enumerate(names):
                last = before[index][-1] if after is not None else ""
                excluded = before[index] if after is None else []
                expected.append(self._smallest(request, name, excluded, last))
            what = f"claim {number} on {names}: {request}, after {after is not None}"
            assert actual == expected, f"{what} gets {actual}, not {expected}"
            for index, volume in enumerate(actual):
                before[index].append(volume or "")
            taken.append(chosen)
        self._compare_groups(rows, names)

    def _smallest(
        self, request: VolumeRequest, node: str, taken: list[str], last: str
    ) -> str | None:
        """Returns the smallest volume for a claim; ``last``: only larger ones than this."""
        matching = [
            (_size(volume), name)
            for name, volume in self._volumes.items()
            if name not in taken
            and _size(volume) * NANOS >= request.nanos
            and (volume.spec.volume_mode or "Filesystem") == request.volume_mode
            and (volume.spec.volume_attributes_class_name or "") == request.attributes_class
            and set(request.access_modes) <= set(volume.spec.access_modes)
            and (request.selector is None or "disk" in volume.metadata.labels)
            and reaches(volume, self._objects[node])
        ]
        if last:
            matching = [it for it in matching if it > (_size(self._volumes[last]), last)]
        return min(matching)[1] if matching else None

    def _compare_groups(self, rows: Any, names: list[str]) -> None:
        """Compares that nodes with equal columns get the same volumes."""
        columns = [column.tolist() for column in self._free.topology_groups(rows)]
        first: dict[tuple[Any, ...], tuple[str | None, ...]] = {}
        for index, name in enumerate(names):
            volumes = tuple(self._smallest(it, name, [], "") for it in self._requests)
            group = tuple(column[index] for column in columns)
            assert first.setdefault(group, volumes) == volumes, f"{name} is in group {group}"


def _name(volumes: FreeVolumes, position: int) -> str:
    name: str = volumes.at(position).metadata.name
    return name


def _size(volume: Any) -> int:
    return int(volume.spec.capacity["storage"].removesuffix("Gi")) * GI


class CountedRun:
    """Pods on nodes, and the objects that their volumes depend on.

    Attributes:
        cache: Has all of them.
    """

    def __init__(self, rng: Rng, more: Rng | None = None) -> None:
        """Creates two nodes; ``more`` draws other nodes, CSINodes and attachments instead."""
        self._rng = rng
        with first_rows(64 if more is None else more.choice(FIRST_ROWS)):
            self.cache = Cache()
        self._leftovers = CacheLeftovers(self.cache) if more is not None else None
        self._nodes = VolumeNodes(self.cache, NODES, more) if more is not None else None
        self._stored: dict[tuple[str, str], dict[str, Any]] = {}
        self._pods: dict[str, Any] = {}
        self._count = 0
        for name in NODES[:2] if more is None else ():
            self.cache.put_node(make_node(name))

    def run(self) -> None:
        """Changes objects and pods, and compares what counts, and at last what is left."""
        rng = self._rng
        for _ in range(CALLS):
            rng.choice((self._change, self._change, self._place, self._remove))()
            if self._nodes is not None:
                self._nodes.change()
            self._compare()
        problems = audit(self.cache)
        if self._leftovers is not None:
            problems += self._leftovers.problems()
        assert not problems, problems[0]

    # -- objects ----------------------------------------------------------------------------------

    def _change(self) -> None:
        """Adds, changes or removes a volume, a claim or a class."""
        rng = self._rng
        kind = rng.choice((PV, PVC, PVC, CLASS))
        name = {PV: "v", PVC: "c", CLASS: "k"}[kind] + rng.choice("012")
        if kind == PVC and rng.random() < 0.3 and self._pods:
            name = f"{rng.choice(list(self._pods))}-e"
        full_name = f"default/{name}" if kind == PVC else name
        if (kind, name) in self._stored and rng.random() < 0.4:
            del self._stored[kind, name]
            self.cache.remove_object(kind, full_name)
            return
        body = self._stored[kind, name] = {PV: self._volume, PVC: self._claim, CLASS: self._class}[
            kind
        ](name)
        self.cache.put_object(kind, convert(body, kind))

    def _volume(self, name: str) -> dict[str, Any]:
        rng = self._rng
        source: dict[str, Any] = {"csi": {"driver": "csi.example.com", "volumeHandle": f"h-{name}"}}
        if rng.random() < 0.5:
            field, key, _, _ = rng.choice(DISKS[1:])
            source = {field: {key: f"h-{name}"}}
        spec = {**source, "storageClassName": rng.choice(("k0", "k1"))}
        if rng.random() < 0.3:
            spec["claimRef"] = {"namespace": "default", "name": rng.choice(("c0", "c1"))}
        metadata: dict[str, Any] = {"name": name}
        if rng.random() < 0.2:
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        status = {"phase": rng.choice(("Available", "Available", "Released"))}
        return {"metadata": metadata, "spec": spec, "status": status}

    def _claim(self, name: str) -> dict[str, Any]:
        rng = self._rng
        spec: dict[str, Any] = {}
        if rng.random() < 0.6:
            spec["volumeName"] = rng.choice(("v0", "v1", "v2", "v9"))
        if rng.random() < 0.7:
            spec["storageClassName"] = rng.choice(("k0", "k1", "k2", "k9"))
        metadata: dict[str, Any] = {"name": name, "namespace": "default"}
        if name.endswith("-e") and rng.random() < 0.7:
            owner = {"apiVersion": "v1", "kind": "Pod", "name": name[:-2], "uid": name[:-2]}
            metadata["ownerReferences"] = [{**owner, "controller": True}]
        return {"metadata": metadata, "spec": spec}

    def _class(self, name: str) -> dict[str, Any]:
        return {"metadata": {"name": name}, "provisioner": self._rng.choice(list(PROVISIONERS))}

    # -- pods -------------------------------------------------------------------------------------

    def _new_pod(self) -> Any:
        rng = self._rng
        self._count += 1
        name = f"p{self._count}"
        volumes: list[dict[str, Any]] = []
        for number in range(rng.choice((0, 1, 2, 3))):
            field, key, _, _ = rng.choice(DISKS)
            volume = rng.choice(
                (
                    {"persistentVolumeClaim": {"claimName": rng.choice(("c0", "c1", "c2", ""))}},
                    {"persistentVolumeClaim": {"claimName": rng.choice(("c0", "c1", "c2"))}},
                    {field: {key: rng.choice(("x", "y"))}},
                    {"configMap": {"name": "x"}},
                )
            )
            volumes.append({"name": f"n{number}", **volume})
        if rng.random() < 0.3:
            volumes.append({"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}})
        return make_pod(name, uid=name, spec={"volumes": volumes})

    def _place(self) -> None:
        """Places a pod; one that was evaluated before keeps its result."""
        pod, node = self._new_pod(), self._rng.choice(NODES[:2])
        node = node if self._nodes is None else self._nodes.node()
        name = pod.metadata.name
        if self._rng.random() < 0.5:
            self.cache.storage.use.usage_if_scheduled(pod)
            if self._nodes is not None:
                pod, name = self._nodes.twin(pod)
        placed = replace(pod, spec=replace(pod.spec, node_name=node))
        if self._nodes is not None and self._nodes.is_assumed():
            self.cache.assume(PodInfo(placed), node).keep()
        else:
            self.cache.put_pod(placed)
        self._pods[name] = pod

    def _remove(self) -> None:
        if self._pods:
            name = self._rng.choice(list(self._pods))
            del self._pods[name]
            self.cache.remove_pod(name)

    # -- the rules --------------------------------------------------------------------------------

    def _compare(self) -> None:
        storage = self.cache.storage
        users: Counter[tuple[str, str]] = Counter()
        used: dict[str, Counted] = {}
        claims: dict[str, bool] = {}
        failing: dict[str, set[str]] = {}
        for pod in self._pods.values():
            placed = self.cache.pods.get(pod.metadata.uid)
            assert placed is not None
            expected, problem = self._counted(pod, is_placed=True)
            actual = storage.use.of_pod(placed.info)
            self._check(f"{pod.metadata.name} on a node", actual, expected, problem)
            node = self.cache.nodes.names[placed.row]
            users.update((volume, node) for volume in expected)
            used.setdefault(node, {}).update(expected)
            if problem:
                failing.setdefault(node, set()).add(pod.metadata.uid)
            for it in pod.spec.volumes:
                if it.persistent_volume_claim is not None:
                    name = f"default/{it.persistent_volume_claim.claim_name}"
                    claims[name] = claims.get(name, False) or bool(
                        self.cache.nodes.alive[placed.row]
                    )
            is_counting = bool(expected) or problem
            slot = placed.slot
            mask = storage.use.counting()
            assert bool(slot < len(mask) and mask[slot]) == is_counting, f"{pod.metadata.name}"
        for (volume, node), count in users.items():
            assert storage.use.attached_volumes.pods_on(volume, node) == count, volume
        uncounted = {node: set(uids) for node, uids in storage.use.problems.items()}
        assert uncounted == failing, f"not counted are {uncounted}, not {failing}"
        for name in ("default/c0", "default/c1", "default/c2"):
            is_used = storage.use.is_claim_used(name)
            assert is_used == claims.get(name, False), f"{name} is used: {is_used}"
        if self._nodes is not None:
            volumes = {name: body for (kind, name), body in self._stored.items() if kind == PV}
            for difference in self._nodes.problems(used, volumes):
                raise AssertionError(difference)
        assert storage.listings() == self._listings(), f"lists: {storage.listings()}"
        new = self._new_pod()
        for has_node in (True, False):
            result = attach_limit_volumes(new, storage.objects, has_csi_node=has_node)
            rule = self._counted(new, is_placed=False, has_csi_node=has_node)
            self._check(f"{new.metadata.name}, CSINode: {has_node}", result, *rule)
        unplaced = storage.use.of_pod(PodInfo(new))
        self._check("treated as placed", unplaced, *self._counted(new, is_placed=True))

    def _listings(self) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """Returns the free volumes of each class, and the volumes that name each claim."""
        free: dict[str, list[str]] = {}
        named: dict[str, list[str]] = {}
        for (kind, name), body in sorted(self._stored.items()):
            if kind != PV:
                continue
            owner, is_going = body["spec"].get("claimRef"), "deletionTimestamp" in body["metadata"]
            if owner is not None:
                named.setdefault(f"default/{owner['name']}", []).append(name)
            elif body["status"]["phase"] == "Available" and not is_going:
                free.setdefault(body["spec"]["storageClassName"], []).append(name)
        return free, named

    def _check(self, what: str, actual: Any, expected: Counted, problem: bool) -> None:
        assert {_plain(it): driver for it, driver in actual.volumes.items()} == {
            _plain(it): driver for it, driver in expected.items()
        }, f"{what}: {actual.volumes}, not {expected}"
        assert (actual.problem is not None) == problem, f"{what}: {actual.problem}, not {problem}"
        assert actual.concerns_limits == (bool(expected) or problem), what

    def _counted(
        self, pod: Any, *, is_placed: bool, has_csi_node: bool = True
    ) -> tuple[Counted, bool]:
        """Returns the volumes that count, up to the first problem, and whether there is one."""
        volumes: Counted = {}
        for volume in pod.spec.volumes:
            of_disk = _disk_of(volume, has_csi_node=has_csi_node)
            if of_disk is not None:
                volumes |= of_disk
                continue
            name = f"{pod.metadata.name}-{volume.name}" if volume.ephemeral else ""
            if volume.persistent_volume_claim is not None:
                name = volume.persistent_volume_claim.claim_name
            elif volume.ephemeral is None:
                continue
            claim = self._stored.get((PVC, name))
            if not name or (claim is None and not is_placed):
                return volumes, True
            if claim is None:
                continue
            owners = claim["metadata"].get("ownerReferences", [])
            if volume.ephemeral and [it["uid"] for it in owners] != [pod.metadata.uid]:
                return volumes, True
            volumes |= self._of_claim(name, claim, has_csi_node=has_csi_node)
        return volumes, False

    def _of_claim(self, name: str, claim: Mapping[str, Any], *, has_csi_node: bool) -> Counted:
        volume = self._stored.get((PV, claim["spec"].get("volumeName", "")))
        if volume is not None:
            spec = volume["spec"]
            if "csi" in spec:
                driver, handle = spec["csi"]["driver"], spec["csi"]["volumeHandle"]
                return {f"{driver}/{handle}": driver}
            return next(
                {f"{driver}/{spec[field][key]}": driver} if driver and has_csi_node else {}
                for field, key, driver, _ in DISKS
                if field in spec
            )
        storage_class = self._stored.get((CLASS, claim["spec"].get("storageClassName", "")))
        if storage_class is None:
            return {}
        provisioner = storage_class["provisioner"]
        driver = PROVISIONERS[provisioner]
        is_counted = has_csi_node or provisioner == driver
        return {f"{driver}/\0default/{name}": driver} if is_counted else {}


def _disk_of(volume: Any, *, has_csi_node: bool) -> Counted | None:
    """Returns what a disk in the volume of a pod counts as; None = it is no disk."""
    names = {"gcePersistentDisk": "gce_persistent_disk", "cinder": "cinder", "iscsi": "iscsi"}
    for field, key, driver, prefix in DISKS:
        source = getattr(volume, names.get(field, "aws_elastic_block_store"))
        if source is None:
            continue
        handle = getattr(source, {"pdName": "pd_name", "volumeID": "volume_id"}.get(key, key))
        return {f"{driver}/{prefix}{handle}": driver} if driver and has_csi_node else {}
    return None


def _plain(volume: str) -> str:
    """Returns a volume without the text that stands for one that does not exist yet."""
    return volume.replace("\0", "")


def run_volume_tables(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a volume is chosen, or counted, against the rules.
    """
    rng = seeded_random(seed)
    with pytest.MonkeyPatch.context() as patch:
        for module, name, least in LIMITS if rng.random() < 0.6 else ():
            if rng.random() < 0.6:
                set_limit(patch, module, name, least + rng.choice((0, 1, 2)))
        FreeVolumesRun(rng).run()
        # All volumes in one group, by the same label.
        zones = seeded_random(seed + ZONES_SEED)
        FreeVolumesRun(seeded_random(seed + ZONES_SEED + 1), zones).run()
        CapacitiesRun(rng, seeded_random(seed + CAPACITIES_SEED)).run()
        CountedRun(rng).run()
        CountedRun(seeded_random(seed + NODES_SEED), seeded_random(seed + NODES_SEED + 1)).run()
