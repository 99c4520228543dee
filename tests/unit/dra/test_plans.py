"""A plan gives a node with equal devices what a search would give it."""

from __future__ import annotations

from mooring.dra import (
    AllocatedState,
    Allocator,
    CELCompiler,
    PreparedClaim,
    Selectors,
    Slices,
    TargetNode,
    plan_of,
    prepare_claim,
    solution_of,
)
from mooring.objects.resource import ResourceClaim
from tests.helpers.devices import exactly, first_of, make_claim, make_class, make_device, make_slice

CLASSES = {
    "gpu": make_class("gpu"),
    "x": make_class("x", 'device.attributes["gpu.test"].model == "x"'),
    "y": make_class("y", 'device.attributes["gpu.test"].model == "y"'),
}


def slices() -> Slices:
    """Returns two nodes with equal devices, with names of their own."""
    objects = []
    for node in ("a", "b"):
        models = enumerate("yxyx")
        devices = [make_device(f"{node}{number}", model=model) for number, model in models]
        objects.append(make_slice(f"s-{node}", devices, node=node))
    return Slices(objects)


def test_a_plan_has_the_devices_choices_and_alternatives_of_a_search() -> None:
    first, second = (
        make_claim(
            name,
            exactly("r", device_class="x"),
            first_of("s", "none", "y"),
            exactly("t", count=2),
        )
        for name in ("one", "two")
    )
    known = slices()
    classes = {**CLASSES, "none": make_class("none", "false")}
    allocator = Allocator(AllocatedState(), Selectors(CELCompiler()))

    def prepared(*claims: ResourceClaim) -> list[PreparedClaim]:
        return [prepare_claim(claim, classes.get) for claim in claims]

    a, b = TargetNode("a", {}), TargetNode("b", {})
    found = allocator.allocate(a, known.pools(a), prepared(first))
    assert found is not None
    plan = plan_of(found, known.pools(a))
    expected = allocator.allocate(b, known.pools(b), prepared(second))
    assert expected is not None

    planned = solution_of(plan, prepared(second), known.pools(b), "b")

    results = planned.results(lambda: "share")
    assert results == expected.results(lambda: "share")
    names = [(entry.request, entry.device) for entry in results[0].devices.results]
    assert names == [("r", "b1"), ("s/y", "b0"), ("t", "b2"), ("t", "b3")]


def test_each_claim_has_its_own_part_of_the_plan() -> None:
    known = slices()
    allocator = Allocator(AllocatedState(), Selectors(CELCompiler()))
    claims = [
        prepare_claim(make_claim(name, exactly("r", device_class=name)), CLASSES.get)
        for name in ("y", "x", "gpu")
    ]
    a, b = TargetNode("a", {}), TargetNode("b", {})
    found = allocator.allocate(a, known.pools(a), claims)
    assert found is not None

    planned = solution_of(plan_of(found, known.pools(a)), claims, known.pools(b), "b")

    devices = [
        [entry.device for entry in result.devices.results]
        for result in planned.results(lambda: "share")
    ]
    assert devices == [["b0"], ["b1"], ["b2"]]


def test_a_planned_solution_took_no_step_and_consumes_no_counters() -> None:
    known = slices()
    claims = [prepare_claim(make_claim("c", exactly(count=2)), CLASSES.get)]
    a = TargetNode("a", {})
    allocator = Allocator(AllocatedState(), Selectors(CELCompiler()))
    found = allocator.allocate(a, known.pools(a), claims)
    assert found is not None

    planned = solution_of(plan_of(found, known.pools(a)), claims, known.pools(a), "a")

    assert (planned.node_name, planned.steps) == ("a", 0)
    assert planned.claims == found.claims
    assert not any(taken.consumes_counters for taken in planned.claims[0][2])
