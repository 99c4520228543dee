"""Odd pods that an API server accepts: no attempt crashes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from bench import poison_pods
from mooring.clock import SystemClock, seeded_random
from mooring.config import default_configuration
from mooring.errors import PluginError
from mooring.objects.pod import Pod
from mooring.plugins import IN_TREE
from mooring.simulation.driver import Driver
from mooring.state import audit
from mooring.testing import make_node, make_pod

NODES = 30
WEB = {"matchLabels": {"app": "web"}}


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    """Yields a driver with a few nodes, all requested objects, and pods with budgets."""
    nodes = [poison_pods.node(number) for number in range(NODES)]
    besides = [*poison_pods.surroundings(NODES), *poison_pods.budgets()[:50]]
    found = Driver(
        [*nodes, *besides],
        config=default_configuration(),
        rng=seeded_random(0),
        clock=SystemClock(),
    )
    for number in range(2 * NODES):
        found.cache.put_pod(running(number))
    yield found
    assert audit(found.cache) == []


def running(number: int) -> Pod:
    return make_pod(
        f"running-{number}",
        labels={"app": f"app-{number % 7}" if number % 2 else "web"},
        node=f"node-{number % NODES:05}",
        requests={"cpu": "1"},
        priority=0,
    )


@pytest.mark.parametrize("name", poison_pods.PODS)
def test_a_thousand_of_anything_is_decided(driver: Driver, name: str) -> None:
    pod = poison_pods.PODS[name]()
    urgent = replace(pod, spec=replace(pod.spec, priority=1_000))

    for each in (pod, urgent):
        outcome = driver.attempt(each)

        assert (outcome.node is None) != (outcome.message == "")


@pytest.mark.parametrize("name", poison_pods.PODS)
def test_so_it_is_beside_running_pods_of_the_same_kind(name: str) -> None:
    pod = poison_pods.PODS[name]()
    nodes = [make_node(f"node-{number:05}", zone=f"z-{number % 2}") for number in range(4)]
    found = Driver(nodes, rng=seeded_random(0), clock=SystemClock())
    placed = replace(
        pod,
        metadata=replace(pod.metadata, name="running", uid="running"),
        spec=replace(pod.spec, node_name="node-00001", priority=0),
    )

    found.cache.put_pod(placed)

    assert audit(found.cache) == []
    found.attempt(pod)
    found.attempt(make_pod("web", labels={"app": "web"}, priority=7))
    found.cache.remove_pod("running")
    assert audit(found.cache) == []


def term(**selector: Any) -> dict[str, Any]:
    return {"topologyKey": "zone", "labelSelector": selector}


def affine(part: str, *terms: dict[str, Any], required: bool = True) -> Pod:
    if required:
        found: dict[str, Any] = {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}
    else:
        weighted = [{"weight": 2**31 - 1, "podAffinityTerm": each} for each in terms]
        found = {"preferredDuringSchedulingIgnoredDuringExecution": weighted}
    return make_pod("odd", affinity={part: found}, labels={"app": "web"})


def spread(**constraint: Any) -> Pod:
    whole = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    return make_pod("odd", spec={"topologySpreadConstraints": [{**whole, **constraint}]})


def picky(**part: Any) -> Pod:
    terms = {"nodeSelectorTerms": [part]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    return make_pod("odd", affinity={"nodeAffinity": required})


UNKNOWN = {"matchExpressions": [{"key": "app", "operator": "Perhaps", "values": ["x"]}]}
EMPTY = {"matchExpressions": [{"key": "app", "operator": "In", "values": []}]}
NO_LABEL = {"matchLabels": {"": "x"}}
BAD_VALUE = {"matchLabels": {"app": "{{x}}"}}

ODD_TERMS: dict[str, dict[str, Any]] = {
    "no selector": {"labelSelector": None},
    "empty selector": {"labelSelector": {}},
    "unknown operator": {"labelSelector": UNKNOWN},
    "no values": {"labelSelector": EMPTY},
    "no label": {"labelSelector": NO_LABEL},
    "bad value": {"labelSelector": BAD_VALUE},
    "no topology key": {"topologyKey": ""},
    "odd namespaces": {"namespaces": ["", "nowhere", "a" * 300]},
    "bad namespace selector": {"namespaceSelector": UNKNOWN},
    "all namespaces": {"namespaceSelector": {}},
}
ODD_CONSTRAINTS: dict[str, dict[str, Any]] = {
    "no selector": {},
    "unknown operator": {"labelSelector": UNKNOWN},
    "no topology key": {"topologyKey": "", "labelSelector": WEB},
    "huge skew": {"maxSkew": 2**31 - 1, "labelSelector": WEB},
    "negative skew": {"maxSkew": -(2**31), "labelSelector": WEB},
    "many domains": {"minDomains": 2**31 - 1, "labelSelector": WEB},
    "no domains": {"minDomains": -1, "labelSelector": WEB},
    "unknown policy": {"nodeTaintsPolicy": "Perhaps", "labelSelector": WEB},
    "keys that it lacks": {"matchLabelKeys": ["nope", ""], "labelSelector": WEB},
}

ODD = {
    **{
        f"{part}, {how}, {what}": affine(part, {**term(), **more}, required=how == "required")
        for part in ("podAffinity", "podAntiAffinity")
        for how in ("required", "preferred")
        for what, more in ODD_TERMS.items()
    },
    **{
        f"spread, {action}, {what}": spread(whenUnsatisfiable=action, **more)
        for action in ("DoNotSchedule", "ScheduleAnyway", "Perhaps")
        for what, more in ODD_CONSTRAINTS.items()
    },
    "node affinity, nothing": picky(),
    "node affinity, unknown operator": picky(**UNKNOWN),
    "node affinity, no values": picky(**EMPTY),
    "node affinity, bad number": picky(
        matchExpressions=[{"key": "zone", "operator": "Gt", "values": ["9" * 30]}]
    ),
    "node affinity, unknown field": picky(
        matchFields=[{"key": "spec.x", "operator": "In", "values": ["x"]}]
    ),
    "node affinity, two names": picky(
        matchFields=[{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]
    ),
    "node affinity, many names": picky(
        matchExpressions=[
            {
                "key": "kubernetes.io/hostname",
                "operator": "NotIn",
                "values": [f"node-{n:05}" for n in range(20_000)],
            }
        ]
    ),
    "requests, huge": make_pod("odd", requests={"cpu": "9223372036854775807", "memory": "8Ei"}),
    "requests, beyond": make_pod("odd", requests={"cpu": "999999999999E", "memory": "1e40"}),
    "requests, negative": make_pod("odd", requests={"cpu": "-5", "memory": "-1Gi"}),
    "requests, tiny": make_pod("odd", requests={"cpu": "1n", "memory": "1m"}),
    "nomination, of nobody": make_pod("odd", nominated_node="nowhere"),
    "toleration, of numbers": make_pod(
        "odd", tolerations=[{"key": "x", "operator": "Gt", "value": "y"}]
    ),
}


def blamed(driver: Driver, pod: Pod) -> str:
    """Returns the plugin whose error the attempt ends with; "" = it has an outcome."""
    try:
        outcome = driver.attempt(pod)
    except PluginError as error:
        return error.plugin
    assert outcome.node is not None or outcome.message
    return ""


@pytest.mark.parametrize("name", ODD)
def test_what_cannot_be_read_is_an_error_of_the_pod_alone(driver: Driver, name: str) -> None:
    assert blamed(driver, ODD[name]) in ("", *IN_TREE)
    assert blamed(driver, make_pod("plain")) == ""


@pytest.mark.parametrize("name", [name for name in ODD if name.startswith("pod")])
def test_who_cannot_be_read_harms_nobody_from_a_node(name: str) -> None:
    """Upstream leaves the terms of that sort out, and so do we."""
    nodes = [make_node(f"n-{number}", labels={"zone": "a"}) for number in range(2)]
    found = Driver(nodes, rng=seeded_random(0), clock=SystemClock())
    odd = ODD[name]

    found.cache.put_pod(replace(odd, spec=replace(odd.spec, node_name="n-1")))

    assert audit(found.cache) == []
    assert blamed(found, make_pod("web", labels={"app": "web"})) == ""
