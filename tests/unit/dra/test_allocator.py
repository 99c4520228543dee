"""The allocator: what the recorded cases do not have, limits and depth."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from mooring.dra import (
    ALL_FEATURES,
    AllocatedState,
    AllocationError,
    AllocationTimeout,
    Allocator,
    DeviceID,
    InvalidPools,
    Selectors,
    Slices,
    Solution,
    TargetNode,
    prepare_claim,
)
from mooring.objects.codec.decode import convert
from mooring.objects.meta import NodeSelector
from tests.helpers.devices import (
    DRIVER,
    AttributeCompiler,
    all_of,
    exactly,
    first_of,
    make_claim,
    make_class,
    make_device,
    make_slice,
    selectors,
)

NODE = TargetNode("a", {})
CLASSES = {"gpu": make_class("gpu"), "x": make_class("x", "model=x")}


def allocate(
    slices: Slices,
    *claims: Any,
    allocated: AllocatedState | None = None,
    deadline: Callable[[], bool] = lambda: False,
    answers: Selectors | None = None,
) -> Solution | None:
    allocator = Allocator(allocated or AllocatedState(), answers or selectors())
    prepared = [prepare_claim(claim, CLASSES.get) for claim in claims]
    return allocator.allocate(NODE, slices.pools(NODE), prepared, deadline=deadline)


def devices_of(solution: Solution | None) -> list[list[str]]:
    assert solution is not None
    return [
        [result.device for result in allocation.devices.results]
        for allocation in solution.results(lambda: "share")
    ]


def node_with(count: int, **fields: Any) -> Slices:
    devices = [make_device(f"d{number:03}", model="x", **fields) for number in range(count)]
    return Slices([make_slice("s", devices, node="a")])


def test_the_first_free_devices_are_taken() -> None:
    in_use = AllocatedState(dedicated={DeviceID("gpu.test", "a", "d000")})

    solution = allocate(node_with(4), make_claim("c", exactly(count=2)), allocated=in_use)

    assert devices_of(solution) == [["d001", "d002"]]


def test_the_search_is_deeper_than_pythons_recursion_limit() -> None:
    claims = [make_claim(f"c{number}", exactly(count=32)) for number in range(64)]
    assert sys.getrecursionlimit() < 64 * 32

    solution = allocate(node_with(64 * 32), *claims)

    assert [len(devices) for devices in devices_of(solution)] == [32] * 64


def test_a_dead_end_that_deep_is_left_without_recursion() -> None:
    claims = [make_claim(f"c{number}", exactly(count=32)) for number in range(40)]
    claims.append(make_claim("last", exactly(device_class="gpu", count=1)))
    searches = iter([*[False] * 20, True])

    with pytest.raises(AllocationTimeout, match=r"^node a: timed out trying to allocate devices$"):
        allocate(node_with(40 * 32), *claims, deadline=lambda: next(searches))


def test_more_than_32_devices_of_a_claim_are_an_error() -> None:
    with pytest.raises(AllocationError) as caught:
        allocate(node_with(40), make_claim("c", exactly("r", count=20), exactly("s", count=13)))

    assert str(caught.value) == (
        "claim default/c: number of requested devices 33 exceeds the claim limit of 32"
    )


def test_all_devices_are_all_that_match_and_one_in_use_is_too_many() -> None:
    slices = node_with(3)
    assert devices_of(allocate(slices, make_claim("c", all_of()))) == [["d000", "d001", "d002"]]

    in_use = AllocatedState(dedicated={DeviceID("gpu.test", "a", "d001")})
    assert allocate(slices, make_claim("c", all_of()), allocated=in_use) is None


def test_an_alternative_is_taken_when_the_first_is_not_there() -> None:
    slices = Slices([make_slice("s", [make_device("d0", model="y")], node="a")])

    solution = allocate(slices, make_claim("c", first_of("r", "x", "gpu")))

    assert solution is not None
    (result,) = solution.results(lambda: "share")[0].devices.results
    assert (result.request, result.device) == ("r/gpu", "d0")


def test_one_alternative_with_too_many_devices_does_not_stop_the_search() -> None:
    devices = [make_device("d0", model="x"), make_device("d1", model="y")]
    slices = Slices([make_slice("s", devices, node="a")])
    alternatives = first_of("r", "gpu", "x")
    alternatives["firstAvailable"][0]["count"] = 32

    solution = allocate(slices, make_claim("c", exactly("p"), alternatives))

    # Of p and r/x only r/x needs the first device; 1 + 32 devices are too many.
    assert devices_of(solution) == [["d1", "d0"]]


def test_a_device_that_the_third_constraint_excludes_counts_for_none() -> None:
    def device(name: str, **values: str) -> dict[str, Any]:
        return {"name": name, "attributes": {key: {"string": text} for key, text in values.items()}}

    devices = [device("d0", a="1", b="1"), device("d1", a="2", b="2", c="2")]
    constraints = [{"matchAttribute": f"gpu.test/{name}"} for name in "abc"]

    solution = allocate(
        Slices([make_slice("s", devices, node="a")]),
        make_claim("c", exactly(), constraints=constraints),
    )

    assert devices_of(solution) == [["d1"]]


def test_a_selector_is_evaluated_once_for_equal_devices_and_never_for_those_in_use() -> None:
    compiler = AttributeCompiler()
    slices = Slices(
        [
            make_slice(
                "s",
                [make_device("d0"), *(make_device(f"d{n}", model="y") for n in (1, 2))],
                node="a",
            )
        ]
    )
    in_use = AllocatedState(dedicated={DeviceID("gpu.test", "a", "d0")})

    solution = allocate(
        slices,
        make_claim("c", exactly(device_class="x")),
        allocated=in_use,
        answers=Selectors(compiler),
    )

    assert solution is None
    assert compiler.programs["model=x"].evaluated == ["d1"]


@pytest.mark.parametrize(
    ("requests", "text"),
    [
        (
            [exactly(device_class="none")],
            "claim default/c, request r: could not retrieve device class none: "
            'deviceclass.resource.k8s.io "none" not found',
        ),
        (
            [exactly(device_class="")],
            "claim default/c, request r: missing device class name (unsupported request type?)",
        ),
        (
            [exactly(allocationMode="Some")],
            "claim default/c, request r: unsupported count mode Some",
        ),
        (
            [exactly(selectors=[{}])],
            "claim default/c, request r, selector #0: "
            "CEL expression empty (unsupported selector type?)",
        ),
        (
            [exactly(selectors=[{"cel": {"expression": "odd"}}])],
            "claim default/c: selector #0: CEL compile error: odd",
        ),
        (
            [exactly(selectors=[{"cel": {"expression": "color=red"}}])],
            "claim default/c: selector #0: CEL runtime error: no such key: color",
        ),
    ],
)
def test_errors_have_the_texts_of_kube_scheduler(requests: list[Any], text: str) -> None:
    with pytest.raises(AllocationError) as caught:
        allocate(node_with(1), make_claim("c", *requests))

    assert str(caught.value) == text


def test_an_invalid_pool_is_reported_only_if_nothing_else_has_the_devices() -> None:
    slices = node_with(1)
    slices.put(make_slice("odd", [make_device("t"), make_device("t")], pool="q", node="a"))

    assert devices_of(allocate(slices, make_claim("c", exactly()))) == [["d000"]]
    with pytest.raises(InvalidPools):
        allocate(slices, make_claim("c", exactly(count=2)))


def test_shares_of_a_device_consume_its_capacity() -> None:
    capacity = {"memory": {"value": "10Gi"}}
    slices = node_with(2, allowMultipleAllocations=True, capacity=capacity)
    wants = exactly(capacity={"requests": {"memory": "6Gi"}})

    solution = allocate(slices, make_claim("one", wants), make_claim("two", wants))

    assert devices_of(solution) == [["d000"], ["d001"]]
    assert allocate(slices, *(make_claim(f"c{n}", wants) for n in range(3))) is None
    assert solution is not None
    (result,) = solution.results(lambda: "share")[0].devices.results
    assert (result.share_id, result.consumed_capacity) == ("share", {"memory": "6Gi"})


def test_the_devices_of_a_request_are_different_ones_though_one_could_be_shared() -> None:
    shared = make_device("d0", allowMultipleAllocations=True, capacity={"memory": {"value": "10"}})
    one, two = (
        Slices([make_slice("s", devices, node="a")])
        for devices in ([shared], [shared, {**shared, "name": "d1"}])
    )
    claim = make_claim("c", exactly(count=2, capacity={"requests": {"memory": "4"}}))

    assert allocate(one, claim) is None
    assert devices_of(allocate(two, claim)) == [["d0", "d1"]]


def consuming(name: str, **amounts: str) -> dict[str, Any]:
    """Returns a device that consumes these counters of the set ``gpu``."""
    counters = {counter: {"value": amount} for counter, amount in amounts.items()}
    consumes = [{"counterSet": "gpu", "counters": counters}]
    return make_device(name, model="x", consumesCounters=consumes)


def partitions(*devices: dict[str, Any], others: Sequence[dict[str, Any]] = ()) -> Slices:
    """Returns a pool of three slices: counters, devices of the node, and devices of another."""
    counters = {"memory": {"value": "8Gi"}, "cores": {"value": "4"}}
    shared = [{"name": "gpu", "counters": counters}]
    pool: dict[str, Any] = {"pool": "pool", "count": 3}
    return Slices(
        [
            make_slice("counters", sharedCounters=shared, allNodes=True, **pool),
            make_slice("mine", list(devices), node="a", **pool),
            make_slice("theirs", list(others), node="b", **pool),
        ]
    )


def used(*names: str) -> AllocatedState:
    return AllocatedState(dedicated={DeviceID("gpu.test", "pool", name) for name in names})


def test_partitions_are_taken_until_a_counter_is_used_up() -> None:
    slices = partitions(
        consuming("d0", memory="5Gi"), consuming("d1", memory="4Gi"), consuming("d2", memory="3Gi")
    )

    assert devices_of(allocate(slices, make_claim("c", exactly(count=2)))) == [["d0", "d2"]]
    assert allocate(slices, make_claim("c", exactly(count=3))) is None


def test_a_counter_that_is_used_up_does_not_matter_to_others() -> None:
    slices = partitions(consuming("d0", cores="4"), consuming("d1", memory="8Gi"))

    solution = allocate(slices, make_claim("c", exactly()), allocated=used("d0"))

    assert devices_of(solution) == [["d1"]]


def test_devices_of_other_nodes_consume_the_counters_of_their_pool() -> None:
    theirs = [consuming("e0", memory="6Gi")]
    slices = partitions(consuming("d0", memory="3Gi"), consuming("d1", memory="2Gi"), others=theirs)
    claim = make_claim("c", exactly())

    assert devices_of(allocate(slices, claim)) == [["d0"]]
    assert devices_of(allocate(slices, claim, allocated=used("e0"))) == [["d1"]]


@pytest.mark.parametrize(
    ("fields", "expressions"),
    [
        ([{"key": "metadata.name", "operator": "In", "values": ["a"]}], []),
        ([], [{"key": "zone", "operator": "In", "values": ["z"]}]),
        (
            [{"key": "metadata.name", "operator": "In", "values": ["a"]}],
            [{"key": "zone", "operator": "Exists"}],
        ),
    ],
)
def test_the_node_selector_of_a_slice_is_that_of_the_allocation(
    fields: list[dict[str, Any]], expressions: list[dict[str, Any]]
) -> None:
    selector = {"nodeSelectorTerms": [{"matchFields": fields, "matchExpressions": expressions}]}
    slices = Slices([make_slice("s", [make_device("d0")], nodeSelector=selector)])
    node = TargetNode("a", {"zone": "z"})
    prepared = [prepare_claim(make_claim("c", exactly()), CLASSES.get)]

    allocator = Allocator(AllocatedState(), selectors())
    solution = allocator.allocate(node, slices.pools(node), prepared)
    assert solution is not None
    (result,) = solution.results(lambda: "share")

    assert result.node_selector == msgspec.convert(selector, NodeSelector)


def test_the_configuration_of_a_class_is_for_all_its_requests() -> None:
    spec = {"config": [{"opaque": {"driver": DRIVER, "parameters": {"mode": "fast"}}}]}
    device_class = convert({"metadata": {"name": "gpu"}, "spec": spec}, "DeviceClass")
    claim = make_claim("c", exactly("r"), exactly("s"), exactly("t", device_class="x"))
    classes = {"gpu": device_class, "x": CLASSES["x"]}
    slices = node_with(3)

    allocator = Allocator(AllocatedState(), selectors())
    solution = allocator.allocate(NODE, slices.pools(NODE), [prepare_claim(claim, classes.get)])
    assert solution is not None
    (result,) = solution.results(lambda: "share")

    (config,) = result.devices.config
    assert (config.source, config.requests) == ("FromClass", ("r", "s"))


# ---------------------------------------------------------------- order and steps of the search


def test_the_steps_of_a_search_are_counted_as_upstream_does() -> None:
    # One for each call of allocateOne: two devices, their end, the next claim, and the end of all.
    solution = allocate(node_with(3), make_claim("c", exactly(count=2)))
    assert solution is not None
    assert solution.steps == 5
    solution = allocate(node_with(3), make_claim("c", exactly("r"), exactly("s")))
    assert solution is not None
    assert solution.steps == 6
    solution = allocate(node_with(3), make_claim("one", exactly()), make_claim("two", all_of()))
    assert solution is None
    solution = allocate(node_with(3), make_claim("c", all_of()))
    assert solution is not None
    assert solution.steps == 6
    solution = allocate(node_with(3), make_claim("c", first_of("r", "gpu")))
    assert solution is not None
    assert solution.steps == 5


@pytest.mark.parametrize(("steps", "looks"), [(255, 0), (256, 1), (511, 1), (512, 2)])
def test_the_deadline_is_looked_at_every_256_steps(steps: int, looks: int) -> None:
    # Claims of 32 devices take 34 steps, the last step included; smaller ones the rest.
    sizes = [32] * ((steps - 1) // 34)
    rest = steps - 1 - 34 * len(sizes)
    if rest == 1:
        sizes[-1], rest = 31, 2
    if rest >= 2:
        sizes.append(rest - 2)
    claims = [
        make_claim(f"c{number}", exactly(count=size))
        if size
        else make_claim(f"c{number}", exactly(count=0))
        for number, size in enumerate(sizes)
    ]
    looked: list[int] = []

    def deadline() -> bool:
        looked.append(1)
        return False

    solution = allocate(node_with(sum(sizes)), *claims, deadline=deadline)

    assert solution is not None
    assert solution.steps == steps
    assert len(looked) == looks


def test_the_next_alternative_is_taken_when_a_later_request_finds_nothing() -> None:
    devices = [make_device("d0", model="x"), make_device("d1", model="y")]
    slices = Slices([make_slice("s", devices, node="a")])
    claim = make_claim("c", first_of("r", "x", "gpu"), exactly("s", device_class="x"))

    solution = allocate(slices, claim)

    assert solution is not None
    (result,) = solution.results(lambda: "share")
    taken = [(entry.request, entry.device) for entry in result.devices.results]
    assert taken == [("r/gpu", "d1"), ("s", "d0")]


def test_too_many_devices_of_every_alternative_are_an_error() -> None:
    fits, too_many = first_of("s", "gpu", "x"), first_of("s", "gpu", "x")
    for request, counts in ((fits, (13, 12)), (too_many, (13, 20))):
        for alternative, count in zip(request["firstAvailable"], counts, strict=True):
            alternative["count"] = count
    slices = node_with(40)

    solution = allocate(slices, make_claim("c", exactly("r", count=20), fits))

    # The first alternative is one too many with any 20 devices for r, so no others are tried.
    assert [len(devices) for devices in devices_of(solution)] == [32]
    assert solution is not None
    assert solution.steps < 60
    with pytest.raises(AllocationError, match="exceeds the claim limit"):
        allocate(slices, make_claim("c", exactly("r", count=20), too_many))


def test_requests_for_all_devices_fail_without_devices() -> None:
    assert allocate(node_with(0), make_claim("c", all_of())) is None
    other = Slices([make_slice("s", [make_device("d0", model="y")], node="a")])
    assert allocate(other, make_claim("c", all_of(device_class="x"))) is None


def test_all_devices_of_two_requests_cannot_be_the_same() -> None:
    assert allocate(node_with(2), make_claim("c", all_of("r"), all_of("s"))) is None
    solution = allocate(node_with(2), make_claim("c", all_of("r"), exactly("s", count=0)))
    assert devices_of(solution) == [["d000", "d001"]]


def test_all_devices_are_those_that_match_and_have_capacity() -> None:
    devices = [
        make_device(
            name,
            model="x",
            allowMultipleAllocations=True,
            capacity={"memory": {"value": amount}},
        )
        for name, amount in (("d0", "4Gi"), ("d1", "1Gi"), ("d2", "4Gi"))
    ]
    devices.append(make_device("d3", model="y"))
    slices = Slices([make_slice("s", devices, node="a")])
    request = all_of(device_class="x")
    request["exactly"]["capacity"] = {"requests": {"memory": "2Gi"}}

    assert devices_of(allocate(slices, make_claim("c", request))) == [["d0", "d2"]]


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"count": 2}, "incomplete"),
        ({}, "invalid"),
    ],
)
def test_all_devices_need_pools_that_are_in_order(more: dict[str, Any], text: str) -> None:
    slices = node_with(1)
    slices.put(make_slice("odd", [make_device("t"), make_device("t")], pool="q", node="a", **more))
    with pytest.raises(AllocationError) as caught:
        allocate(slices, make_claim("c", all_of("everything")))

    state = "being updated" if text == "incomplete" else "invalid"
    assert str(caught.value) == (
        "claim default/c, request everything: asks for all devices, but resource pool "
        f"gpu.test/q is currently {state}"
    )


def test_a_device_that_cannot_be_selected_is_not_evaluated() -> None:
    features = replace(ALL_FEATURES, has_binding_conditions=False)
    devices = [
        make_device("d0", bindingConditions=["ready"], bindingFailureConditions=["bad"]),
        make_device("d1", model="x"),
    ]
    slices = Slices([make_slice("s", devices, node="a")], features=features)
    compiler = AttributeCompiler()

    solution = allocate(
        slices, make_claim("c", exactly(device_class="x")), answers=Selectors(compiler)
    )

    assert devices_of(solution) == [["d1"]]
    assert compiler.programs["model=x"].evaluated == ["d1"]


def test_the_problem_of_a_constraint_is_reported_after_those_of_requests() -> None:
    claim = make_claim("c", exactly(), constraints=[{}])
    with pytest.raises(AllocationError, match=r"^claim default/c, constraint #0: empty constraint"):
        allocate(node_with(1), claim)
    both = make_claim("c", exactly(device_class="none"), constraints=[{}])
    with pytest.raises(AllocationError, match="could not retrieve device class none"):
        allocate(node_with(1), both)
    # The first of several claims that has a problem is the one that is reported.
    with pytest.raises(AllocationError, match=r"^claim default/two, constraint #0"):
        allocate(
            node_with(1),
            make_claim("one", exactly()),
            make_claim("two", exactly(), constraints=[{}]),
        )


def test_the_least_of_the_alternatives_counts_for_the_limit() -> None:
    alternatives = first_of("s", "gpu", "x")
    alternatives["firstAvailable"][0]["count"] = 32
    with_one = make_claim("c", exactly("r", count=31), alternatives)
    assert devices_of(allocate(node_with(40), with_one))[0][-1] == "d031"
    with pytest.raises(AllocationError, match="devices 33 exceeds the claim limit of 32"):
        allocate(node_with(40), make_claim("c", exactly("r", count=32), alternatives))


def test_a_device_whose_nodes_are_others_is_not_taken() -> None:
    devices = [make_device("d0", nodeName="b"), make_device("d1", nodeName="a")]
    slices = Slices([make_slice("s", devices, perDeviceNodeSelection=True)])

    assert devices_of(allocate(slices, make_claim("c", exactly()))) == [["d1"]]


def test_too_many_devices_for_every_alternative_are_not_tried_with_other_devices() -> None:
    first, second = first_of("r", "gpu", "x"), first_of("s", "gpu", "x")
    for request, counts in ((first, (20, 1)), (second, (13, 14))):
        for alternative, count in zip(request["firstAvailable"], counts, strict=True):
            alternative["count"] = count

    # With 20 devices for r both alternatives of s are too many, whichever 20 of the 40 these are.
    solution = allocate(node_with(40), make_claim("c", first, second), deadline=lambda: True)

    assert solution is not None
    (result,) = solution.results(lambda: "share")
    taken = [entry.request for entry in result.devices.results]
    assert taken == ["r/x"] + ["s/gpu"] * 13
