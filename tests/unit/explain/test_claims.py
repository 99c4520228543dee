"""Explanations of claims, with the exact text: the cluster is read by the real plugins."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from mooring.clock import VirtualClock, seeded_random
from mooring.config import default_configuration
from mooring.explain.explain import explain
from mooring.objects.pod import Pod
from mooring.simulation.driver import Driver
from mooring.simulation.utilization import Utilization
from mooring.testing import make_node, make_pod
from tests.helpers.devices import (
    DRIVER,
    all_of,
    exactly,
    first_of,
    make_claim,
    make_class,
    make_device,
    make_slice,
    result_of,
)

BY_DRIVER = f"device.driver == '{DRIVER}'"
IS_BIG = f"device.attributes['{DRIVER}'].model == 'big'"
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "new", "uid": "u-new", "controller": True}
TEMPLATE = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}


def gpus(node: str, *devices: dict[str, Any], **more: Any) -> Any:
    return make_slice(f"gpus-{node}", list(devices), node=node, **more)


def used_by(*pods: str) -> dict[str, Any]:
    return {"reservedFor": [{"resource": "pods", "name": pod, "uid": f"u-{pod}"} for pod in pods]}


def pod(*claims: str, **fields: Any) -> Pod:
    entries = [{"name": name, "resourceClaimName": name} for name in claims]
    fields.setdefault("spec", {"resourceClaims": entries})
    return make_pod("new", uid="u-new", **fields)


def explained(new: Pod, *objects: Any, nodes: tuple[str, ...] = ("a",)) -> list[str]:
    """Returns the lines from the claims on, without the message."""
    cluster = [
        *(make_node(name, labels={"zone": name}) for name in nodes),
        make_class("gpu", BY_DRIVER),
        *objects,
    ]
    driver = Driver(
        cluster, config=default_configuration(), rng=seeded_random(1), clock=VirtualClock()
    )
    decision = driver.attempt(new, explain=True).decision()
    text = explain(new, decision, Utilization(cluster), snapshot=driver.cache.snapshot())
    _, marker, rest = text.partition("\nIts claims:\n")
    return rest.partition("\n\nMessage:")[0].splitlines() if marker else []


class Case(NamedTuple):
    """A pod, its cluster, and the exact lines."""

    pod: Pod
    objects: list[Any]
    lines: str = ""
    nodes: tuple[str, ...] = ("a",)


SELECTS_BIG = [{"cel": {"expression": IS_BIG}}]
SELECTS_WRONG = [{"cel": {"expression": f"device.attributes['{DRIVER}'].modell == 'big'"}}]
NUMA = "resource.kubernetes.io/numa"
TWO = gpus("a", make_device("d0", model="big"), make_device("d1", model="small"))
HELD = make_claim(
    "held", exactly(), allocated=[result_of("d0", "a")], on="a", status=used_by("x", "y")
)
SHARED: dict[str, Any] = {
    "allowMultipleAllocations": True,
    "capacity": {"memory": {"value": "40Gi"}},
}
SHARE = result_of("d0", "a", shareID="s", consumedCapacity={"memory": "20Gi"})
COUNTERS = [{"name": "gpu0", "counters": {"mem": {"value": "40Gi"}}}]
WITH_CONDITIONS = result_of(
    "d0", "a", bindingConditions=["ready"], bindingFailureConditions=["bad"]
)
FAILED = {
    "type": "bad",
    "status": "True",
    "reason": "Broken",
    "message": "no power",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def numa(number: int) -> dict[str, Any]:
    return {"name": f"d{number}", "attributes": {NUMA: {"int": number // 2}}}


def part(name: str, memory: str) -> dict[str, Any]:
    consumed = {"counterSet": "gpu0", "counters": {"mem": {"value": memory}}}
    return make_device(name, consumesCounters=[consumed])


CASES = {
    "a claim that does not exist": Case(
        pod=pod("mine"),
        objects=[make_claim("mina", exactly())],
        lines="""
  default/mine: does not exist (did you mean mina?)
""",
    ),
    "a claim that was not made from its template": Case(
        pod=pod(spec=TEMPLATE),
        objects=[],
        lines="""
  entry gpu: the resource claim controller has not made a claim from template default/t
""",
    ),
    "a claim that is being deleted": Case(
        pod=pod("mine"),
        objects=[
            make_claim(
                "mine",
                exactly(),
                deletionTimestamp="2026-01-01T00:00:00Z",
                allocated=[result_of("d0", "a")],
                on="a",
                status=used_by("x"),
            )
        ],
        lines="""
  default/mine: is being deleted since 2026-01-01T00:00:00Z; reserved for pod x
""",
    ),
    "a claim of another owner": Case(
        pod=pod(
            spec=TEMPLATE,
            status={"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "mine"}]},
        ),
        objects=[make_claim("mine", exactly())],
        lines="""
  default/mine: exists, but was not made for this pod: the pod is not its owner
""",
    ),
    "a class that does not exist": Case(
        pod=pod("mine"),
        objects=[make_claim("mine", exactly(device_class="gpus")), TWO],
        lines="""
  default/mine: not allocated
    request r: device class gpus does not exist (did you mean gpu?)
""",
    ),
    "a claim that is allocated elsewhere": Case(
        pod=pod("held"),
        objects=[HELD, TWO],
        nodes=("b", "c"),
        lines="""
  default/held: allocated gpu.test/a/d0, for node a; reserved for pod x, pod y

Missing devices, by group of nodes:
  2 nodes of 4 cpu, 32Gi memory (b, c):
    claim default/held is allocated for node a only
""",
    ),
    "a claim with as many users as it can have": Case(
        pod=pod("held"),
        objects=[
            make_claim(
                "held",
                exactly(),
                allocated=[result_of("d0", "a")],
                on="a",
                status=used_by(*(f"p{number}" for number in range(256))),
            ),
            TWO,
        ],
        lines="""
  default/held: allocated gpu.test/a/d0, for node a; reserved for pod p0, pod p1, pod p2, 253 more
    it is reserved for 256 pods, the maximum: no other pod can use it
""",
    ),
    "a device that is taken": Case(
        pod=pod("mine"),
        objects=[make_claim("mine", exactly(count=2)), HELD, TWO],
        lines="""
  default/mine: not allocated

Missing devices, by group of nodes:
  1 node of 4 cpu, 32Gi memory (a):
    claim default/mine, request r: 2 devices of class gpu
      2 devices of the class: 1 free, 1 taken
      taken by claim default/held (pod x, pod y): gpu.test/a/d0
""",
    ),
    "devices that a selector excludes": Case(
        pod=pod("mine"),
        objects=[
            make_claim("mine", exactly(count=2, selectors=SELECTS_BIG)),
            TWO,
            gpus("b", make_device("d0", model="small")),
        ],
        nodes=("a", "b"),
        lines="""
  default/mine: not allocated

Missing devices, by group of nodes:
  2 nodes of 4 cpu, 32Gi memory (a, b):
    claim default/mine, request r: 2 devices of class gpu
      3 devices of the class: 1 free, 2 excluded by selectors
      at best 1 free on one node (a)
      selector device.attributes['gpu.test'].model == 'big'\
 excludes 2 devices: gpu.test/a/d1, gpu.test/b/d0
""",
    ),
    "a selector that fails": Case(
        pod=pod("mine"),
        objects=[make_claim("mine", exactly(selectors=SELECTS_WRONG)), TWO],
        lines="""
  default/mine: not allocated

Missing devices, by group of nodes:
  1 node of 4 cpu, 32Gi memory (a):
    claim default/mine, request r: 1 device of class gpu
      2 devices of the class: 0 free, 2 failing a selector
      selector device.attributes['gpu.test'].modell == 'big'\
 fails for 2 devices: gpu.test/a/d0, gpu.test/a/d1
        CEL runtime error: no such key: modell
""",
    ),
    "a selector that does not compile": Case(
        pod=pod("mine"),
        objects=[
            make_claim("mine", exactly(selectors=[{"cel": {"expression": "devic.driver"}}])),
            TWO,
        ],
        lines="""
  default/mine: not allocated

Missing devices, by group of nodes:
  1 node of 4 cpu, 32Gi memory (a):
    claim default/mine, request r: 1 device of class gpu
      2 devices of the class: 0 free, 2 failing a selector
      selector devic.driver does not compile
        CEL compile error: compilation failed: ERROR: <input>:1:1: undeclared reference to 'devic'\
 (in container '')
         | devic.driver
         | ^
""",
    ),
    "a device with a taint": Case(
        pod=pod("mine"),
        objects=[
            make_claim("mine", exactly(count=2)),
            gpus(
                "a",
                make_device(
                    "d0", taints=[{"key": "broken", "value": "yes", "effect": "NoSchedule"}]
                ),
                make_device("d1"),
            ),
        ],
        lines="""
  default/mine: not allocated

Missing devices, by group of nodes:
  1 node of 4 cpu, 32Gi memory (a):
    claim default/mine, request r: 2 devices of class gpu
      2 devices of the class: 1 free, 1 tainted
      taint broken=yes:NoSchedule is on 1 device: gpu.test/a/d0
""",
    ),
    "a constraint that cannot be satisfied": Case(
        pod=pod("mine"),
        objects=[
            make_claim(
                "mine", exactly("x"), exactly("y", count=2), constraints=[{"matchAttribute": NUMA}]
            ),
            gpus("a", *(numa(number) for number in range(4)), make_device("plain")),
        ],
        lines="""
  default/mine: not allocated

Missing devices, by group of nodes:
  1 node of 4 cpu, 32Gi memory (a):
    claim default/mine: constraint matchAttribute resource.kubernetes.io/numa cannot be satisfied
      values of the free devices on a:
        request x, 1 device of class gpu: 0 (2 devices), 1 (2 devices), none (1 device)
        request y, 2 devices of class gpu: 0 (2 devices), 1 (2 devices), none (1 device)
""",
    ),
    "requests that exclude each other": Case(
        pod=pod("mine"),
        objects=[make_claim("mine", exactly("x"), exactly("y", count=2)), TWO],
        lines="""
  default/mine: not allocated

Missing devices, by group of nodes:
  1 node of 4 cpu, 32Gi memory (a):
    claim default/mine: each request has enough devices, but not all requests together
      request x: 1 device of class gpu, 2 free: gpu.test/a/d0, gpu.test/a/d1
      request y: 2 devices of class gpu, 2 free: gpu.test/a/d0, gpu.test/a/d1
""",
    ),
    "claims that exclude each other": Case(
        pod=pod("mine", "yours"),
        objects=[make_claim("mine", exactly()), make_claim("yours", exactly(count=2)), TWO],
        lines="""
  default/mine: not allocated
  default/yours: not allocated

Missing devices, by group of nodes:
  1 node of 4 cpu, 32Gi memory (a):
    each claim could have its devices, but not all of them together: claim default/mine,\
 claim default/yours
""",
    ),
    "all devices, of which one is taken": Case(
        pod=pod("mine"),
        objects=[make_claim("mine", all_of()), HELD, TWO],
        lines="""
  default/mine: not allocated

Missing devices, by group of nodes:
  1 node of 4 cpu, 32Gi memory (a):
    claim default/mine, request r: all devices of class gpu
      2 devices of the class: 1 free, 1 taken
      taken by claim default/held (pod x, pod y): gpu.test/a/d0
""",
    ),
    "alternatives of a request": Case(
        pod=pod("mine"),
        objects=[
            make_class("other", "device.driver == 'other'"),
            make_claim("mine", first_of("r", "other", "gpu")),
            gpus("a"),
        ],
        lines="""
  default/mine: not allocated

Missing devices, by group of nodes:
  1 node of 4 cpu, 32Gi memory (a):
    claim default/mine, request r/other: 1 device of class other
      no device of the class
    claim default/mine, request r/gpu: 1 device of class gpu
      no device of the class
""",
    ),
    "a pool that is incomplete": Case(
        pod=pod("mine"),
        objects=[make_claim("mine", exactly()), gpus("a", make_device("d0"), count=2)],
        lines="""
  default/mine: not allocated

Missing devices, by group of nodes:
  1 node of 4 cpu, 32Gi memory (a):
    pool gpu.test/a is incomplete, so its devices are not used: 1 of 2 slices of generation 1 exist
    claim default/mine, request r: 1 device of class gpu
      no device of the class
""",
    ),
    "a pool that is invalid": Case(
        pod=pod("mine"),
        objects=[make_claim("mine", exactly()), gpus("a", make_device("d0"), make_device("d0"))],
        lines="""
  default/mine: not allocated

Missing devices, by group of nodes:
  1 node of 4 cpu, 32Gi memory (a):
    pool gpu.test/a is invalid, so its devices are not used: several devices are named d0
    claim default/mine, request r: 1 device of class gpu
      no device of the class
""",
    ),
    "a shared device with too little capacity": Case(
        pod=pod("mine"),
        objects=[
            make_claim("mine", exactly(capacity={"requests": {"memory": "30Gi"}})),
            make_claim("held", exactly(), allocated=[SHARE], on="a", status=used_by("x")),
            gpus("a", make_device("d0", **SHARED)),
        ],
        lines="""
  default/mine: not allocated

Missing devices, by group of nodes:
  1 node of 4 cpu, 32Gi memory (a):
    claim default/mine, request r: 1 device of class gpu
      1 device of the class: 0 free, 1 with too little capacity
      30Gi of memory needed, gpu.test/a/d0 has 20Gi of 40Gi left
      used by claim default/held (pod x): gpu.test/a/d0
""",
    ),
    "a partition for which too few counters are left": Case(
        pod=pod("mine"),
        objects=[
            make_claim("mine", exactly()),
            HELD,
            make_slice("counters-a", pool="a", count=2, sharedCounters=COUNTERS, nodeName="a"),
            gpus("a", part("d0", "20Gi"), part("d1", "30Gi"), count=2),
        ],
        lines="""
  default/mine: not allocated

Missing devices, by group of nodes:
  1 node of 4 cpu, 32Gi memory (a):
    claim default/mine, request r: 1 device of class gpu
      2 devices of the class: 0 free, 1 taken, 1 with too few counters
      taken by claim default/held (pod x, pod y): gpu.test/a/d0
      30Gi of gpu0/mem needed, pool gpu.test/a has 20Gi left
      used by claim default/held (pod x, pod y): gpu.test/a/d0
""",
    ),
    "an extended resource": Case(
        pod=pod(requests={"example.com/gpu": "2"}, spec={}),
        objects=[make_class("big", BY_DRIVER, resource="example.com/gpu"), HELD, TWO],
        lines="""
  extended resource example.com/gpu: by devices of class big,\
 unless a node has it from a device plugin

Missing devices, by group of nodes:
  1 node of 4 cpu, 32Gi memory (a):
    example.com/gpu of container container-0: 2 devices of class big
      2 devices of the class: 1 free, 1 taken
      taken by claim default/held (pod x, pod y): gpu.test/a/d0
""",
    ),
    "devices whose failure condition is true": Case(
        pod=pod("mine"),
        objects=[
            make_claim(
                "mine",
                exactly(),
                allocated=[WITH_CONDITIONS],
                on="a",
                status={
                    "devices": [
                        {"driver": DRIVER, "pool": "a", "device": "d0", "conditions": [FAILED]}
                    ]
                },
            ),
            TWO,
        ],
        lines="""
  default/mine: allocated gpu.test/a/d0, for node a; reserved for no pod
    its devices cannot be used: reason=Broken, message="no power"

Missing devices, by group of nodes:
  1 node of 4 cpu, 32Gi memory (a):
    claim default/mine: its devices cannot be used: reason=Broken, message="no power"
""",
    ),
    "sums over nodes, and the best one": Case(
        pod=pod("mine"),
        objects=[
            make_claim("mine", exactly(count=2)),
            *(gpus(node, make_device("d0"), make_device("d1")) for node in "abcd"),
            *(
                make_claim(
                    f"held-{node}",
                    exactly(),
                    allocated=[result_of("d0", node)],
                    on=node,
                    status=used_by(f"x{node}"),
                )
                for node in "abcde"
            ),
        ],
        nodes=("a", "b", "c", "d", "e"),
        lines="""
  default/mine: not allocated

Missing devices, by group of nodes:
  5 nodes of 4 cpu, 32Gi memory (a, b, c, ...):
    claim default/mine, request r: 2 devices of class gpu
      8 devices of the class: 4 free, 4 taken
      at best 1 free on one node (a)
      taken by claim default/held-a (pod xa): gpu.test/a/d0
      taken by claim default/held-b (pod xb): gpu.test/b/d0
      taken by claim default/held-c (pod xc): gpu.test/c/d0
      taken by claim default/held-d (pod xd): gpu.test/d/d0
""",
    ),
    "nothing for a pod that is placed": Case(
        pod=pod("mine"), objects=[make_claim("mine", exactly()), TWO], lines=""
    ),
    "nothing for a pod without claims": Case(
        pod=pod(requests={"cpu": "64"}, spec={}), objects=[TWO], lines=""
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_it_explains(name: str) -> None:
    case = CASES[name]
    assert explained(case.pod, *case.objects, nodes=case.nodes) == case.lines.splitlines()[1:]
