"""The checks of Reserve, Permit and waiting pods, against plugins broken in one way each."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.framework import Cycle, Reject, Status, Wait
from mooring.framework.interface import Handle
from mooring.testing import Harness, check_conformance, make_node, make_pod

SIZE = 3
NODES = [make_node("a"), make_node("b")]
GANG = [make_pod(f"member-{number}", labels={"gang": "g"}) for number in range(SIZE)]


class Gang:
    """Binds the pods of a gang together; each waits for the others."""

    name = "Gang"

    def __init__(self, handle: Handle) -> None:
        self.handle = handle
        self.members: dict[str, set[str]] = {}

    def reserve(self, cycle: Cycle, node_name: str) -> None:
        gang = cycle.pod.metadata.labels.get("gang", "")
        self.members.setdefault(gang, set()).add(cycle.pod.uid)

    def unreserve(self, cycle: Cycle, node_name: str) -> None:
        gang = cycle.pod.metadata.labels.get("gang", "")
        self.members.get(gang, set()).discard(cycle.pod.uid)

    def permit(self, cycle: Cycle, node_name: str) -> Status | Wait | None:
        gang = cycle.pod.metadata.labels.get("gang")
        if gang is None:
            return None
        if len(self.members[gang]) < SIZE:
            return Wait(30.0)
        for waiting in self.handle.waiting_pods():
            if waiting.pod.metadata.labels.get("gang") == gang:
                self.allow(waiting)
        return None

    def allow(self, waiting: Any) -> None:
        waiting.allow(self.name)


class Delay:
    """Allows a pod two seconds after Permit, if it still waits."""

    name = "Delay"

    def __init__(self, handle: Handle) -> None:
        self.handle = handle

    def permit(self, cycle: Cycle, node_name: str) -> Wait:
        uid = cycle.pod.uid
        self.handle.call_later(2.0, lambda: self.allow(uid))
        return Wait(10.0)

    def allow(self, uid: str) -> None:
        waiting = self.handle.waiting_pod(uid)
        if waiting is not None:
            waiting.allow(self.name)


class Dice:
    """Rejects some pods by chance."""

    name = "Dice"

    def __init__(self, handle: Handle) -> None:
        self.handle = handle

    def permit(self, cycle: Cycle, node_name: str) -> Status | None:
        return Reject("lost") if self.handle.random() < 0.5 else None


class OneForEachNode:
    """Reserves nodes: one pod each."""

    name = "OneForEachNode"

    def __init__(self) -> None:
        self.owners: dict[str, str] = {}

    def reserve(self, cycle: Cycle, node_name: str) -> Status | None:
        owner = self.owners.setdefault(node_name, cycle.pod.uid)
        return None if owner == cycle.pod.uid else Reject("node is reserved")

    def unreserve(self, cycle: Cycle, node_name: str) -> None:
        if self.owners.get(node_name) == cycle.pod.uid:
            del self.owners[node_name]


def check(plugin: Any) -> None:
    check_conformance(plugin, seeds=range(4), objects=NODES, pods=GANG)


def fault_of(plugin: Any) -> str:
    with pytest.raises(AssertionError) as caught:
        check(plugin)
    message = str(caught.value)
    assert message.startswith("plugin ")
    return message


@pytest.mark.parametrize("plugin", [Gang, Delay, Dice, OneForEachNode, OneForEachNode()])
def test_a_plugin_without_a_fault_passes(plugin: Any) -> None:
    check(plugin)


def test_a_harness_gives_a_class_its_handle() -> None:
    harness = Harness(NODES, [Gang])
    assert harness.plugins[0].handle is harness.handle
    assert harness.handle.snapshot.nodes.live_row("a") >= 0
    assert harness.handle.monotonic_s() == 0.0
    assert harness.decide(make_pod()).node in {"a", "b"}


class Forgetful(Gang):
    """Keeps the members of failed attempts."""

    name = "Forgetful"

    def unreserve(self, cycle: Cycle, node_name: str) -> None:
        pass


def test_a_reservation_that_stays_is_a_fault() -> None:
    fault = fault_of(Forgetful)
    assert "unreserve does not undo reserve: pod member-0 was waiting on " in fault
    assert "when it comes again it is allowed on " in fault


class Counter(Gang):
    """Counts members, so that a second Unreserve counts one too few."""

    name = "Counter"

    def __init__(self, handle: Handle) -> None:
        super().__init__(handle)
        self.count = 0

    def reserve(self, cycle: Cycle, node_name: str) -> None:
        self.count += 1

    def unreserve(self, cycle: Cycle, node_name: str) -> None:
        self.count -= 1

    def permit(self, cycle: Cycle, node_name: str) -> Wait | None:
        return Wait(30.0) if self.count < 2 else None


def test_a_second_unreserve_must_change_nothing() -> None:
    assert "unreserve is not idempotent: pod " in fault_of(Counter)


class RaisesTwice(OneForEachNode):
    name = "RaisesTwice"

    def unreserve(self, cycle: Cycle, node_name: str) -> None:
        del self.owners[node_name]


def test_a_second_unreserve_must_not_raise() -> None:
    assert "KeyError" in fault_of(RaisesTwice)


class Careless(Delay):
    """Expects that a pod still waits."""

    name = "Careless"

    def allow(self, uid: str) -> None:
        waiting = self.handle.waiting_pod(uid)
        waiting.allow(self.name)  # type: ignore[union-attr]  # the fault


def test_a_callback_must_expect_that_the_pod_is_gone() -> None:
    fault = fault_of(Careless)
    assert "a callback of call_later raises after its pod was deleted: AttributeError" in fault


class WrongName(Gang):
    """Allows pods in the name of the gang."""

    name = "WrongName"

    def allow(self, waiting: Any) -> None:
        waiting.allow("g")


def test_pods_are_allowed_by_the_name_of_the_plugin() -> None:
    fault = fault_of(WrongName)
    assert "a waiting pod was allowed or rejected by 'g'; it waits for 'WrongName'" in fault


class Raises(Delay):
    name = "Raises"

    def permit(self, cycle: Cycle, node_name: str) -> Wait:
        raise LookupError("no gang")


def test_an_error_in_permit_is_a_fault() -> None:
    assert 'running Permit plugin "Raises": LookupError: no gang' in fault_of(Raises)


def test_a_plugin_without_its_handle_fails() -> None:
    assert "AttributeError" in fault_of(Gang(None))  # type: ignore[arg-type]  # the fault
