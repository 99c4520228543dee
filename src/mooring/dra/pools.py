"""The resource pools that a node can use, in the order in which the allocator visits them.

Source: k8s.io/dynamic-resource-allocation structured/internal/incubating/pools_incubating.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

from mooring.dra.devices import CounterKey, DeviceID, PoolKey, PreparedSlice, SliceDevice
from mooring.dra.errors import AllocationError
from mooring.dra.nodes import TargetNode
from mooring.objects.quantity import Quantity


class Pool:
    """A pool of one driver as one node sees it.

    Attributes:
        key: Driver and name.
        state: "" = usable; "incomplete": slices are missing; "invalid": they contradict each other.
        problem: Why it is not usable, in words.
        devices: The devices in the order of allocation; none unless the pool is usable.
        other_devices: Those that other nodes use; they consume the same counters.
        counters: What the counter sets have, in billionths.
    """

    __slots__ = (
        "counters",
        "devices",
        "has_binding_conditions",
        "key",
        "other_devices",
        "problem",
        "state",
    )

    def __init__(
        self,
        key: PoolKey,
        *,
        state: str = "",
        problem: str = "",
        slices: Sequence[PreparedSlice] = (),
        others: Sequence[PreparedSlice] = (),
        counters: Mapping[CounterKey, int] = MappingProxyType({}),
    ) -> None:
        self.key = key
        self.state = state
        self.problem = problem
        self.devices = tuple(device for part in slices for device in part.devices)
        self.other_devices = tuple(device for part in others for device in part.all_devices)
        self.has_binding_conditions = any(part.has_binding_conditions for part in slices)
        self.counters = counters

    @property
    def name(self) -> str:
        """``driver/pool``."""
        return "/".join(self.key)


class NodePools:
    """All pools of a node: those with binding conditions last, otherwise by driver and name."""

    def __init__(self, pools: Iterable[Pool] = ()) -> None:
        self.pools = tuple(sorted(pools, key=lambda pool: (pool.has_binding_conditions, pool.key)))

    @cached_property
    def devices(self) -> tuple[SliceDevice, ...]:
        """The devices of the usable pools, in the order of allocation."""
        return tuple(device for pool in self.pools for device in pool.devices)

    @cached_property
    def ids(self) -> tuple[DeviceID, ...]:
        """The identities of ``devices``."""
        return tuple(device.id for device in self.devices)

    @cached_property
    def by_key(self) -> dict[PoolKey, Pool]:
        """The pools by driver and name."""
        return {pool.key: pool for pool in self.pools}

    @cached_property
    def keys(self) -> tuple[PoolKey, ...]:
        """Driver and name of each pool."""
        return tuple(pool.key for pool in self.pools)

    @cached_property
    def has_counters(self) -> bool:
        """True if a device consumes counters."""
        return any(device.consumption for device in self.devices)

    @cached_property
    def has_invalid(self) -> bool:
        """True if a pool is invalid."""
        return any(pool.state == "invalid" for pool in self.pools)


def gather_pools(
    node: TargetNode,
    candidates: Iterable[PreparedSlice],
    slices_of_pool: Callable[[PoolKey], Iterable[PreparedSlice]],
) -> NodePools:
    """Returns the pools of a node.

    Args:
        node: The node.
        candidates: The slices of the node itself, and those that are for several nodes.
        slices_of_pool: Returns all slices of a pool in the cluster.

    Raises:
        AllocationError: if a node selector of a slice or device is invalid.
    """
    newest: dict[PoolKey, list[PreparedSlice]] = {}
    for candidate in candidates:
        if not _is_relevant(candidate, node):
            continue
        slices = newest.setdefault(candidate.pool_key, [])
        if slices and candidate.generation > slices[0].generation:
            slices.clear()
        if not slices or candidate.generation == slices[0].generation:
            slices.append(candidate)
    pools = (_pool(key, slices, slices_of_pool) for key, slices in newest.items())
    return NodePools(pool for pool in pools if pool is not None)


def _is_relevant(candidate: PreparedSlice, node: TargetNode) -> bool:
    if candidate.is_ignored:
        return False
    if candidate.has_counters:
        return True
    try:
        if not candidate.reach.is_unknown:
            return candidate.reach.matches(node)
        if not candidate.is_per_device:
            return False
        return any(device.is_on(node) for device in candidate.devices)
    except AllocationError as error:
        raise AllocationError(
            "gather pool information: failed to perform node selection for slice "
            f"{candidate.name}: {error}"
        ) from error


def _pool(
    key: PoolKey,
    slices: list[PreparedSlice],
    slices_of_pool: Callable[[PoolKey], Iterable[PreparedSlice]],
) -> Pool | None:
    """Returns the pool of the newest relevant slices; None if a newer generation is elsewhere.

    A pool whose slices are all relevant is used even if a newer generation exists elsewhere.
    """
    count = slices[0].obj.spec.pool.resource_slice_count
    slices.sort(key=lambda part: part.name)
    if len(slices) == count:
        return _checked(key, slices, ())
    generation = slices[0].generation
    everywhere = list(slices_of_pool(key))
    if any(part.generation > generation for part in everywhere):
        return None
    current = [part for part in everywhere if part.generation == generation]
    if len(current) != count:
        problem = f"{len(current)} of {count} slices of generation {generation} exist"
        return Pool(key, state="incomplete", problem=problem)
    relevant = {part.name for part in slices}
    return _checked(key, slices, [part for part in current if part.name not in relevant])


def _checked(
    key: PoolKey, slices: Sequence[PreparedSlice], others: Sequence[PreparedSlice]
) -> Pool:
    """Returns the pool of these slices; it is invalid if they contradict each other."""
    names = [device.device.name for part in slices for device in part.devices]
    if len(names) != len(set(names)):
        return _invalid(key, f"several devices are named {_twice(names)}")
    if not slices[0].features.has_partitions:
        return Pool(key, slices=slices)
    sets = [counter_set for part in slices for counter_set in part.obj.spec.shared_counters]
    counters = {
        counter_set.name: {
            name: Quantity.from_wire(counter.value).nanos
            for name, counter in counter_set.counters.items()
        }
        for counter_set in sets
    }
    if len(counters) != len(sets):
        names = [counter_set.name for counter_set in sets]
        return _invalid(key, f"several counter sets are named {_twice(names)}")
    for part in (*slices, *others):
        if not _consumes_only(part, counters):
            return _invalid(key, f"a device of slice {part.name} consumes an unknown counter")
    flat = {(of, name): value for of, values in counters.items() for name, value in values.items()}
    return Pool(key, slices=slices, others=others, counters=flat)


def _invalid(key: PoolKey, problem: str) -> Pool:
    return Pool(key, state="invalid", problem=problem)


def _twice(names: Sequence[str]) -> str:
    """Returns the first name that is there several times."""
    return next(name for name in names if names.count(name) > 1)


def _consumes_only(part: PreparedSlice, counters: Mapping[str, Mapping[str, int]]) -> bool:
    """Returns whether all counters exist that devices of the slice consume."""
    return all(
        consumed.counter_set in counters
        and counters[consumed.counter_set].keys() >= consumed.counters.keys()
        for device in part.obj.spec.devices
        for consumed in device.consumes_counters
    )
