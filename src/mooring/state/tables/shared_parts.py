"""Deduplicates the parts of the pods on nodes, to save memory.

Most pods of a cluster are copies of few templates, so their containers, tolerations, labels and
statuses are equal, though each pod was decoded on its own. What differs per pod
(name, UID, resourceVersion, node) stays with the pod; everything else is shared, and so is what was
derived from it. A typical pod shrinks from 9 KB to about 1 KB.

The pool drops parts that were not requested recently; pods keep references to their parts.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from mooring.objects.meta import ObjectMeta
from mooring.objects.pod import Pod, PodCondition, PodSpec, PodStatus, Volume
from mooring.state.tables.pods import Derived, PodInfo

#: Entries in each half of the pool: more than a large cluster has templates, and at 1 KB each only
#: tens of megabytes.
POOL_SIZE: Final = 1 << 15
#: Specs that are recognized by identity: those of a scenario's templates.
RECENT_SPECS_MAX: Final = 64

#: Resets the metadata fields that identify one pod; the other fields may be equal in a template.
_NO_IDENTITY: Final[dict[str, Any]] = {
    "name": "",
    "uid": "",
    "resource_version": "",
    "creation_timestamp": None,
    "deletion_timestamp": None,
}

#: The fields of spec and status from which a pod's amounts are derived.
_spec_of_amounts: Final = attrgetter(
    "containers", "init_containers", "overhead", "resources", "host_network"
)
_status_of_amounts: Final = attrgetter(
    "conditions",
    "container_statuses",
    "init_container_statuses",
    "allocated_resources",
    "resources",
)

Part = TypeVar("Part")


class InternPool:
    """A pool of shared parts of pods. Its owner is the Cache.

    Two generations: a requested part moves to the recent one; when that is full, the previous one
    is dropped and the recent one takes its place. Parts in use stay, and the size is bounded.
    """

    def __init__(self, size: int = POOL_SIZE) -> None:
        self._size = size
        self._recent: dict[Any, Any] = {}
        self._previous: dict[Any, Any] = {}
        #: Id of a spec -> the spec, and what is derived from it: pods of a template share it.
        self._recent_specs: dict[int, tuple[PodSpec, Derived]] = {}
        self._encode = msgspec.msgpack.Encoder().encode

    @property
    def limit(self) -> int:
        """The most parts that both generations hold together."""
        return 2 * self._size

    def __len__(self) -> int:
        return len(self._recent) + len(self._previous)

    def pending_info(self, pod: Pod) -> PodInfo:
        """Returns the PodInfo of a pending pod, with the amounts derived from an equal pod."""
        info, spec = PodInfo(pod), pod.spec
        if any(_status_of_amounts(pod.status)):
            return info
        entry = self._recent_specs.get(id(spec))
        if entry is not None and entry[0] is spec:
            info.adopt_derived(entry[1])
            return info
        key = ("pending", self._encode(_spec_of_amounts(spec)))
        derived = self._find(key)
        if derived is None:
            derived = info.derived()
            self._store(key, derived)
        else:
            info.adopt_derived(derived)
        if len(self._recent_specs) >= RECENT_SPECS_MAX:
            self._recent_specs.clear()
        self._recent_specs[id(spec)] = spec, derived
        return info

    def pod_info(self, pod: Pod) -> PodInfo:
        """Returns the PodInfo of a pod on a node, built from shared parts.

        Omits volumes that only have a name (ConfigMaps, tokens) and the times of conditions:
        scheduling does not read them. Everything else is unchanged.
        """
        spec, status = self._spec(pod.spec), self._status(pod.status)
        start_time = pod.status.start_time
        info = PodInfo(
            replace(
                pod,
                api_version=self._text(pod.api_version),
                kind=self._text(pod.kind),
                metadata=self._metadata(pod.metadata),
                spec=replace(spec, node_name=self._text(pod.spec.node_name)),
                status=replace(status, start_time=start_time and self._text(start_time)),
            )
        )
        # Equal templates are the same object, and the entry keeps it alive: its id is the key.
        key = ("amounts", id(spec), id(status))
        entry = self._find(key)
        if entry is None:
            self._store(key, (spec, status, info.derived()))
        else:
            info.adopt_derived(entry[2])
        return info

    def _metadata(self, own: ObjectMeta) -> ObjectMeta:
        created = own.creation_timestamp
        return replace(
            self._template(replace(own, **_NO_IDENTITY)),
            name=own.name,
            uid=own.uid,
            resource_version=own.resource_version,
            creation_timestamp=created and self._text(created),
            deletion_timestamp=own.deletion_timestamp,
        )

    def _spec(self, spec: PodSpec) -> PodSpec:
        volumes = spec.volumes and tuple(volume for volume in spec.volumes if not _is_bare(volume))
        return self._template(replace(spec, node_name="", volumes=volumes))

    def _status(self, status: PodStatus) -> PodStatus:
        conditions = tuple(map(_without_times, status.conditions))
        return self._template(replace(status, start_time=None, conditions=conditions))

    def _template(self, struct: Part) -> Part:
        """Returns the shared struct that equals ``struct``, which has no field of one pod only."""
        cls = struct.__class__
        key = (cls, self._encode(struct))
        shared: Part | None = self._find(key)
        if shared is None:
            shared = self._fields(struct, cls)
            self._store(key, shared)
        return shared

    def _fields(self, struct: Part, cls: type[Part]) -> Part:
        """Returns the struct with shared values in every field that other pods may have equal."""
        changed: dict[str, Any] = {}
        for name in cls.__struct_fields__:  # type: ignore[attr-defined]
            value = getattr(struct, name)
            if value.__class__ is str:
                if value:
                    changed[name] = self._text(value)
            elif value.__class__ not in _SMALL and value != ():
                changed[name] = self._part(name, value)
        return replace(struct, **changed)  # type: ignore[type-var]

    def _text(self, text: str) -> str:
        shared = self._find(text)
        if shared is None:
            self._store(text, text)
            return text
        return str(shared)

    def _part(self, field: str, part: Part) -> Part:
        key = (field, self._encode(part))
        shared: Part | None = self._find(key)
        if shared is None:
            self._store(key, part)
            return part
        return shared

    def _find(self, key: Any) -> Any:
        part = self._recent.get(key)
        if part is None:
            part = self._previous.get(key)
            if part is not None:
                self._store(key, part)
        return part

    def _store(self, key: Any, part: Any) -> None:
        if len(self._recent) >= self._size:
            self._previous, self._recent = self._recent, {}
        self._recent[key] = part


#: Types of values that are too small to be worth sharing.
_SMALL: Final = frozenset({int, bool, type(None)})


def _is_bare(volume: Volume) -> bool:
    return volume == Volume(name=volume.name)


def _without_times(condition: PodCondition) -> PodCondition:
    return replace(condition, last_probe_time=None, last_transition_time=None)
