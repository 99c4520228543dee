"""Changes of watched objects reach the table of their kind."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.objects.codec.decode import convert
from mooring.state import audit
from mooring.state.apply import apply_change
from mooring.state.cache import Cache
from mooring.testing import make_node, make_pod
from tests.helpers.devices import make_claim, make_class
from tests.helpers.volume_objects import claim, volume


def test_nodes_are_added_updated_and_removed() -> None:
    cache = Cache()
    small, large = (make_node("a", allocatable={"cpu": cpu}) for cpu in ("1", "2"))

    apply_change(cache, "Node", None, small)
    apply_change(cache, "Node", small, large)
    row = cache.nodes.live_row("a")
    assert int(cache.nodes.allocatable[cache.nodes.resource_id("cpu"), row]) == 2000
    apply_change(cache, "Node", large, None)

    assert cache.nodes.live_row("a") < 0
    assert len(cache.nodes) == 0


def test_pods_count_once_they_have_a_node() -> None:
    cache = Cache()
    pending, placed = make_pod("p"), make_pod("p", node="a")

    apply_change(cache, "Pod", None, pending)
    assert len(cache.pods) == 0
    apply_change(cache, "Pod", pending, placed)
    apply_change(cache, "Pod", None, make_pod("q", node="b"))
    assert {pod.info.metadata.name for pod in cache.pods} == {"p", "q"}
    apply_change(cache, "Pod", placed, None)

    assert {pod.info.metadata.name for pod in cache.pods} == {"q"}
    assert audit(cache) == []


NAMESPACE = convert({"metadata": {"name": "web", "labels": {"team": "x"}}}, "Namespace")


@pytest.mark.parametrize(
    ("kind", "obj", "stored"),
    [
        ("PersistentVolume", volume("v"), lambda cache: cache.storage.volume("v")),
        ("PersistentVolumeClaim", claim("c"), lambda cache: cache.storage.claim("default/c")),
        ("ResourceClaim", make_claim("c"), lambda cache: cache.devices.claims.get("default/c")),
        ("DeviceClass", make_class("gpu"), lambda cache: cache.device_classes.get("gpu")),
        ("Namespace", NAMESPACE, lambda cache: dict(cache.namespaces.items()).get("web")),
    ],
)
def test_other_objects_are_stored_by_their_key_until_they_are_deleted(
    kind: str, obj: Any, stored: Any
) -> None:
    cache = Cache()
    assert stored(cache) is None

    apply_change(cache, kind, None, obj)
    assert stored(cache) is not None
    apply_change(cache, kind, obj, None)

    assert stored(cache) is None


def test_kinds_without_a_store_are_ignored() -> None:
    cache = Cache()
    event = make_pod("e")

    apply_change(cache, "Event", None, event)
    apply_change(cache, "Event", event, None)

    assert audit(cache) == []
