"""Claims and volumes that are deleted while they are in use, in a simulation.

Expectations: pkg/controller/volume/{pvcprotection,pvprotection}, and
tests/unit/apiserver/registry/test_storage_protection.py, which has the same cases for the server.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.clock import VirtualClock
from mooring.simulation.engine.object_table import ObjectTable
from mooring.simulation.engine.storage_protection import start_volume_controllers
from mooring.simulation.volume_controller import bind
from tests.helpers.volume_objects import claim, user, volume

CLAIM, VOLUME = "PersistentVolumeClaim", "PersistentVolume"


def table_of(*objects: Any) -> ObjectTable:
    table = ObjectTable(objects, clock=VirtualClock())
    start_volume_controllers(table)
    return table


def on_node(pod: Any) -> Any:
    return replace(pod, spec=replace(pod.spec, node_name="n"))


def is_terminating(table: ObjectTable, kind: str, key: str) -> bool:
    return table.objects(kind)[key].metadata.deletion_timestamp is not None


def test_an_unused_claim_goes_at_once() -> None:
    table = table_of(claim("c"), user("p", "c"))
    table.delete(CLAIM, "default/c")
    assert not table.objects(CLAIM)


def test_a_claim_in_use_goes_with_its_last_pod() -> None:
    table = table_of(claim("c"), on_node(user("p", "c")), on_node(user("q", "c")))
    for _ in range(2):
        table.delete(CLAIM, "default/c")
        assert is_terminating(table, CLAIM, "default/c")
    table.delete("Pod", "default/p", grace_period_s=0)
    assert is_terminating(table, CLAIM, "default/c")
    table.delete("Pod", "default/q", grace_period_s=30)
    assert is_terminating(table, CLAIM, "default/c")
    table.delete("Pod", "default/q", grace_period_s=0)
    assert not table.objects(CLAIM)


@pytest.mark.parametrize("seed", range(10))
def test_any_order_of_bindings_and_deletions_keeps_what_is_used_and_no_more(seed: int) -> None:
    """The model: a set of the pods with a node for each claim."""
    rng = random.Random(seed)
    names = [f"c{number}" for number in range(4)]
    table = table_of(*(claim(name) for name in names))
    mounted: dict[str, set[str]] = {name: set() for name in names}
    deleted: set[str] = set()
    for number in range(60):
        action, name = rng.choice(["create", "bind", "pod", "claim"]), rng.choice(names)
        pods = table.objects("Pod")
        if action == "create":
            table.create(user(f"p{number}", name))
        elif action == "claim" and f"default/{name}" in table.objects(CLAIM):
            table.delete(CLAIM, f"default/{name}")
            deleted.add(name)
        elif action in ("bind", "pod") and pods:
            pod = pods[rng.choice([*pods])]
            (name,) = (volume.persistent_volume_claim.claim_name for volume in pod.spec.volumes)
            if action == "bind" and not pod.spec.node_name:
                table.put(on_node(pod))
                mounted[name].add(pod.metadata.name)
            elif action == "pod":
                table.delete("Pod", f"default/{pod.metadata.name}", grace_period_s=0)
                mounted[name].discard(pod.metadata.name)
        for known in [*deleted]:
            is_there = f"default/{known}" in table.objects(CLAIM)
            if is_there:
                assert mounted[known]
                assert is_terminating(table, CLAIM, f"default/{known}")
            else:
                assert not mounted[known]
                deleted.discard(known)
                mounted[known].clear()
                table.create(claim(known))


def test_a_pod_on_no_node_uses_no_claim_and_finds_it_gone() -> None:
    table = table_of(claim("c"), on_node(user("p", "c")))
    table.delete(CLAIM, "default/c")
    table.create(user("late", "c"))
    table.delete("Pod", "default/p", grace_period_s=0)
    assert not table.objects(CLAIM)


def test_a_claim_of_the_input_that_waits_for_another_finalizer_stays() -> None:
    metadata = replace(
        claim("c").metadata,
        deletion_timestamp="2026-01-01T00:00:00Z",
        finalizers=("kubernetes.io/pvc-protection", "example.com/mine"),
    )
    table = table_of(replace(claim("c"), metadata=metadata), on_node(user("p", "c")))
    table.delete("Pod", "default/p", grace_period_s=0)
    assert "default/c" in table.objects(CLAIM)


def test_a_bound_volume_goes_after_its_claim() -> None:
    bound = bind(volume("v", claim="default/c"), claim("c", volume_name="v"))
    table = table_of(bound.volume, bound.claim)
    table.delete(VOLUME, "v")
    assert is_terminating(table, VOLUME, "v")
    table.delete(CLAIM, "default/c")
    assert not table.objects(VOLUME)


def test_a_free_volume_goes_at_once() -> None:
    table = table_of(volume("v"))
    table.delete(VOLUME, "v")
    assert not table.objects(VOLUME)
