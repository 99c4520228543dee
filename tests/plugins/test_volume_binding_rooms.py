"""Cached provisioning checks are invalidated by every change of their inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mooring.plugins.volume_binding import provisioning as module
from mooring.plugins.volume_binding.matches import NO_FREE_STORAGE, NO_VOLUME_TO_BIND
from mooring.plugins.volume_binding.provisioning import ProvisioningChecks
from mooring.state.cache import Cache
from mooring.testing import cluster, make_node
from tests.helpers.volume_objects import (
    DRIVER,
    ZONE,
    capacity,
    claim,
    csi_driver,
    put,
    storage_class,
)

IN_A = {"matchLabels": {ZONE: "a"}}
ONLY_B = [{"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]}]


def made(**more: Any) -> Any:
    return storage_class("made", provisioner=DRIVER, **more)


def some() -> Cache:
    """Returns two zones; in one of them there is room for volumes of up to 5Gi."""
    cache = cluster(make_node("a", zone="a"), make_node("b", zone="b"))
    room = capacity(near=IN_A, capacity="5Gi")
    return put(cache, made(), csi_driver(), room)


def told(candidates: ProvisioningChecks, cache: Cache, size: str = "1Gi") -> dict[str, int] | None:
    """Returns node -> bits."""
    wanted = claim(size=size, storage_class="made", is_bound=False)
    bits = candidates.blocking_reasons(cache.snapshot(), wanted)
    nodes = cache.nodes
    return None if bits is None else {nodes.names[r]: int(bits[r]) for r in nodes.order.rows()}


def test_a_claim_like_one_before_is_answered_from_memory() -> None:
    cache, candidates = some(), ProvisioningChecks()
    wanted = claim(size="1Gi", storage_class="made", is_bound=False)
    first = candidates.blocking_reasons(cache.snapshot(), wanted)
    put(cache, claim("other"))  # a claim more says nothing of room

    assert candidates.blocking_reasons(cache.snapshot(), wanted) is first
    assert told(candidates, cache) == {"a": 0, "b": NO_FREE_STORAGE}
    assert told(candidates, cache, "9Gi") == {"a": NO_FREE_STORAGE, "b": NO_FREE_STORAGE}


@pytest.mark.parametrize(
    ("happens", "after"),
    [
        (lambda cache: put(cache, capacity(near=IN_A, capacity="1Mi")), {"a": NO_FREE_STORAGE}),
        (lambda cache: put(cache, capacity("more", near={}, capacity="1Ti")), {"b": 0}),
        (
            lambda cache: cache.remove_object("CSIStorageCapacity", "default/capacity"),
            {"a": NO_FREE_STORAGE},
        ),
        (lambda cache: put(cache, csi_driver(has_capacity=False)), {"b": 0}),
        (lambda cache: cache.remove_object("CSIDriver", DRIVER), {"b": 0}),
        (
            lambda cache: put(cache, made(topologies=ONLY_B)),
            {"a": NO_VOLUME_TO_BIND, "b": NO_FREE_STORAGE},
        ),
        (lambda cache: put(cache, storage_class("made")), dict.fromkeys("ab", NO_VOLUME_TO_BIND)),
        (lambda cache: cache.put_node(make_node("a", zone="b")), {"a": NO_FREE_STORAGE}),
        (lambda cache: cache.put_node(make_node("c", zone="a")), {"c": 0}),
    ],
)
def test_it_is_forgotten_when_something_else_is_true(
    happens: Callable[[Cache], Any], after: dict[str, int]
) -> None:
    cache, candidates = some(), ProvisioningChecks()
    before = told(candidates, cache)
    assert before == {"a": 0, "b": NO_FREE_STORAGE}

    happens(cache)

    assert told(candidates, cache) == before | after == told(ProvisioningChecks(), cache)


def test_without_the_class_there_is_no_answer() -> None:
    cache, candidates = some(), ProvisioningChecks()
    told(candidates, cache)

    cache.remove_object("StorageClass", "made")

    assert told(candidates, cache) is None


def test_so_many_kinds_of_claims_are_remembered_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CACHED_CHECKS_MAX", 2)
    cache, candidates = some(), ProvisioningChecks()

    for number in range(5):
        told(candidates, cache, f"{number + 1}Gi")

    assert len(candidates._cache) == 2
