"""Thousands of calls of the small parts of the cache, each beside a plain list or dict.

Logs, caches with a limit, numbered values, labels, ports, images, the visit order and counts by row
are those of ``tables_checks``. Here are the stores of objects: what plugins list, namespaces, the
device classes and their extended resources, and which kinds are watched for which plugins. Limits
are as small as possible, so that each is met.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import reduce
from operator import or_
from random import Random
from types import SimpleNamespace
from typing import Any, Final

import pytest
from msgspec.structs import replace

from mooring.clock import Rng, seeded_random
from mooring.cluster_event import EventResource
from mooring.dra.features import features_of
from mooring.errors import ConfigError
from mooring.objects.codec.decode import convert
from mooring.objects.meta import Namespace, ObjectMeta
from mooring.objects.selectors import Selector, requirement, selector_of
from mooring.queue.watched_kinds import follow_kinds, watched_kinds
from mooring.state import Change, PodInfo
from mooring.state.cache import Cache
from mooring.state.devices import changes
from mooring.state.kinds import namespaces as namespaces_module
from mooring.state.kinds.device_classes import RESOURCE_PREFIX, DeviceClasses
from mooring.state.kinds.namespaces import Namespaces
from mooring.state.listers import Lister, Listers
from mooring.state.tables import affinity_terms
from mooring.state.tables.shared_parts import InternPool
from mooring.state.volumes.csi_nodes import NO_LIMIT
from mooring.testing import make_node, make_pod
from tests.faults.parts.allocated_checks import check_allocated
from tests.faults.parts.limits import set_limit
from tests.faults.parts.memory_checks import check_counters, check_result_cache
from tests.faults.parts.tables_checks import CHECKS

CALLS: Final = 50
NAMES: Final = ("a", "b", "c")
SPACES: Final = ("default", "shop")
RESOURCES: Final = ("example.com/gpu", "example.com/nic")
#: Kinds that mooring does not know, as plugins name them; and one that it knows, without events.
OWN_KINDS: Final = ("podgroups.v1alpha1.scheduling.x-k8s.io", "queues.v1.example.com")
WITHOUT_EVENTS: Final = "priorityclasses.v1.scheduling.k8s.io"
#: Kinds whose events have members of EventResource, under other names.
REFUSED: Final = ("nodes.v1.", "pods.v1.", "persistentvolumes.v1.", "csinodes.v1.storage.k8s.io")
MEMBERS: Final = {
    EventResource.PERSISTENT_VOLUME: "PersistentVolume",
    EventResource.CSI_NODE: "CSINode",
    EventResource.RESOURCE_SLICE: "ResourceSlice",
}
#: The parts of a node, some values of each, and the columns in which they are.
NODE_VALUES: Final[dict[str, tuple[Any, ...]]] = {
    "labels": ({}, {"a": "x"}, {"a": "y"}),
    "annotations": ({}, {"a": "x"}),
    "taints": ([], [{"key": "a", "effect": "NoSchedule"}], [{"key": "b", "effect": "NoExecute"}]),
    "unschedulable": (False, True),
    "allocatable": ({"cpu": "1"}, {"cpu": "2"}, {"cpu": "1", "pods": "5"}),
    "conditions": ([], [{"type": "Ready", "status": "True"}], [{"type": "Ready", "status": "?"}]),
    "declaredFeatures": ([], ["A"]),
    "images": ([], [{"names": ["web:1"], "sizeBytes": 7}], [{"names": ["db:1"], "sizeBytes": 7}]),
}
#: Gate -> what it switches, and its default in Kubernetes 1.36.
GATES: Final = {
    "DRAPrioritizedList": ("has_alternatives", True),
    "DRAPartitionableDevices": ("has_partitions", True),
    "DRADeviceTaints": ("has_taints", True),
    "DRADeviceTaintRules": ("has_taint_rules", False),
    "DRAConsumableCapacity": ("is_shareable", True),
    "DRADeviceBindingConditions": ("has_binding_conditions", True),
    "DRAResourceClaimDeviceStatus": ("has_binding_conditions", True),
    "DRAExtendedResource": ("maps_resources", True),
    "DRASchedulerFilterTimeout": ("has_filter_timeout", True),
}
DRIVERS: Final = ("a.csi.test", "b.csi.test")
#: Limits of a driver; None = it has none.
COUNTS: Final = (None, 0, 1, 5, -1)
AT: Final = "2026-01-01T00:00:00Z"
#: Specs of pods: of a few templates, with volumes that nothing reads.
POD_SPECS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"volumes": [{"name": "bare"}]},
    {"volumes": [{"name": "bare"}, {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
    {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
    {"containers": [{"name": "c", "ports": [{"hostPort": 80}]}], "hostNetwork": True},
    {"containers": [{"name": "c"}], "overhead": {"cpu": "250m"}},
    {
        "containers": [{"name": "c", "resources": {"requests": {"memory": "1Gi"}}}],
        "resources": {"requests": {"cpu": "2"}},
    },
)
NODE_PARTS: Final = tuple(NODE_VALUES)
KINDS_OF_PARTS: Final = {
    "labels": Change.LABELS,
    "annotations": Change.OTHER,
    "taints": Change.TAINTS,
    "unschedulable": Change.TAINTS,
    "allocatable": Change.ALLOCATABLE,
    "conditions": Change.OTHER,
    "declaredFeatures": Change.OTHER,
    "images": Change.IMAGES,
}


def check_listers(rng: Rng) -> None:
    """Compares what plugins list with dicts of the objects, of kinds that are listed or not."""
    keeps_all = rng.random() < 0.5
    listers = Listers(keeps_all=keeps_all)
    stored: dict[str, dict[tuple[str, str], Any]] = {}
    for kind in ("Pod", "Node"):
        if rng.random() < 0.6:
            stored[kind] = {}
            assert listers.lister(kind) is listers.get(kind)
    for _ in range(CALLS):
        kind = rng.choice(("Pod", "Node"))
        space = rng.choice(SPACES) if kind == "Pod" else ""
        at = space, rng.choice(NAMES)
        objects = stored.setdefault(kind, {}) if keeps_all else stored.get(kind)
        old = objects.get(at) if objects is not None else None
        labels = {"app": rng.choice("xy")} if rng.random() < 0.7 else {}
        new: Any = None
        if old is None or rng.random() < 0.6:
            new = (
                make_pod(at[1], namespace=space, labels=labels)
                if kind == "Pod"
                else make_node(at[1], labels=labels)
            )
        listers.apply(kind, old, new)
        if objects is not None:
            objects.pop(at, None) if new is None else objects.update({at: new})
        assert sorted(listers.kinds) == sorted(stored), f"{listers.kinds} are listed"
        for of_kind, expected in stored.items():
            lister = listers.get(of_kind)
            assert lister is not None
            assert lister.kind == of_kind, f"the lister of {of_kind} is of {lister.kind}"
            _compare_lister(rng, lister, expected)
    for kind in {"Pod", "Node"} - stored.keys():
        assert listers.get(kind) is None, f"{kind} is listed"


def _compare_lister(rng: Rng, lister: Lister, expected: dict[tuple[str, str], Any]) -> None:
    def names(objects: Any) -> list[int]:
        return sorted(map(id, objects))

    assert names(lister) == names(expected.values()), f"{lister.kind}: other objects"
    assert len(lister) == len(expected)
    selected = rng.choice((None, {}, {"app": "x"}))
    for space in (None, "", *SPACES):
        due = [
            obj
            for (at, _), obj in expected.items()
            if space in (None, at) and (selected or {}).items() <= obj.metadata.labels.items()
        ]
        assert names(lister.list(space, labels=selected)) == names(due), f"{space} {selected}"
        for name in NAMES:
            assert lister.get(name, space or "") is expected.get((space or "", name))


def check_namespaces(rng: Rng) -> None:
    """Compares the namespaces that selectors select."""
    namespaces, stored = Namespaces(), dict[str, dict[str, str]]()
    selectors = [
        Selector(),
        selector_of([requirement("team", "In", ("x",))]),
        selector_of([requirement("team", "NotIn", ("x",))]),
        selector_of([requirement("team", "Exists")]),
    ]
    for _ in range(CALLS):
        name = rng.choice(NAMES)
        if rng.random() < 0.3:
            namespaces.remove("Namespace", name)
            stored.pop(name, None)
        else:
            stored[name] = {"team": rng.choice("xy")} if rng.random() < 0.7 else {}
            namespaces.put(Namespace(metadata=ObjectMeta(name=name, labels=stored[name])))
        assert len(namespaces) == len(stored)
        for other in NAMES:
            assert namespaces.labels(other) == stored.get(other, {}), f"labels of {other}"
        for selector in rng.sample(selectors, 2):
            expected = {other for other, labels in stored.items() if selector.matches(labels)}
            actual = namespaces.selected_by(selector)
            assert actual == expected, f"{selector} selects {set(actual)}, not {expected}"


class ClassesModel:
    """Extended resource -> name and time of its class, as upstream's handlers keep it.

    Source: k8s.io/dynamic-resource-allocation deviceclass/extendedresourcecache.
    """

    def __init__(self) -> None:
        self.stored: dict[str, Any] = {}
        self.class_of: dict[str, tuple[str, int]] = {}

    def remove(self, name: str) -> bool:
        """Removes a class, with what it maps; returns whether there was one."""
        old = self.stored.pop(name, None)
        for resource in _resources_of(old):
            self.class_of.pop(resource, None)
        return old is not None

    def put(self, obj: Any, seconds: int) -> None:
        """Stores a class; one that loses against another is not mapped at all."""
        name, resource = obj.metadata.name, obj.spec.extended_resource_name
        old, self.stored[name] = self.stored.get(name), obj
        rival = self.class_of.get(resource or "")
        if rival is not None and (-seconds, name) >= (-rival[1], rival[0]):
            return
        for of_old in _resources_of(old):
            self.class_of.pop(of_old, None)
        self.class_of |= dict.fromkeys(_resources_of(obj), (name, seconds))


def check_device_classes(rng: Rng) -> None:
    """Compares the class of each extended resource with a map."""
    maps = rng.random() < 0.8
    classes, model = DeviceClasses(maps_resources=maps), ClassesModel()
    for _ in range(CALLS):
        name, version, is_change = rng.choice(NAMES), classes.version, True
        if rng.random() < 0.3:
            classes.remove("DeviceClass", name)
            is_change = model.remove(name)
        else:
            seconds = rng.randrange(3)
            obj = _device_class(name, seconds, rng.choice((None, *RESOURCES)))
            classes.put(obj)
            model.put(obj, seconds)
        assert (classes.version > version) == is_change
        assert sorted(classes.names()) == sorted(model.stored)
        assert len(classes) == len(model.stored)
        for other in NAMES:
            assert classes.get(other) is model.stored.get(other)
        for resource in (*RESOURCES, *(f"{RESOURCE_PREFIX}{other}" for other in NAMES)):
            expected = model.class_of.get(resource, (None, 0))[0] if maps else None
            actual = classes.class_of(resource)
            assert actual == expected, f"{resource} is of {actual}, not {expected}"


def _resources_of(obj: Any) -> list[str]:
    if obj is None:
        return []
    resource = obj.spec.extended_resource_name
    return [RESOURCE_PREFIX + obj.metadata.name, *([resource] if resource is not None else [])]


def _device_class(name: str, seconds: int, resource: str | None) -> Any:
    created = f"2026-01-01T00:00:0{seconds}Z"
    spec = {} if resource is None else {"extendedResourceName": resource}
    metadata = {"name": name, "creationTimestamp": created}
    return convert({"metadata": metadata, "spec": spec}, "DeviceClass")


def check_watched_kinds(rng: Rng) -> None:
    """Compares which kinds are watched, and which of them have events for plugins alone."""
    registered: list[EventResource | str] = rng.sample(list(MEMBERS), rng.randrange(3))
    texts = rng.sample([*OWN_KINDS, WITHOUT_EVENTS], rng.randrange(4))
    needs = [rng.sample(["StorageClass", "Node", *OWN_KINDS], rng.randrange(3)) for _ in range(2)]
    listed = rng.sample(["Namespace", *OWN_KINDS], rng.randrange(3))
    profiles: Any = {
        str(number): SimpleNamespace(profile=SimpleNamespace(needs=lambda kinds=kinds: kinds))
        for number, kinds in enumerate(needs)
    }
    listers = Listers()
    for kind in listed:
        listers.lister(kind)
    resources = follow_kinds(profiles, [*registered, *texts], listers)
    generic = {name for name in (*texts, *needs[0], *needs[1], *listed) if name in OWN_KINDS}
    due = {name: name for name in generic}
    if WITHOUT_EVENTS in texts:
        due["PriorityClass"] = WITHOUT_EVENTS
    assert resources == due, f"{resources}, not {due}"
    assert set(listers.kinds) == {*listed, *due}, f"{listers.kinds} are listed"
    also = rng.sample(["Lease", "Pod"], rng.randrange(3))
    kinds = watched_kinds(profiles, registered, listers, also)
    others = {MEMBERS[it] for it in registered if isinstance(it, EventResource)}
    expected = {"Node", "Pod", *others, *needs[0], *needs[1], *listed, *due, *also}
    assert (kinds[0], kinds[-1]) == ("Node", "Pod"), f"{kinds} are watched"
    assert sorted(kinds) == sorted(expected), f"{kinds} are watched, not {expected}"
    for resource in REFUSED:
        with pytest.raises(ConfigError):
            follow_kinds(profiles, [resource], Listers())


def check_node_changes(rng: Rng) -> None:
    """Compares the columns that change with a node, or with a pod on it."""
    cache, stored = Cache(), dict[str, dict[str, Any]]()
    for number in range(CALLS):
        name = rng.choice(NAMES)
        old, generation = stored.get(name), cache.nodes.log.generation
        if old is not None and rng.random() < 0.3:
            ports = [{"hostPort": 80 + number}] if rng.random() < 0.5 else []
            requests = rng.choice(({}, {"cpu": "1"}))
            container = {"name": "c", "ports": ports, "resources": {"requests": requests}}
            cache.put_pod(make_pod(f"p{number}", node=name, spec={"containers": [container]}))
            expected = Change.USAGE | (Change.PORTS if ports else 0)
        else:
            parts = NODE_PARTS if old is None else rng.sample(NODE_PARTS, rng.choice((0, 1, 1, 2)))
            drawn = {it: rng.choice(NODE_VALUES[it]) for it in parts}
            new = stored[name] = {**(old or {}), **drawn}
            cache.put_node(convert(_node(name, new), "Node"))
            expected = Change.ALL
            if old is not None:
                changed = [KINDS_OF_PARTS[it] for it in parts if old[it] != new[it]]
                expected = reduce(or_, changed, Change(0))
        changes = cache.nodes.log.since(generation)
        assert changes is not None
        rows, kinds = (column.tolist() for column in changes)
        assert set(rows) <= {cache.nodes.row(name)}, f"{rows} change with {name}"
        actual = reduce(or_, kinds, 0)
        assert actual == expected, f"{old} and {stored[name]}: {Change(actual)}, not {expected}"


def check_shared_parts(rng: Rng) -> None:
    """Compares pods of shared parts with what they were made of, in a pool of any size."""
    size = rng.choice((1, 3, 20, 1000))
    pool = InternPool(size)
    before: dict[int, PodInfo] = {}
    for number in range(CALLS):
        at = rng.randrange(len(POD_SPECS))
        conditions = [{"type": "A", "status": "True", "lastTransitionTime": AT}]
        status: dict[str, Any] = {"conditions": conditions}
        status |= dict(rng.choice(((), (("startTime", AT),), (("phase", "Running"),))))
        name, spec = f"p{number}", deepcopy(POD_SPECS[at])
        node = rng.choice(("", "a"))
        pod = make_pod(name, uid=name, labels={"app": "x"}, node=node, spec=spec, status=status)
        if rng.random() < 0.4:
            pending = pool.pending_info(pod)
            assert pending.pod is pod, f"{pod} is pending as another pod"
            _compare_amounts(pending, PodInfo(pod))
            continue
        info = pool.pod_info(pod)
        condition = replace(pod.status.conditions[0], last_transition_time=None)
        volumes = tuple(it for it in pod.spec.volumes if it.name != "bare")
        expected = replace(
            pod,
            spec=replace(pod.spec, volumes=volumes),
            status=replace(pod.status, conditions=(condition,)),
        )
        assert info.pod == expected, f"{info.pod}, not {expected}"
        _compare_amounts(info, PodInfo(pod))
        assert len(pool) <= pool.limit == 2 * size, f"{len(pool)} parts of {2 * size}"
        earlier = before.get(at)
        if earlier is not None and size == 1000:
            parts = [(it.pod.spec.containers, it.pod.metadata.labels) for it in (earlier, info)]
            is_shared = [old is new for old, new in zip(*parts, strict=True)]
            assert all(is_shared), f"{at}: {is_shared} are shared"
        before[at] = info


def _compare_amounts(info: PodInfo, own: PodInfo) -> None:
    for name in ("requests", "usage", "nonzero_usage", "host_ports", "start_s"):
        actual, expected = getattr(info, name), getattr(own, name)
        assert actual == expected, f"{name} of {info.pod}: {actual}, not {expected}"
    for resource in ("cpu", "memory"):
        actual = info.score_request(resource, exact=False)
        assert actual == own.score_request(resource, exact=False), f"{resource} of {info.pod}"


def check_csi_nodes(rng: Rng) -> None:
    """Compares what is said of the drivers of nodes, and how many disks are in use."""
    cache, stored = Cache(), dict[str, dict[str, int | None]]()
    names = rng.sample(NAMES, rng.randint(1, 3))
    for name in names:
        cache.put_node(make_node(name))
    csi_nodes, use = cache.storage.csi_nodes, cache.storage.use
    disks: dict[str, str] = {}
    for number in range(CALLS):
        name, draw = rng.choice(NAMES), rng.random()
        if draw < 0.4:
            counts = {it: rng.choice(COUNTS) for it in DRIVERS if rng.random() < 0.7}
            stored[name] = counts
            cache.put_object("CSINode", convert(_csi_node(name, counts), "CSINode"))
        elif draw < 0.6:
            stored.pop(name, None)
            cache.remove_object("CSINode", name)
        elif draw < 0.8:
            disk = disks[f"p{number}"] = rng.choice("xyz")
            volume = {"name": "v", "gcePersistentDisk": {"pdName": disk}}
            uid, spec = f"p{number}", {"volumes": [volume]}
            cache.put_pod(make_pod(uid, uid=uid, node=rng.choice(names), spec=spec))
        elif disks:
            uid = rng.choice(list(disks))
            del disks[uid]
            cache.remove_pod(uid)
        assert len(use.disks) == len(set(disks.values())), f"{disks}: {len(use.disks)} in use"
        listed = sorted(it for it, _ in csi_nodes.items())
        assert listed == sorted(stored), f"{listed}, not {sorted(stored)}"
        for it in NAMES:
            assert (csi_nodes.get(it) is not None) == (it in stored), f"{it} of {stored}"
        _compare_limits(csi_nodes, stored, {it: cache.nodes.row(it) for it in names})


def _compare_limits(
    csi_nodes: Any, stored: dict[str, dict[str, int | None]], rows: dict[str, int]
) -> None:
    for name, row in rows.items():
        counts = stored.get(name, {})
        limits = {it: max(0, count) for it, count in counts.items() if count is not None}
        for driver in DRIVERS:
            limit = csi_nodes.limit(driver, name)
            assert limit == limits.get(driver, NO_LIMIT), f"{driver} on {name}: {limit}, {counts}"
            has_driver = bool(csi_nodes.have_driver(driver)[row])
            assert has_driver == (driver in counts), f"{driver} on {name}: {has_driver}, {counts}"
        actual = bool(csi_nodes.has_limits()[row]), bool(csi_nodes.has_csi_node_by_row()[row])
        assert actual == (bool(limits), name in stored), f"{name}: {actual}, {stored}"


def _csi_node(name: str, counts: dict[str, int | None]) -> dict[str, Any]:
    drivers = [
        {"name": driver, "nodeID": name}
        | ({} if count is None else {"allocatable": {"count": count}})
        for driver, count in counts.items()
    ]
    return {"metadata": {"name": name}, "spec": {"drivers": drivers}}


def _node(name: str, parts: dict[str, Any]) -> dict[str, Any]:
    """Returns a node as a document."""
    status = {it: parts[it] for it in ("allocatable", "conditions", "declaredFeatures", "images")}
    metadata = {"name": name, "labels": parts["labels"], "annotations": parts["annotations"]}
    spec = {"taints": parts["taints"], "unschedulable": parts["unschedulable"]}
    return {"metadata": metadata, "spec": spec, "status": status}


STORES: Final[tuple[Callable[[Rng], None], ...]] = (
    check_listers,
    check_namespaces,
    check_device_classes,
    check_watched_kinds,
    check_node_changes,
    check_shared_parts,
    check_csi_nodes,
    check_allocated,
)


def check_device_features(rng: Rng) -> None:
    """Compares what gates switch on or off with a table, for some gates with another value."""
    gates = {
        gate: rng.random() < 0.5
        for gate in (*GATES, "PodLevelResources", "DRAAdminAccess")
        if rng.random() < 0.5
    }
    expected: dict[str, bool] = {}
    for gate, (feature, default) in GATES.items():
        expected[feature] = gates.get(gate, default) and expected.get(feature, True)
    features = features_of(gates)
    actual = {name: getattr(features, name) for name in expected}
    assert actual == expected, f"{gates} make {actual}, not {expected}"
    is_stable = not expected["is_shareable"] and not expected["has_binding_conditions"]
    assert features.is_stable is is_stable, f"{gates}: another allocator than upstream's"


def run_tables(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a part differs from the plain list or dict.
    """
    rng = seeded_random(seed)
    with pytest.MonkeyPatch.context() as patch:
        set_limit(patch, changes, "LENGTH_MAX", rng.choice((1, 2, 5)))
        set_limit(patch, namespaces_module, "SELECTIONS_CACHED", rng.choice((1, 2, 4)))
        set_limit(patch, affinity_terms, "ENTRIES_MIN", rng.choice((1, 2, 4)))
        for check in (*CHECKS, *STORES):
            check(rng)
    # With a generator of their own: what the others draw stays the same.
    for check in (check_result_cache, check_counters, check_device_features):
        check(Random(f"{seed} {check.__name__}"))
