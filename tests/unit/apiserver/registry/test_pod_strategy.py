"""The class of service and the default tolerations of new pods, against their definitions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mooring.objects.defaulting.pods import add_default_tolerations
from mooring.objects.qos_class import qos_class
from mooring.objects.quantity import Quantity

AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "x.com/gpu"]),
    st.sampled_from(["0", "1", "1000m", "2", "1Gi"]),
    max_size=3,
)
RESOURCES = st.fixed_dictionaries({}, optional={"requests": AMOUNTS, "limits": AMOUNTS})
KEYS = ["", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "x"]
TOLERATIONS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "key": st.sampled_from(KEYS),
            "effect": st.sampled_from(["", "NoExecute", "NoSchedule"]),
        },
    ),
    max_size=3,
)


def positive(resources: dict[str, str]) -> dict[str, Fraction]:
    amounts = {name: Quantity.from_wire(resources.get(name, "0")).nanos for name in KINDS}
    return {name: Fraction(nanos) for name, nanos in amounts.items() if nanos > 0}


KINDS = ("cpu", "memory")


def defined_class(parts: list[dict[str, Any]]) -> str:
    """Returns the QoS class.

    Source: pkg/apis/core/helper/qos (ComputePodQOS), from its comments.
    """
    requests = [positive(part.get("requests", {})) for part in parts]
    limits = [positive(part.get("limits", {})) for part in parts]
    if not any(requests) and not any(limits):
        return "BestEffort"
    sums = [
        {name: sum(each.get(name, Fraction()) for each in amounts) for name in KINDS}
        for amounts in (requests, limits)
    ]
    is_limited = all(set(each) == set(KINDS) for each in limits)
    return "Guaranteed" if is_limited and sums[0] == sums[1] else "Burstable"


@given(st.lists(RESOURCES, min_size=1, max_size=3), st.lists(RESOURCES, max_size=2))
def test_the_class_of_service_is_the_one_that_is_defined(
    containers: list[dict[str, Any]], before: list[dict[str, Any]]
) -> None:
    spec: dict[str, Any] = {"containers": [{"resources": each} for each in containers]}
    if before:
        spec["initContainers"] = [{"resources": each} for each in before]

    assert qos_class(spec) == defined_class([*containers, *before])


@given(TOLERATIONS)
def test_lost_nodes_are_tolerated_for_a_default_time(
    tolerations: list[dict[str, Any]],
) -> None:
    pod: dict[str, Any] = {"spec": {"tolerations": list(tolerations)} if tolerations else {}}

    add_default_tolerations(pod)

    added = pod["spec"].get("tolerations", [])[len(tolerations) :]
    expected = []
    for taint in KEYS[1:3]:
        is_said = False
        for each in tolerations:
            has_key = each.get("key", "") in ("", taint)
            is_said = is_said or (has_key and each.get("effect", "") in ("", "NoExecute"))
        if not is_said:
            expected.append((taint, "NoExecute", 300))
    actual = [(each["key"], each["effect"], each["tolerationSeconds"]) for each in added]
    assert actual == expected
