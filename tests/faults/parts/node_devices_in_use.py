"""Claims as the run ``node_devices`` knows them, and what fits on a node by the model."""

from __future__ import annotations

from random import Random
from typing import Any, Final

import pytest

from mooring.dra import requests
from mooring.objects.pod import Pod
from tests.faults.parts.device_usage import usage_of
from tests.faults.parts.limits import set_limit
from tests.faults.parts.node_devices_claims import claim_of, crowded
from tests.faults.parts.node_devices_cluster import DeviceCluster
from tests.faults.parts.node_devices_model import (
    INVALID,
    MOST,
    DeviceSearch,
    SearchFailed,
    Taken,
    pools_on,
    reaches,
)
from tests.faults.parts.node_devices_varied import VALUES, vary_counters, vary_device, vary_spec

CLAIMS: Final = 6
#: In such seeds, modulo seven, the selectors of claims compute the names of attributes.
COMPUTES: Final = 3
#: In such seeds, modulo six, a claim may have few devices, and many request more.
FEW_RESULTS: Final = 2
#: In such seeds, modulo five, attributes, tolerations and constraints have every form.
VARIED: Final = 1
#: An allocated claim is elsewhere, or there are too few devices.
UNUSABLE: Final = "unusable"
TOO_FEW: Final = "too few"
#: The name of the claim for extended resources in texts of errors.
IN_MEMORY: Final = "<extended-resources>"


class ClaimInUse:
    """A claim as the run knows it.

    Attributes:
        spec: Its requests and constraints, with ``where`` for the selectors.
        taken: Its devices, of an allocated claim or one in flight; none = it has none.
        node: The node for which it was allocated.
        users: The pods that have reserved it.
        is_in_flight: It is reserved, and not written yet.
    """

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.taken: list[Taken] = []
        self.node = ""
        self.users: set[str] = set()
        self.is_in_flight = False


class Reserved:
    """A pod between Reserve and the end of its binding."""

    def __init__(self, pod: Pod, node: str, cycle: Any, claims: list[ClaimInUse]) -> None:
        self.pod, self.node, self.cycle, self.claims = pod, node, cycle, claims


class ClaimsInUse(DeviceCluster):
    """A cluster with claims, and what fits there by the model."""

    def __init__(self, seed: int, *, has_shared: bool = False) -> None:
        #: Draws attributes, tolerations and constraints of every form; None = they are simple.
        self._varied = Random(f"{seed} varied") if seed % 5 == VARIED else None
        super().__init__(seed, has_shared=has_shared)
        #: Draws counts of requests where a claim may have few devices; None = it may have many.
        self._limit = Random(f"{seed} limit") if seed % 6 == FEW_RESULTS else None
        #: The number of devices that a claim may have.
        self._most = MOST if self._limit is None else self._limit.choice((2, 3, 3, 4))
        #: How many choices had too many devices, and how many of these led to other devices.
        self.n_limited = self.n_others = 0
        self._claims: dict[str, ClaimInUse] = {}
        self._reserved: list[Reserved] = []
        self._computes = seed % 7 == COMPUTES
        #: Bound pods, and their claims.
        self._bound: list[Reserved] = []

    def run(self) -> None:
        """Makes all steps, and compares."""
        with pytest.MonkeyPatch.context() as patch:
            if self._limit is not None:
                set_limit(patch, requests, "RESULTS_MAX", self._most)
            self._make_steps()

    def _make_steps(self) -> None:
        raise NotImplementedError

    def _new_spec(self) -> dict[str, Any]:
        spec = super()._new_spec()
        spec = spec if self._limit is None else crowded(spec, self._limit)
        return spec if self._varied is None else vary_spec(spec, self._varied)

    def _device(self, name: str, pool: str) -> dict[str, Any]:
        device = super()._device(name, pool)
        if self._varied is not None:
            vary_device(device, self._varied)
        return device

    def _put_slice(
        self, name: str, pool: str, generation: int, count: int, rest: dict[str, Any]
    ) -> None:
        if self._varied is not None:
            vary_counters(rest.get("devices", ()), self._varied)
        super()._put_slice(name, pool, generation, count, rest)

    def _taint(self) -> dict[str, str]:
        taint = super()._taint()
        return taint if self._varied is None else {**taint, "value": self._varied.choice(VALUES)}

    def _claims_for(self) -> list[str]:
        """Returns the claims of a pod: new ones, or those of others."""
        rng = self._rng
        names = []
        for _ in range(rng.choice((0, 1, 1, 1, 2))):
            if len(self._claims) < CLAIMS or (rng.random() < 0.5 and not self._claims):
                self._count += 1
                name = f"claim-{self._count}"
                self._claims[name] = ClaimInUse(self._new_spec())
                spec = self._claims[name].spec
                self._put("ResourceClaim", claim_of(name, spec, computes=self._computes))
            else:
                name = rng.choice(list(self._claims))
            names.append(name)
        return list(dict.fromkeys(names))

    def _on(self, name: str, claims: list[ClaimInUse], amount: int) -> list[Taken] | None:
        """Returns the devices on a node for the claims that have none; None = it does not fit."""
        searched = self._search(name, claims, amount)
        return None if isinstance(searched, str) else searched

    def _search(self, name: str, claims: list[ClaimInUse], amount: int) -> list[Taken] | str:
        """Returns the devices on a node for the claims that have none, or why it does not fit.

        Of a search that ends with an error it is the text of the error.
        """
        node = self._nodes[name]
        zone = node.metadata.labels["zone"]
        specs = [claim.spec for claim in claims if not claim.taken]
        specs += self._special_on(name, claims, amount)
        taken = [
            (taken.device.id, taken.consumed)
            for claim in (*self._claims.values(), *self._specials())
            for taken in claim.taken
        ]
        pools = pools_on(self._slices.values(), name, zone)
        usage = usage_of(taken, self._slices.values())
        rules = list(self._rules.values())
        search = DeviceSearch(pools, usage, self._wheres, rules, self._most)
        try:
            devices = search.run(specs)
        except SearchFailed as error:
            names = [it for claim in claims if not claim.taken for it in self._names_of(claim)]
            return error.text([*names, IN_MEMORY])
        finally:
            self.n_limited += search.n_limited
            self.n_others += search.n_others
        if devices is None:
            return INVALID if any(pool.state == INVALID for pool in pools) else TOO_FEW
        is_usable = all(_is_usable(claim, name, zone) for claim in claims if claim.taken)
        return devices if is_usable else UNUSABLE

    def _names_of(self, claim: ClaimInUse) -> list[str]:
        return [name for name, other in self._claims.items() if other is claim]

    def _specials(self) -> list[ClaimInUse]:
        """Returns the claims for extended resources of the pods with a node."""
        of_pods = [it.claims for it in (*self._reserved, *self._bound)]
        return [claim for claims in of_pods for claim in claims if "special" in claim.spec]

    def _worth(
        self, claims: list[ClaimInUse], name: str, amount: int, taken: list[Taken] | None
    ) -> int:
        """Returns the score of a node, 0 if nothing has to be allocated there."""
        is_due = self._special_on(name, claims, amount) or any(not it.taken for it in claims)
        return score_of(claims, taken or []) if is_due else 0

    def _are_in_progress(self, claims: list[ClaimInUse]) -> bool:
        """Returns whether one of the claims is being reserved for another pod."""
        return any(claim in it.claims for it in self._reserved for claim in claims)

    def _is_unused(self, claim: ClaimInUse) -> bool:
        of_pods = [it.claims for it in (*self._reserved, *self._bound)]
        return not claim.taken and not any(claim in claims for claims in of_pods)


def score_of(claims: list[ClaimInUse], taken: list[Taken]) -> int:
    """Returns the score of a node: 8 for each first alternative, 7 for each second one."""
    free = [claim for claim in claims if not claim.taken]
    score = 0
    for claim in claims:
        devices = claim.taken or [item for item in taken if item.claim == free.index(claim)]
        taken_names = {(item.request, item.alternative) for item in devices}
        score += sum(
            8 - index
            for request in claim.spec["requests"]
            for index, item in enumerate(request.get("firstAvailable", ()))
            if (request["name"], item["name"]) in taken_names
        )
    return score


def _is_usable(claim: ClaimInUse, node: str, zone: str) -> bool:
    """Returns whether a node can use the devices of an allocated claim."""
    reach = [taken.device.reach for taken in claim.taken]
    if any(kind == "node" for kind, _ in reach):
        return node == claim.node
    return all(reaches(it, node, zone) for it in reach)
