"""Slices with the taints of DeviceTaintRules, which are in use with the gate DRADeviceTaintRules.

::

    ResourceSlice   ──▶ slice as published ─┐
                                            ├─▶ slice with the taints of its rules ──▶ Slices
    DeviceTaintRule ──▶ rule ───────────────┘                      └─▶ listeners, as a slice

A rule adds its taint after those that the driver published. Several rules are applied in the order
of their names. Without the gate, rules are ignored.

Source: k8s.io/dynamic-resource-allocation resourceslice/tracker/tracker.go. *Differs:* upstream
applies several rules in random order; which devices are usable does not depend on the order.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from mooring.dra import Slices
from mooring.dra.devices import PoolKey
from mooring.objects.resource import (
    Device,
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintSelector,
    ResourceSlice,
)

#: Called with a slice before and after its change; None = it did not exist, or does not any more.
SliceListener = Callable[[ResourceSlice | None, ResourceSlice | None], None]

_ALL_DEVICES = DeviceTaintSelector()


class SlicesWithRules:
    """Keeps ``Slices`` equal to the published slices with the taints of all rules.

    Complexity of a change of a rule: O(devices of the slices that it selects now or selected).
    """

    def __init__(self, slices: Slices, *, is_enabled: bool) -> None:
        """Starts empty; only with ``is_enabled`` rules have an effect."""
        self._slices = slices
        self._is_enabled = is_enabled
        #: Name -> slice as its driver published it.
        self._published: dict[str, ResourceSlice] = {}
        #: Name -> slice with the taints of rules.
        self._tainted: dict[str, ResourceSlice] = {}
        #: In the order of their names.
        self._rules: dict[str, DeviceTaintRule] = {}
        self._listeners: list[SliceListener] = []

    def listen(self, listener: SliceListener) -> None:
        """Calls a function after each change of a slice or of its taints."""
        self._listeners.append(listener)

    @property
    def rules(self) -> list[DeviceTaintRule]:
        """The rules in the order in which they are applied."""
        return list(self._rules.values())

    @property
    def published(self) -> list[ResourceSlice]:
        """The slices as their drivers published them."""
        return list(self._published.values())

    def rule_of(self, taint: DeviceTaint, device: Device, pool_key: PoolKey) -> str:
        """Returns the name of the rule that a taint came from; "" = the driver published it.

        Args:
            taint: One of ``device.taints``, the same object.
            device: A device of ``slices``, with the taints of rules.
            pool_key: Driver and name of its pool.
        """
        if not self._rules:
            return ""
        driver, pool = pool_key
        index = next(index for index, own in enumerate(device.taints) if own is taint)
        selecting = [
            rule.metadata.name
            for rule in self.rules
            if _selects_device(rule, driver, pool, device.name)
        ]
        from_driver = len(device.taints) - len(selecting)
        return selecting[index - from_driver] if index >= from_driver else ""

    def put_slice(self, obj: ResourceSlice) -> None:
        """Adds or updates a published slice."""
        self._published[obj.metadata.name] = obj
        self._store(with_taints(obj, self.rules))

    def remove_slice(self, name: str) -> None:
        """Removes a slice. Unknown names are ignored."""
        if self._published.pop(name, None) is None:
            return
        old = self._tainted.pop(name)
        self._slices.remove(name)
        self._changed(old, None)

    def put_rule(self, rule: DeviceTaintRule) -> None:
        """Adds or updates a rule."""
        if not self._is_enabled:
            return
        old = self._rules.get(rule.metadata.name)
        self._rules[rule.metadata.name] = rule
        self._rules = dict(sorted(self._rules.items()))
        self._apply(old, rule)

    def remove_rule(self, name: str) -> None:
        """Removes a rule. Unknown names are ignored."""
        old = self._rules.pop(name, None)
        if old is not None:
            self._apply(old)

    def _apply(self, *changed: DeviceTaintRule | None) -> None:
        """Updates the slices that a rule selects now or selected before, if their taints change."""
        rules = self.rules
        for name, published in self._published.items():
            if any(rule is not None and _selects_pool(rule, published) for rule in changed):
                tainted = with_taints(published, rules)
                if tainted.spec.devices != self._tainted[name].spec.devices:
                    self._store(tainted)

    def _store(self, obj: ResourceSlice) -> None:
        old = self._tainted.get(obj.metadata.name)
        self._tainted[obj.metadata.name] = obj
        self._slices.put(obj)
        self._changed(old, obj)

    def _changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        for listener in self._listeners:
            listener(old, new)


def with_taints(obj: ResourceSlice, rules: list[DeviceTaintRule]) -> ResourceSlice:
    """Returns a slice with the taints of the rules; the same object if no rule selects a device."""
    applied = [rule for rule in rules if _selects_pool(rule, obj)]
    if not applied or not any(taints_of(device, applied) for device in obj.spec.devices):
        return obj
    devices = tuple(
        replace(device, taints=(*device.taints, *taints_of(device, applied)))
        for device in obj.spec.devices
    )
    return replace(obj, spec=replace(obj.spec, devices=devices))


def taints_of(device: Device, rules: list[DeviceTaintRule]) -> list[DeviceTaint]:
    """Returns the taints that a device gets; the rules select its driver and pool."""
    return [rule.spec.taint for rule in rules if _selector(rule).device in (None, device.name)]


def _selects_pool(rule: DeviceTaintRule, obj: ResourceSlice) -> bool:
    """Returns whether a rule may select devices of a slice, by driver and pool."""
    selector = _selector(rule)
    return selector.driver in (None, obj.spec.driver) and selector.pool in (
        None,
        obj.spec.pool.name,
    )


def _selects_device(rule: DeviceTaintRule, driver: str, pool: str, device: str) -> bool:
    selector = _selector(rule)
    return (
        selector.driver in (None, driver)
        and selector.pool in (None, pool)
        and selector.device in (None, device)
    )


def _selector(rule: DeviceTaintRule) -> DeviceTaintSelector:
    return rule.spec.device_selector or _ALL_DEVICES
