"""Clusters whose pods fit nowhere, and changes of objects that may help some of them."""

from __future__ import annotations

from copy import deepcopy
from typing import NamedTuple

from mooring.clock import Rng
from tests.parity.differential_cases import KIND, THEMES, CaseMaker
from tests.parity.differential_themes import Document

ADD, UPDATE, DELETE = "add", "update", "delete"
CHANGES = 30
#: How often a kind changes; 2 for those that are not here.
WEIGHTS = {"Node": 8, "Pod": 8}
WEIGHTS |= dict.fromkeys(("Namespace", "Service", "ReplicaSet", "PodDisruptionBudget"), 1)

ObjectId = tuple[str, str, str]


class Change(NamedTuple):
    """Changes an object: as it was before, and as it is then; None = it is not there."""

    verb: str
    old: Document | None
    new: Document | None

    @property
    def object(self) -> Document:
        """The object that the change is about."""
        found = self.new if self.new is not None else self.old
        assert found is not None
        return found


class RequeueCase(NamedTuple):
    """A cluster, pods that are tried once, and what changes then."""

    name: str
    config: Document
    objects: list[Document]
    pods: list[Document]
    changes: list[Change]


def random_requeue_case(rng: Rng, *, with_devices: bool = False) -> RequeueCase:
    """Returns a case about one theme, about all of them, or about devices."""
    name = rng.choice([*THEMES, "volumes", "volumes", "affinity", "spread", "all", "all"])
    themes = list(THEMES.values()) if name == "all" else [THEMES[name]]
    room = rng.choice(("odd", "crowded", "roomy", "roomy"))
    if with_devices:
        name, themes, room = "devices", [], "roomy"
    makers = [CaseMaker(rng, themes, room) for _ in range(3)]
    for maker in makers:
        maker.sizes = (1, 2, 5, 9)
        maker.pods = (20, 60)
        maker.with_devices = with_devices
    made = makers[0].case(name)
    while made.percentage != 100:
        made = makers[0].case(name)
    pods = [_gated(rng, deepcopy(pod)) for pod in made.waiting()]
    others = [makers[number].case(name) for number in (1, 2)]
    changed = [deepcopy(obj) for case in others for obj in [*case.objects, *case.waiting()]]
    cluster = _Cluster(rng, [*made.objects, *pods], changed)
    config = made.config or {**KIND, "profiles": [{"schedulerName": "default-scheduler"}]}
    plugins = config["profiles"][0].setdefault("plugins", {})
    # No pod is evicted, and none is nominated.
    plugins["postFilter"] = {"disabled": [{"name": "DefaultPreemption"}]}
    return RequeueCase(
        name,
        config,
        [obj for obj in cluster.first if not _is_pending(obj)],
        [obj for obj in cluster.first if _is_pending(obj)],
        [cluster.change() for _ in range(CHANGES)],
    )


class _Cluster:
    """The objects as they are after each change, and others that may take their places."""

    def __init__(self, rng: Rng, objects: list[Document], others: list[Document]) -> None:
        self.rng = rng
        self.version = 0
        self.there: dict[ObjectId, Document] = {}
        #: Objects that are not there: those that were kept back, and those of the other cases.
        self.others: dict[ObjectId, list[Document]] = {}
        for obj in others:
            self.others.setdefault(_id_of(obj), []).append(obj)
        for obj in objects:
            if not _is_pending(obj) and rng.random() < (0.04 if obj["kind"] == "Node" else 0.15):
                self.others.setdefault(_id_of(obj), []).append(obj)
            else:
                self.there[_id_of(obj)] = self._stored(obj)
        kinds = dict.fromkeys(at[0] for at in self.others)
        self.kinds = [kind for kind in kinds for _ in range(WEIGHTS.get(kind, 2))]
        self.first = list(self.there.values())

    def _stored(self, obj: Document) -> Document:
        self.version += 1
        metadata = {**obj["metadata"], "resourceVersion": str(self.version)}
        return {**obj, "metadata": metadata}

    def change(self) -> Change:
        """Makes something happen."""
        while True:
            kind = self.rng.choice(self.kinds)
            made = self._change(self.rng.choice([at for at in self.others if at[0] == kind]))
            if made is not None:
                return made

    def _change(self, at: ObjectId) -> Change | None:
        old = self.there.get(at)
        other = self.rng.choice(self.others[at])
        if old is None:
            if _is_pending(other):
                return None
            if at[0] == "Node" and self.rng.random() < 0.7:
                return None  # a new node helps most pods, and then they no longer wait
            self.there[at] = self._stored(other)
            return Change(ADD, None, self.there[at])
        roll = self.rng.random()
        if roll < 0.2:
            del self.there[at]
            return Change(DELETE, old, None)
        new = self._changed(old, other)
        if new is None:
            return None
        self.there[at] = self._stored(new)
        return Change(UPDATE, old, self.there[at])

    def _changed(self, old: Document, other: Document) -> Document | None:
        rng, new = self.rng, deepcopy(old)
        if old["kind"] == "Node":
            for path in rng.sample(_NODE_PARTS, rng.choice((1, 1, 2))):
                _take(new, other, path)
        elif old["kind"] == "Pod":
            if _is_pending(old) != _is_pending(other):
                return None
            parts = _PENDING_PARTS if _is_pending(old) else _RUNNING_PARTS
            for path in rng.sample(parts, rng.choice((1, 1, 2))):
                _take(new, other, path)
            _change_requests(rng, new)
            if _is_pending(old) and rng.random() < 0.5:
                new["spec"].pop("schedulingGates", None)
        else:
            new = deepcopy(other)
        return new


_NODE_PARTS = (
    ("metadata", "labels"),
    ("metadata", "annotations"),
    ("spec", "taints"),
    ("spec", "unschedulable"),
    ("status", "allocatable"),
    ("status", "images"),
)
_RUNNING_PARTS = (
    ("metadata", "labels"),
    ("metadata", "annotations"),
    ("metadata", "deletionTimestamp"),
    ("status", "containerStatuses"),
    ("status", "conditions"),
)
_PENDING_PARTS = (
    ("metadata", "labels"),
    ("metadata", "annotations"),
    ("spec", "tolerations"),
    ("status", "conditions"),
)


def _take(new: Document, other: Document, path: tuple[str, str]) -> None:
    """Replaces a part of an object by that of another one."""
    part, name = path
    if name in other.get(part, {}):
        new.setdefault(part, {})[name] = deepcopy(other[part][name])
    else:
        new.get(part, {}).pop(name, None)


def _change_requests(rng: Rng, pod: Document) -> None:
    """Resizes a container, as the API server allows: down, up, or by another resource."""
    if rng.random() < 0.6:
        return
    container = rng.choice(pod["spec"]["containers"])
    requests = container.setdefault("resources", {}).setdefault("requests", {})
    requests[rng.choice(("cpu", "memory"))] = rng.choice(("1", "100m", "2", "64Mi", "1Gi"))


def _gated(rng: Rng, pod: Document) -> Document:
    if rng.random() < 0.1:
        pod["spec"]["schedulingGates"] = [{"name": "example.com/hold"}]
    return pod


def _is_pending(obj: Document) -> bool:
    return obj["kind"] == "Pod" and not obj["spec"].get("nodeName")


def _id_of(obj: Document) -> ObjectId:
    metadata = obj["metadata"]
    return obj["kind"], metadata.get("namespace", ""), metadata["name"]
