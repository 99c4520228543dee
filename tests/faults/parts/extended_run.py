"""The claims for extended resources of pods with containers of every kind.

The requests, and which containers use which of them, are compared with what must hold of any: each
container that runs as long as the pod has devices of its own; an init container has as many as it
requests, from containers that start later and from one request that all init containers share; and
there are no more devices than that takes.

Source: pkg/scheduler/framework/plugins/dynamicresources/
extendeddynamicresources.go (createRequestsAndMappings).
"""

from __future__ import annotations

from decimal import Decimal
from random import Random
from types import SimpleNamespace
from typing import Any, Final

from mooring.clock import seeded_random
from mooring.plugins.dynamic_resources.extended_resources import requests_and_mappings
from mooring.testing import make_pod

TRIALS: Final = 20
RESOURCES: Final = ("a.example/gpu", "b.example/nic", "c.example/other")
#: The device classes of the resources, in any order; one has none.
CLASSES: Final = ("gpu", "nic", None)
#: Amounts in other units, most of which are no whole number of devices; so many are drawn.
FRACTIONS: Final = ("500m", "1500m", "2000m", "0", "3e0", "1.0", "0.25")
FRACTIONS_SHARE: Final = 0.15


class ExtendedRun:
    """One run.

    Attributes:
        problems: What must hold, and does not.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self._rng = seeded_random(seed)
        self._fractions = seeded_random(seed + 2_000_000)
        self._order = Random(f"{seed} order")
        self._classes = dict(
            zip(RESOURCES, seeded_random(seed + 1_000_000).sample(CLASSES, 3), strict=True)
        )

    def run(self) -> None:
        """Makes all trials, until one differs."""
        for _ in range(TRIALS):
            inits = [self._container(f"init-{it}", is_init=True) for it in range(self._number())]
            others = [self._container(f"main-{it}", is_init=False) for it in range(self._number())]
            pod = make_pod("web", spec={"initContainers": inits, "containers": others})
            classes: Any = SimpleNamespace(class_of=self._classes.get)
            result = requests_and_mappings(pod, RESOURCES, classes)
            exactly = {it.name: it.exactly for it in result.requests if it.exactly is not None}
            counts = {name: it.count for name, it in exactly.items()}
            classes_of = {name: it.device_class_name for name, it in exactly.items()}
            names = [it.name for it in result.requests]
            if names != sorted(set(names)) or len(counts) != len(names):
                self.problems.append(f"the requests are {names}")
            for resource, class_name in self._classes.items():
                uses = [
                    (it.container_name, it.request_name)
                    for it in result.mappings
                    if it.resource_name == resource
                ]
                of_class = {it: counts[it] for it in names if classes_of[it] == class_name}
                self._check([*inits, *others], resource, class_name, of_class, uses)
            if self.problems:
                return

    def _number(self) -> int:
        return self._rng.choice((0, 1, 1, 2, 3))

    def _container(self, name: str, *, is_init: bool) -> dict[str, Any]:
        rng = self._rng
        requests = {
            resource: str(rng.randrange(1, 5)) for resource in RESOURCES if rng.random() < 0.6
        }
        requests |= {
            resource: self._fractions.choice(FRACTIONS)
            for resource in requests
            if self._fractions.random() < FRACTIONS_SHARE
        }
        if rng.random() < 0.5:
            requests["cpu"] = "1"
        # In any order: a request has the number of its resource among the sorted ones.
        requests = dict(self._order.sample(list(requests.items()), len(requests)))
        container: dict[str, Any] = {"name": name, "resources": {"requests": requests}}
        if is_init and rng.random() < 0.4:
            container["restartPolicy"] = "Always"
        return container

    def _check(
        self,
        containers: list[dict[str, Any]],
        resource: str,
        class_name: str | None,
        counts: dict[str, int],
        uses: list[tuple[str, str]],
    ) -> None:
        amounts = [_whole(it["resources"]["requests"].get(resource, "0")) for it in containers]
        is_short = [
            it["name"].startswith("init") and "restartPolicy" not in it for it in containers
        ]
        if class_name is None:
            if uses or counts:
                self.problems.append(f"{resource} has no class, but {counts}")
            return
        own: dict[int, str] = {}
        for index, (amount, short) in enumerate(zip(amounts, is_short, strict=True)):
            if amount and not short:
                number = sorted(containers[index]["resources"]["requests"]).index(resource)
                own[index] = f"container-{index}-request-{number}"
        missing = [
            max(0, amount - sum(amounts[it] for it in own if it > index)) if short else 0
            for index, (amount, short) in enumerate(zip(amounts, is_short, strict=True))
        ]
        shared = [name for name in counts if name not in own.values()]
        due = {name: amounts[index] for index, name in own.items()}
        due |= dict.fromkeys(shared, max(missing, default=0))
        if counts != due or len(shared) != bool(any(missing)):
            self.problems.append(f"{resource} of {amounts} has {counts}, not {due}")
            return
        for index, amount in enumerate(amounts):
            names = [name for user, name in uses if user == containers[index]["name"]]
            usable = [own[it] for it in own if it > index] + shared
            allowed = usable if is_short[index] else [own[index]] if index in own else []
            has = sum(counts[name] for name in names if name in allowed)
            if not set(names) <= set(allowed) or has < amount or (names and not amount):
                self.problems.append(f"{containers[index]['name']} uses {names} for {amount}")
            if len(set(names)) != len(names):
                self.problems.append(f"{containers[index]['name']} uses {names}")


def _whole(amount: str) -> int:
    """Returns an amount in units; 0 if it is no whole number, which counts as no request."""
    exact = Decimal(amount.removesuffix("m")) / (1000 if amount.endswith("m") else 1)
    return int(exact) if exact == int(exact) else 0


def run_extended(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: the requests, or their users, are not those that the containers need.
    """
    run = ExtendedRun(seed)
    run.run()
    assert not run.problems, run.problems[0]
