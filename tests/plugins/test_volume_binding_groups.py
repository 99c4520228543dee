"""VolumeBinding looks at one row of a group where many claims look for volumes: nothing differs."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.plugins.volume_binding import find_volumes as nodes
from mooring.plugins.volume_binding.claims import PodClaims
from mooring.plugins.volume_binding.matches import VolumeMatches
from mooring.plugins.volume_binding.provisioning import ProvisioningChecks
from mooring.state.cache import Cache
from mooring.state.volumes.free_index.first_match import NONE
from mooring.state.volumes.free_index.groups import Positions
from mooring.testing import Harness, make_node
from tests.helpers.volume_objects import HOSTNAME, ZONE, claim, put, storage_class, volume
from tests.plugins import volume_clusters as clusters


def found(cache: Cache, claims: list[Any], *, many: int) -> VolumeMatches:
    """Returns what is found if so many claims are many."""
    before = nodes._GROUPING_CLAIMS_MIN
    nodes._GROUPING_CLAIMS_MIN = many  # type: ignore[misc]
    try:
        rows = np.sort(cache.nodes.order.array())
        return nodes.find_pod_volumes(
            PodClaims((), tuple(claims), ()), cache.snapshot(), rows, ProvisioningChecks()
        )
    finally:
        nodes._GROUPING_CLAIMS_MIN = before  # type: ignore[misc]


def told(result: VolumeMatches) -> Any:
    """Returns all that a caller can see of it, row by row."""

    def by_row(places: Positions | None) -> list[int]:
        if places is None:
            return [NONE] * len(result.rows)
        found: list[int] = (places if result.group_of is None else places[result.group_of]).tolist()
        return found

    return (
        result.bits.tolist(),
        result.error_at.tolist(),
        result.errors,
        [
            (each.claim.metadata.name, by_row(each.named_at), by_row(each.free_at))
            for each in result.matches
        ],
        [
            (
                each.claim.metadata.name,
                True if each.is_needed is None else each.is_needed.tolist(),
            )
            for each in result.provisions
        ],
    )


@given(st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_rows_in_groups_find_what_each_row_finds(seed: int) -> None:
    cache = clusters.case(seed).harness(object_named("nobody")).cache
    claims = [each for _, each in sorted(cache.storage.objects.claims.items())]

    assert told(found(cache, claims, many=1)) == told(found(cache, claims, many=10**9))


def object_named(name: str) -> Any:
    """Returns a plugin that does nothing."""
    plugin: Any = type(name, (), {"name": name, "filter": None})()
    plugin.filter = lambda cycle, view: None
    return plugin


def test_many_claims_share_what_there_is_row_by_row() -> None:
    made = [make_node(f"n-{number}", zone="ab"[number % 2]) for number in range(6)]
    in_zone_a = [volume(f"a-{n}", near={ZONE: "a"}, size=f"{n + 1}Gi") for n in range(5)]
    on_a_host = [volume(f"h-{n}", near={HOSTNAME: "n-1"}, size=f"{n + 1}Gi") for n in range(9)]
    claims = [claim(f"c-{number}") for number in range(9)]
    cache = put(Harness(made, []).cache, storage_class("local"), *in_zone_a, *on_a_host, *claims)

    result = found(cache, claims, many=8)

    assert result.group_of is not None
    places = np.array([each.free_at[result.group_of] for each in result.matches])  # type: ignore[index]
    assert np.count_nonzero(places != NONE, axis=0).tolist() == [5, 9, 5, 0, 5, 0]
    assert len(set(places[:, 1].tolist())) == 9
