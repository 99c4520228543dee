"""Keeps the pods on nodes small: parts that are equal are kept once.

Most pods of a cluster are copies of few templates, so their containers, tolerations, labels and
statuses are equal to those of others, though each was decoded for itself. What differs per pod
(name, UID, resourceVersion, node) stays with the pod; all else is shared, and so is what was
computed of it. An ordinary pod shrinks from 9 KB to about 1 KB.

The pool holds a part as long as somebody asked for it lately; pods keep theirs in any case.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from mooring.objects.meta import ObjectMeta
from mooring.objects.pod import Pod, PodCondition, PodSpec, PodStatus, Volume
from mooring.state.pods import PodInfo

#: Parts kept in each half of the pool: more than templates of a large cluster, and at 1 KB each
#: still only some tens of megabytes.
POOL_SIZE: Final = 1 << 15

#: Fields whose values are as different as the pods.
_OWN_FIELDS: Final = frozenset({"name", "uid", "resource_version"})

#: What the amounts of a pod follow from: fields of its spec, and of its status.
_SPEC_OF_AMOUNTS: Final = ("containers", "init_containers", "overhead", "resources", "host_network")
_STATUS_OF_AMOUNTS: Final = (
    "conditions",
    "container_statuses",
    "init_container_statuses",
    "allocated_resources",
    "resources",
)

Part = TypeVar("Part")


class SharedParts:
    """A pool of parts of pods. Its owner is the Cache.

    Two halves: a part that is asked for moves to the young one; when that is full, the old half is
    dropped and the young one grows old. So what is in use stays, and the size is bounded.
    """

    def __init__(self, size: int = POOL_SIZE) -> None:
        self._size = size
        self._young: dict[Any, Any] = {}
        self._old: dict[Any, Any] = {}
        self._encode = msgspec.msgpack.Encoder().encode

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def pending_info(self, pod: Pod) -> PodInfo:
        """The PodInfo of a pod that waits: of this very object, with what an equal one asks for."""
        info = PodInfo(pod)
        if not any(getattr(pod.status, name) for name in _STATUS_OF_AMOUNTS):
            asked = [getattr(pod.spec, name) for name in _SPEC_OF_AMOUNTS]
            key = ("pending", self._encode(asked))
            known = self._find(key)
            if known is None:
                self._keep(key, info.computed())
            else:
                info.take_computed(known)
        return info

    def pod_info(self, pod: Pod) -> PodInfo:
        """The PodInfo of a pod on a node, made of shared parts.

        Volumes that only have a name, as those of ConfigMaps and tokens, are left out, and the
        times of conditions too: nothing that decides reads them. Everything else is as it was.
        """
        spec, status = self._spec(pod.spec), self._status(pod.status)
        info = PodInfo(
            replace(
                pod,
                api_version=self._text(pod.api_version),
                kind=self._text(pod.kind),
                metadata=self._fields(pod.metadata, ObjectMeta),
                spec=spec,
                status=status,
            )
        )
        parts = (
            *(getattr(spec, name) for name in _SPEC_OF_AMOUNTS),
            *(getattr(status, name) for name in _STATUS_OF_AMOUNTS),
        )
        # Equal parts are the same objects, and the entry keeps them alive: their ids are a key.
        key = ("amounts", *map(id, parts))
        known = self._find(key)
        if known is None:
            self._keep(key, (parts, info.computed()))
        else:
            info.take_computed(known[1])
        return info

    def _spec(self, spec: PodSpec) -> PodSpec:
        volumes = tuple(volume for volume in spec.volumes if volume != Volume(name=volume.name))
        return self._fields(replace(spec, volumes=volumes), PodSpec)

    def _status(self, status: PodStatus) -> PodStatus:
        conditions = tuple(map(_without_times, status.conditions))
        return self._fields(replace(status, conditions=conditions), PodStatus)

    def _fields(self, struct: Part, kind: type[Part]) -> Part:
        """The struct with every field shared that may be equal to another pod's."""
        changed: dict[str, Any] = {}
        for name in kind.__struct_fields__:  # type: ignore[attr-defined]
            value = getattr(struct, name)
            if value.__class__ is str:
                if value and name not in _OWN_FIELDS:
                    changed[name] = self._text(value)
            elif value.__class__ not in _SMALL and value != ():
                changed[name] = self._part(name, value)
        return replace(struct, **changed)  # type: ignore[type-var]

    def _text(self, text: str) -> str:
        found = self._find(text)
        if found is None:
            self._keep(text, text)
            return text
        return str(found)

    def _part(self, field: str, part: Part) -> Part:
        key = (field, self._encode(part))
        found: Part | None = self._find(key)
        if found is None:
            self._keep(key, part)
            return part
        return found

    def _find(self, key: Any) -> Any:
        found = self._young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is not None:
                self._keep(key, found)
        return found

    def _keep(self, key: Any, part: Any) -> None:
        if len(self._young) >= self._size:
            self._old, self._young = self._young, {}
        self._young[key] = part


#: Values that take no room of their own worth sharing.
_SMALL: Final = frozenset({int, bool, type(None)})


def _without_times(condition: PodCondition) -> PodCondition:
    return replace(condition, last_probe_time=None, last_transition_time=None)
