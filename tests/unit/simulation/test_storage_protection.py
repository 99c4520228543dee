"""Claims and volumes that are deleted while they are in use, in a simulation.

Expectations: pkg/controller/volume/{pvcprotection,pvprotection}, and
tests/unit/apiserver/registry/test_storage_protection.py, which has the same cases for the server.
"""

from __future__ import annotations

from typing import Any

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
