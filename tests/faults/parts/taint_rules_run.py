"""Slices and DeviceTaintRules that come, change and go, as the event handlers apply them.

Rules name a driver, a pool, a device, several of them, or nothing, so that they taint all devices.
Slices are documents here: after each change the devices of each slice have the taints of their
driver, then those of the rules in the order of their names. Each listener gets the slices that have
changed, once each, and the queue an event for each of them. The rule of each taint is compared.
Without the feature gate rules change nothing.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from mooring.client import ObjectChange
from mooring.clock import seeded_random
from mooring.cluster_event import ActionType, ClusterEvent, EventResource
from mooring.metrics.recorders import SchedulerRecorder
from mooring.objects.codec.decode import convert
from mooring.objects.resource import ResourceSlice
from mooring.state import audit
from mooring.state.cache import Cache
from mooring.testing import make_pod
from tests.faults.twins.leftovers import CacheLeftovers
from tests.helpers.event_fixture import EventFixture
from tests.helpers.queues import SKIP, Refuser, on

STEPS: Final = 50
GATE: Final = "DRADeviceTaintRules"
SLICE: Final = "ResourceSlice"
RULE: Final = "DeviceTaintRule"
SLICES: Final = ("s-1", "s-2", "s-3", "s-4")
RULES: Final = ("b-rule", "a-rule", "c-rule")
DRIVERS: Final = ("gpu.test", "nic.test")
POOLS: Final = ("p", "q")
DEVICES: Final = ("d-1", "d-2", "d-3")
ALL_EVENTS: Final = ClusterEvent(EventResource.RESOURCE_SLICE, ActionType.ALL)

#: Key, value and effect.
Taint = tuple[str, str, str]
#: Driver, pool, and the devices with their taints.
Content = tuple[str, str, tuple[tuple[str, tuple[Taint, ...]], ...]]
#: The contents before and after; None = there is no slice.
Changed = tuple[Content | None, Content | None]


class Labels(SchedulerRecorder):
    """Notes the events that are handled."""

    __slots__ = ("labels",)

    def __init__(self) -> None:
        super().__init__()
        self.labels: list[str] = []

    def event_handled(self, label: str, started_s: float) -> None:
        """Notes an event."""
        del started_s
        self.labels.append(label)


class TaintRulesRun:
    """One run.

    Attributes:
        problems: Differences to the model.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self._rng = rng = seeded_random(seed)
        self._is_enabled = rng.random() < 0.8
        self._labels = Labels()
        #: Old and new object of each call of the hint.
        self._hinted: list[Changed] = []
        refuser = Refuser("Refuser", on(ALL_EVENTS, self._hint))
        self._bench = EventFixture(
            refuser, device_gates={GATE: self._is_enabled}, recorder=self._labels
        )
        self._devices = self._bench.cache.devices
        self._leftovers = CacheLeftovers(self._bench.cache)
        #: Listener -> its calls.
        self._heard: list[list[Changed]] = [[] for _ in range(rng.randrange(3))]
        for calls in self._heard:
            self._devices.taint_rules.listen(partial(_note, calls))
        #: As users and drivers wrote them, the rules also without the gate.
        self._slices: dict[str, dict[str, Any]] = {}
        self._rules: dict[str, dict[str, Any]] = {}
        self._objects: dict[tuple[str, str], Any] = {}
        self._bench.add_unschedulable(make_pod("waiting"))

    @property
    def cache(self) -> Cache:
        """The cache with the slices."""
        return self._bench.cache

    def run(self) -> None:
        """Makes all changes, until one differs, and removes all objects."""
        self.change()
        self.problems += audit(self._bench.cache)
        for (kind, _), obj in self._objects.items():
            self._bench.handlers.on_change(kind, ObjectChange(obj, None))
        self.problems += self._leftovers.problems()

    def change(self) -> None:
        """Makes all changes, until one differs."""
        for _ in range(STEPS):
            before = {name: self._expected(name) for name in self._slices}
            self._labels.labels.clear()
            for calls in (*self._heard, self._hinted):
                calls.clear()
            due = self._change_rule(before) if self._rng.random() < 0.5 else self._change_slice()
            self._compare(due)
            if self.problems:
                return

    def _hint(self, pod: Any, old: Any, new: Any) -> Any:
        del pod
        self._hinted.append((_content(old), _content(new)))
        return SKIP

    # -- changes ----------------------------------------------------------------------------------

    def _change_slice(self) -> list[Changed]:
        """Publishes a slice, anew or for the first time, or removes it; returns what changes."""
        rng, name = self._rng, self._rng.choice(SLICES)
        before = self._expected(name)
        if rng.random() < 0.3:
            self._slices.pop(name, None)
            self._deliver(SLICE, name, None)
        elif name not in self._slices or rng.random() < 0.8:
            self._slices[name] = self._new_slice(name)
            self._deliver(SLICE, name, self._slices[name])
        else:
            self._deliver(SLICE, name, self._slices[name])
        after = self._expected(name)
        return [] if before is None and after is None else [(before, after)]

    def _change_rule(self, before: dict[str, Content | None]) -> list[Changed]:
        """Adds, changes or removes a rule; returns which slices change."""
        name = self._rng.choice(RULES)
        if self._rng.random() < 0.35:
            self._rules.pop(name, None)
            self._deliver(RULE, name, None)
        else:
            self._rules[name] = self._new_rule(name)
            self._deliver(RULE, name, self._rules[name])
        after = {slice_name: self._expected(slice_name) for slice_name in self._slices}
        return [(before[it], after[it]) for it in after if before[it] != after[it]]

    def _deliver(self, kind: str, name: str, body: dict[str, Any] | None) -> None:
        """Delivers a change as an informer does; also the removal of what is unknown."""
        old = self._objects.pop((kind, name), None)
        new = convert(body, kind) if body is not None else None
        if new is not None:
            self._objects[kind, name] = new
        if old is not None or new is not None:
            self._bench.handlers.on_change(kind, ObjectChange(old, new))
        else:
            self._bench.cache.remove_object(kind, name)

    def _new_slice(self, name: str) -> dict[str, Any]:
        rng = self._rng
        devices = [
            {"name": device, "taints": [self._taint() for _ in range(rng.choice((0, 0, 1, 2)))]}
            for device in rng.sample(DEVICES, rng.randrange(4))
        ]
        pool = {"name": rng.choice(POOLS), "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": rng.choice(DRIVERS), "pool": pool, "devices": devices, "allNodes": True}
        return {"metadata": {"name": name}, "spec": spec}

    def _new_rule(self, name: str) -> dict[str, Any]:
        rng = self._rng
        parts = {"driver": DRIVERS, "pool": POOLS, "device": DEVICES}
        share = rng.choice((0.0, 0.4, 1.0))
        selector = {part: rng.choice(of) for part, of in parts.items() if rng.random() < share}
        spec: dict[str, Any] = {"taint": self._taint()}
        if selector or rng.random() < 0.5:
            spec["deviceSelector"] = selector
        return {"metadata": {"name": name}, "spec": spec}

    def _taint(self) -> dict[str, str]:
        rng = self._rng
        effect = rng.choice(("NoSchedule", "NoExecute"))
        return {"key": rng.choice(("old", "hot")), "value": rng.choice("ab"), "effect": effect}

    # -- the model --------------------------------------------------------------------------------

    def _selecting(self, driver: str, pool: str, device: str) -> list[str]:
        """Returns the rules that taint a device, in the order of their names."""
        place = {"driver": driver, "pool": pool, "device": device}
        return [
            name
            for name in sorted(self._rules if self._is_enabled else ())
            if self._rules[name]["spec"].get("deviceSelector", {}).items() <= place.items()
        ]

    def _expected(self, name: str) -> Content | None:
        """Returns the content of a slice with the taints of rules."""
        if name not in self._slices:
            return None
        spec = self._slices[name]["spec"]
        driver, pool = spec["driver"], spec["pool"]["name"]
        devices = []
        for device in spec["devices"]:
            rules = self._selecting(driver, pool, device["name"])
            taints = [*device["taints"], *(self._rules[rule]["spec"]["taint"] for rule in rules)]
            devices.append((device["name"], tuple(tuple(taint.values()) for taint in taints)))
        return driver, pool, tuple(devices)

    def _compare(self, due: list[Changed]) -> None:
        for number, calls in enumerate((*self._heard, self._hinted)):
            if calls != due:
                self.problems.append(f"listener {number} gets {calls}, not {due}")
        labels = [f"{EventResource.RESOURCE_SLICE.value}{_action(*change)}" for change in due]
        if self._labels.labels != labels:
            self.problems.append(f"the events {self._labels.labels} are handled, not {labels}")
        actual = {obj.metadata.name: _content(obj) for obj in self._devices.slices.objects()}
        expected = {name: self._expected(name) for name in self._slices}
        if actual != expected:
            self.problems.append(f"slices are {actual}, not {expected}")
            return
        for obj in self._devices.slices.objects():
            self._compare_rules(obj)

    def _compare_rules(self, obj: ResourceSlice) -> None:
        """Compares from which rule each taint of a slice is."""
        key = obj.spec.driver, obj.spec.pool.name
        bodies = self._slices[obj.metadata.name]["spec"]["devices"]
        own = {body["name"]: len(body["taints"]) for body in bodies}
        for device in obj.spec.devices:
            rules = self._selecting(*key, device.name)
            expected = [""] * own[device.name] + rules
            # Of equal taints each has an object of its own.
            actual = [self._devices.taint_rules.rule_of(it, device, key) for it in device.taints]
            if len({id(taint) for taint in device.taints}) == len(actual) and actual != expected:
                self.problems.append(f"taints of {device.name} are of {actual}, not {expected}")


def _content(obj: ResourceSlice | None) -> Content | None:
    if obj is None:
        return None
    devices = tuple(
        (device.name, tuple((it.key, it.value, it.effect) for it in device.taints))
        for device in obj.spec.devices
    )
    return obj.spec.driver, obj.spec.pool.name, devices


def _note(calls: list[Changed], old: ResourceSlice | None, new: ResourceSlice | None) -> None:
    calls.append((_content(old), _content(new)))


def _action(old: Content | None, new: Content | None) -> str:
    return "Update" if old is not None and new is not None else "Add" if old is None else "Delete"


def run_taint_rules(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a taint is missing, or there is one too many, or a change is not reported.
    """
    run = TaintRulesRun(seed)
    run.run()
    assert not run.problems, run.problems[0]
