"""Whether all that should be quantities in a decoded object are: found at once, not when it counts.

The decoder lets any text and number into a mapping of resources: to match a pattern on each of them
took it as long as all the rest of a pod. Here the amounts of a whole object are looked up among
those that were quantities before, a few hundred in any cluster; only new ones are parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, NamedTuple, get_args, get_origin

import msgspec

from mooring.objects.meta import ResourceList, ResourceRequirements
from mooring.objects.pod import Pod
from mooring.objects.quantity import Quantity, QuantityError

#: Texts that are remembered; a hostile cluster fills this up, and is only slower then.
KNOWN_MAX: Final = 16_384


class BadQuantity(NamedTuple):
    """What stands where a quantity should; ``path`` as on the wire."""

    path: str
    value: Any


class _Part(NamedTuple):
    """One field of a struct, perhaps deep inside: resources, or structs that have some."""

    path: str
    plan: _Plan | None


class _Plan(NamedTuple):
    """Where the resources of a struct are: one attribute for each part."""

    attributes_of: Callable[[Any], tuple[Any, ...]]
    parts: tuple[_Part, ...]


class _KnownTexts:
    """Texts that are quantities for sure."""

    def __init__(self) -> None:
        texts: set[Any] = set()
        #: Whether all these were quantities before.
        self.have: Final = texts.issuperset
        self._texts = texts

    def accept(self, resources: Mapping[str, Any]) -> bool:
        """Returns whether all amounts are quantities."""
        return self.have(resources.values()) or all(map(self._learn, resources.values()))

    def _learn(self, raw: Any) -> bool:
        if not is_quantity(raw):
            return False
        if len(self._texts) < KNOWN_MAX:
            self._texts.add(raw)
        return True


_KNOWN: Final = _KnownTexts()
_NOTHING: Final = ResourceRequirements()


def first_bad_quantity(obj: Any) -> BadQuantity | None:
    """What is not a quantity in the resources of a decoded object; None if all is well.

    Example:
        >>> from mooring.objects import Node
        >>> from mooring.objects.node import NodeStatus
        >>> first_bad_quantity(Node(status=NodeStatus(capacity={"cpu": "8", "pods": "many"})))
        BadQuantity(path='status.capacity.pods', value='many')
    """
    if obj.__class__ is Pod and _is_known_pod(obj):
        return None
    plan = _plan_of(obj.__class__)
    if plan is None or _is_sound(obj, plan):
        return None
    return next(_bad_quantities(obj, plan, ""))


def is_quantity(raw: Any) -> bool:
    """Returns whether ``raw`` is a quantity as it stands in JSON: text or a number."""
    try:
        Quantity.from_wire(raw)
    except QuantityError:
        return False
    return True


def _is_known_pod(pod: Pod) -> bool:
    """Returns whether this is a common pod with known amounts; else it must be looked at closely.

    Pods come by the ten thousand: what is written out here takes a third of the general way.
    """
    spec, status, have = pod.spec, pod.status, _KNOWN.have
    if spec.init_containers or spec.overhead or spec.resources is not None:
        return False
    if status.init_container_statuses or status.allocated_resources or status.resources is not None:
        return False
    for container in spec.containers:
        asked = container.resources
        if not (have(asked.requests.values()) and have(asked.limits.values())):
            return False
    for found in status.container_statuses:
        given = found.resources or _NOTHING
        if not (have(given.requests.values()) and have(given.limits.values())):
            return False
        if not have(found.allocated_resources.values()):
            return False
    for volume in spec.volumes:  # noqa: SIM110 - a generator takes twice as long
        if volume.ephemeral is not None:
            return False
    return True


def _is_sound(obj: Any, plan: _Plan) -> bool:
    for value, part in zip(plan.attributes_of(obj), plan.parts, strict=True):
        if not value:
            continue
        if part.plan is None:
            if not _KNOWN.accept(value):
                return False
            continue
        for inner in value if value.__class__ is tuple else (value,):
            if not _is_sound(inner, part.plan):
                return False
    return True


def _bad_quantities(obj: Any, plan: _Plan, place: str) -> Iterator[BadQuantity]:
    for value, part in zip(plan.attributes_of(obj), plan.parts, strict=True):
        path = f"{place}{part.path}"
        if not value:
            continue
        if part.plan is None:
            bad = [name for name, raw in value.items() if not is_quantity(raw)]
            yield from (BadQuantity(f"{path}.{name}", value[name]) for name in bad)
        elif isinstance(value, tuple):
            for index, inner in enumerate(value):
                yield from _bad_quantities(inner, part.plan, f"{path}[{index}].")
        else:
            yield from _bad_quantities(value, part.plan, f"{path}.")


@lru_cache(maxsize=256)
def _plan_of(struct: Any) -> _Plan | None:
    """How to find the resources of a struct; None if it has none."""
    found = list(_parts_of(struct))
    if not found:
        return None
    names = [name for name, _ in found]
    get = attrgetter(*names)
    parts = tuple(part for _, part in found)
    return _Plan(get if len(names) > 1 else lambda obj: (get(obj),), parts)


def _parts_of(struct: type[Any]) -> Iterator[tuple[str, _Part]]:
    """Attribute and part; what is always there is looked through: "spec.containers"."""
    for field in msgspec.structs.fields(struct):
        if field.type == ResourceList:
            yield field.name, _Part(field.encode_name, None)
        elif _is_struct(field.type):
            for name, part in _parts_of(field.type):
                path = f"{field.encode_name}.{part.path}"
                yield f"{field.name}.{name}", part._replace(path=path)
        elif get_origin(field.type) is not dict:
            inner = next((hint for hint in get_args(field.type) if _is_struct(hint)), None)
            plan = _plan_of(inner) if inner is not None else None
            if plan is not None:
                yield field.name, _Part(field.encode_name, plan)


def _is_struct(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)
