"""The devices in use, beside plain lists of the claims that have them, for ``tables``.

Claims are allocated, changed, deleted, and in flight in any order, also twice; they share devices,
of which they consume several capacities.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from mooring.clock import Rng
from mooring.dra import DeviceFeatures
from mooring.objects.codec.decode import convert
from mooring.state.devices.allocated import AllocatedDevices

CALLS: Final = 60
CLAIMS: Final = ("a", "b", "c")
POOLS: Final = ("p", "q")
DEVICES: Final = ("0", "1")
CAPACITIES: Final = ("memory", "cores")
NANOS: Final = 10**9

#: Pool, device, share ("" = it is used alone), and what is consumed.
Result = tuple[str, str, str, dict[str, int]]


class AllocatedModel:
    """Claims that are allocated, and those in flight, with their results."""

    def __init__(self, *, is_shareable: bool) -> None:
        self.allocated: dict[str, list[Result]] = {}
        self.in_flight: dict[str, list[Result]] = {}
        self._is_shareable = is_shareable
        #: Devices that are used alone: a set, so that the first release of one frees it.
        self._alone: set[tuple[str, str]] = set()

    def change(self, name: str, results: list[Result] | None) -> None:
        """Follows a change of a claim; None = it is not allocated any more."""
        before = self.allocated.pop(name, None)
        if results is not None:
            self.allocated[name] = results
        if before == results:
            return
        self._alone -= {(pool, device) for pool, device, *_ in self._alone_in(before or [])}
        self._alone |= {(pool, device) for pool, device, *_ in self._alone_in(results or [])}

    def _alone_in(self, results: list[Result]) -> Iterator[Result]:
        return (it for it in results if not it[2] or not self._is_shareable)

    def state(self) -> tuple[set[Any], set[Any], dict[Any, dict[str, int]]]:
        """Returns the devices used alone, the shared ones, and what is consumed of these."""
        alone, shared = set(self._alone), set()
        consumed: dict[Any, Counter[str]] = {}
        for results in self.in_flight.values():
            alone |= {(pool, device) for pool, device, *_ in self._alone_in(results)}
        for results in (*self.allocated.values(), *self.in_flight.values()):
            for pool, device, share, amounts in results:
                if share and self._is_shareable:
                    shared.add((pool, device))
                    consumed.setdefault((pool, device), Counter()).update(amounts)
        return alone, shared, {at: dict(+it) for at, it in consumed.items() if +it}


def check_allocated(rng: Rng) -> None:
    """Compares which devices are in use with the claims, and which pools have changed."""
    is_shareable = rng.random() < 0.8
    features = DeviceFeatures(is_shareable=is_shareable)
    changed: list[tuple[str, str]] = []
    devices, model = (
        AllocatedDevices(changed.append, features),
        AllocatedModel(is_shareable=is_shareable),
    )
    claims: dict[str, Any] = {}
    for number in range(CALLS):
        name, draw = rng.choice(CLAIMS), rng.random()
        before, version = model.state(), devices.version
        changed.clear()
        results = _drawn(rng, f"{name}-{number}")
        if draw < 0.45:
            is_gone = rng.random() < 0.3
            if rng.random() < 0.2 and name in model.allocated:
                results = model.allocated[name]  # another field changes
            new = None if is_gone else _claim(name, results)
            devices.claim_changed(claims.get(name), new)
            model.change(name, None if is_gone else results)
            claims[name] = new
        elif draw < 0.75:
            devices.begin(_claim(name, results))
            model.in_flight[name] = results
        else:
            assert devices.end(name) == (model.in_flight.pop(name, None) is not None), name
        _compare(devices, model)
        pools = _changed_pools(before, model.state())
        assert pools <= {pool for _, pool in changed}, f"{pools} have changed, not {changed}"
        assert devices.version > version or not pools, f"the version stays {version}"


def _compare(devices: AllocatedDevices, model: AllocatedModel) -> None:
    alone, shared, consumed = model.state()
    state = devices.state
    assert _pairs(state.dedicated) == alone, f"{state.dedicated} are used alone, not {alone}"
    assert _pairs(state.shared) == shared, f"{state.shared} are shared, not {shared}"
    actual = {
        (device.pool, device.device): {name: it for name, it in amounts.items() if it}
        for device, amounts in state.consumed.items()
        if any(amounts.values())
    }
    expected = {
        at: {name: it * NANOS for name, it in amounts.items() if it}
        for at, amounts in consumed.items()
    }
    assert actual == expected, f"{actual} are consumed, not {expected}"
    in_flight = sorted(claim.metadata.name for claim in devices.all_in_flight())
    assert in_flight == sorted(model.in_flight), f"{in_flight} are in flight"


def _pairs(devices: Any) -> set[tuple[str, str]]:
    return {(device.pool, device.device) for device in devices}


def _changed_pools(before: Any, after: Any) -> set[str]:
    """Returns the pools of devices whose state differs."""
    at = {pair for state in (before, after) for part in state for pair in part}
    return {
        pair[0]
        for pair in at
        if [pair in part for part in before[:2]] != [pair in part for part in after[:2]]
        or before[2].get(pair) != after[2].get(pair)
    }


def _drawn(rng: Rng, share: str) -> list[Result]:
    """Draws what a claim gets: each device once."""
    pairs = [(pool, device) for pool in POOLS for device in DEVICES]
    results: list[Result] = []
    for number, pair in enumerate(rng.sample(pairs, rng.choice((0, 1, 1, 2)))):
        is_share = rng.random() < 0.6
        amounts = {name: rng.randrange(3) for name in CAPACITIES if rng.random() < 0.7}
        results.append((*pair, f"{share}-{number}", amounts) if is_share else (*pair, "", {}))
    return results


def _claim(name: str, results: list[Result]) -> Any:
    """Returns a claim with these results, and one with admin access, which does not count."""
    items: list[dict[str, Any]] = [
        {
            "request": "r",
            "driver": "d",
            "pool": pool,
            "device": device,
            **({"shareID": share, "consumedCapacity": _written(amounts)} if share else {}),
        }
        for pool, device, share, amounts in results
    ]
    items.append({"request": "r", "driver": "d", "pool": "p", "device": "2", "adminAccess": True})
    status = {"allocation": {"devices": {"results": items}}}
    return convert({"metadata": {"name": name, "uid": name}, "status": status}, "ResourceClaim")


def _written(amounts: dict[str, int]) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}
