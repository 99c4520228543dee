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
from mooring.state.tables.pods import PodInfo

#: Parts kept in each half of the pool: more than templates of a large cluster, and at 1 KB each
#: still only some tens of megabytes.
POOL_SIZE: Final = 1 << 15

#: What takes a pod's own out of its metadata; all else may be as in the others of its template.
_NO_IDENTITY: Final[dict[str, Any]] = {
    "name": "",
    "uid": "",
    "resource_version": "",
    "creation_timestamp": None,
}

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


class InternPool:
    """A pool of parts of pods. Its owner is the Cache.

    Two halves: a part that is asked for moves to the young one; when that is full, the old half is
    dropped and the young one grows old. So what is in use stays, and the size is bounded.
    """

    def __init__(self, size: int = POOL_SIZE) -> None:
        self._size = size
        self._recent: dict[Any, Any] = {}
        self._previous: dict[Any, Any] = {}
        self._encode = msgspec.msgpack.Encoder().encode

    def __len__(self) -> int:
        return len(self._recent) + len(self._previous)

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
                info.adopt_derived(known)
        return info

    def pod_info(self, pod: Pod) -> PodInfo:
        """Returns the PodInfo of a pod on a node, made of shared parts.

        Volumes that only have a name, as those of ConfigMaps and tokens, are left out, and the
        times of conditions too: nothing that decides reads them. Everything else is as it was.
        """
        spec, status = self._spec(pod.spec), self._status(pod.status)
        begun = pod.status.start_time
        info = PodInfo(
            replace(
                pod,
                api_version=self._text(pod.api_version),
                kind=self._text(pod.kind),
                metadata=self._metadata(pod.metadata),
                spec=replace(spec, node_name=self._text(pod.spec.node_name)),
                status=replace(status, start_time=begun and self._text(begun)),
            )
        )
        # Equal templates are the same objects, and the entry keeps them alive: their ids are a key.
        key = ("amounts", id(spec), id(status))
        known = self._find(key)
        if known is None:
            self._keep(key, (spec, status, info.computed()))
        else:
            info.adopt_derived(known[2])
        return info

    def _metadata(self, own: ObjectMeta) -> ObjectMeta:
        created = own.creation_timestamp
        return replace(
            self._template(replace(own, **_NO_IDENTITY)),
            name=own.name,
            uid=own.uid,
            resource_version=own.resource_version,
            creation_timestamp=created and self._text(created),
        )

    def _spec(self, spec: PodSpec) -> PodSpec:
        volumes = spec.volumes and tuple(each for each in spec.volumes if not _is_bare(each))
        return self._template(replace(spec, node_name="", volumes=volumes))

    def _status(self, status: PodStatus) -> PodStatus:
        conditions = tuple(map(_without_times, status.conditions))
        return self._template(replace(status, start_time=None, conditions=conditions))

    def _template(self, struct: Part) -> Part:
        """The one struct for all that are equal; of one from which a pod's own has been taken."""
        kind = struct.__class__
        key = (kind, self._encode(struct))
        found: Part | None = self._find(key)
        if found is None:
            found = self._fields(struct, kind)
            self._keep(key, found)
        return found

    def _fields(self, struct: Part, kind: type[Part]) -> Part:
        """Returns the struct with every field shared that may be equal to another pod's."""
        changed: dict[str, Any] = {}
        for name in kind.__struct_fields__:  # type: ignore[attr-defined]
            value = getattr(struct, name)
            if value.__class__ is str:
                if value:
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
        found = self._recent.get(key)
        if found is None:
            found = self._previous.get(key)
            if found is not None:
                self._keep(key, found)
        return found

    def _keep(self, key: Any, part: Any) -> None:
        if len(self._recent) >= self._size:
            self._previous, self._recent = self._recent, {}
        self._recent[key] = part


#: Values that take no room of their own worth sharing.
_SMALL: Final = frozenset({int, bool, type(None)})


def _is_bare(volume: Volume) -> bool:
    return volume == Volume(name=volume.name)


def _without_times(condition: PodCondition) -> PodCondition:
    return replace(condition, last_probe_time=None, last_transition_time=None)
