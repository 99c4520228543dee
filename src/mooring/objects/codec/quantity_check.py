"""Validates all quantities of a decoded object.

The decoder accepts any text and number in a mapping of resources: matching a pattern on each of
them would double the time to decode a pod. Here the amounts of an object are looked up in a cache
of valid quantities, a few hundred in any cluster; only new ones are parsed.
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

#: Maximum number of cached texts; a hostile cluster fills the cache, and only becomes slower.
CACHED_MAX: Final = 16_384


class BadQuantity(NamedTuple):
    """An invalid quantity; ``path`` as in JSON."""

    path: str
    value: Any

    @property
    def problem(self) -> str:
        """The problem. Every integer is a quantity, but large ones cannot be encoded."""
        if isinstance(self.value, int):
            return "must be a string, since the number has more than 64 bits"
        return "is not a quantity"


class _Part(NamedTuple):
    """One (nested) field of a struct: resources, or structs that contain resources."""

    path: str
    plan: _Plan | None


class _Plan(NamedTuple):
    """The fields of a struct that contain resources: one attribute per part."""

    attributes_of: Callable[[Any], tuple[Any, ...]]
    parts: tuple[_Part, ...]


class _ValidTexts:
    """A cache of texts that are valid quantities."""

    def __init__(self) -> None:
        texts: set[Any] = set()
        #: Returns whether all of these are cached.
        self.have: Final = texts.issuperset
        self._texts = texts

    def accept(self, resources: Mapping[str, Any]) -> bool:
        """Returns whether all amounts are quantities."""
        return self.have(resources.values()) or all(map(self._learn, resources.values()))

    def _learn(self, raw: Any) -> bool:
        if not _is_supported(raw):
            return False
        if len(self._texts) < CACHED_MAX:
            self._texts.add(raw)
        return True


_VALID: Final = _ValidTexts()
_NOTHING: Final = ResourceRequirements()


def first_bad_quantity(obj: Any) -> BadQuantity | None:
    """Returns the first invalid quantity in the resources of a decoded object, or None.

    Example:
        >>> from mooring.objects import Node
        >>> from mooring.objects.node import NodeStatus
        >>> first_bad_quantity(Node(status=NodeStatus(capacity={"cpu": "8", "pods": "many"})))
        BadQuantity(path='status.capacity.pods', value='many')
    """
    if obj.__class__ is Pod and _is_ordinary_pod(obj):
        return None
    plan = _plan_of(obj.__class__)
    if plan is None or _is_valid(obj, plan):
        return None
    return next(_bad_quantities(obj, plan, ""))


def is_quantity(raw: Any) -> bool:
    """Returns whether ``raw`` is a valid quantity in JSON: text or a number."""
    try:
        Quantity.from_wire(raw)
    except QuantityError:
        return False
    return True


def _is_supported(raw: Any) -> bool:
    """Returns whether ``raw`` is a valid quantity that can be encoded again."""
    is_too_large = isinstance(raw, int) and not -(2**63) <= raw < 2**64
    return not is_too_large and is_quantity(raw)


def _is_ordinary_pod(pod: Pod) -> bool:
    """Returns whether this is an ordinary pod with cached amounts; else the general path is needed.

    There are many pods: this special case takes a third of the time of the general path.
    """
    spec, status, have = pod.spec, pod.status, _VALID.have
    if spec.init_containers or spec.overhead or spec.resources is not None:
        return False
    if status.init_container_statuses or status.allocated_resources or status.resources is not None:
        return False
    for container in spec.containers:
        resources = container.resources
        if not (have(resources.requests.values()) and have(resources.limits.values())):
            return False
    for container_status in status.container_statuses:
        status_resources = container_status.resources or _NOTHING
        if not (
            have(status_resources.requests.values()) and have(status_resources.limits.values())
        ):
            return False
        if not have(container_status.allocated_resources.values()):
            return False
    for volume in spec.volumes:  # noqa: SIM110 - a generator takes twice as long
        if volume.ephemeral is not None:
            return False
    return True


def _is_valid(obj: Any, plan: _Plan) -> bool:
    for value, part in zip(plan.attributes_of(obj), plan.parts, strict=True):
        if not value:
            continue
        if part.plan is None:
            if not _VALID.accept(value):
                return False
            continue
        for inner in value if value.__class__ is tuple else (value,):
            if not _is_valid(inner, part.plan):
                return False
    return True


def _bad_quantities(obj: Any, plan: _Plan, prefix: str) -> Iterator[BadQuantity]:
    for value, part in zip(plan.attributes_of(obj), plan.parts, strict=True):
        path = f"{prefix}{part.path}"
        if not value:
            continue
        if part.plan is None:
            bad = [name for name, raw in value.items() if not _is_supported(raw)]
            yield from (BadQuantity(f"{path}.{name}", value[name]) for name in bad)
        elif isinstance(value, tuple):
            for index, inner in enumerate(value):
                yield from _bad_quantities(inner, part.plan, f"{path}[{index}].")
        else:
            yield from _bad_quantities(value, part.plan, f"{path}.")


@lru_cache(maxsize=256)
def _plan_of(struct: Any) -> _Plan | None:
    """Returns the plan of a struct; None if it contains no resources, or is no struct."""
    if not _is_struct(struct):
        return None
    named_parts = list(_parts_of(struct))
    if not named_parts:
        return None
    names = [name for name, _ in named_parts]
    get = attrgetter(*names)
    parts = tuple(part for _, part in named_parts)
    return _Plan(get if len(names) > 1 else lambda obj: (get(obj),), parts)


def _parts_of(struct: type[Any]) -> Iterator[tuple[str, _Part]]:
    """Yields attribute and part; required structs are flattened: "spec.containers"."""
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
