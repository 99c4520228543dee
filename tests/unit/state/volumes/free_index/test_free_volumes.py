"""The smallest free volume for every node: equal to a walk over all of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.clock import Rng, seeded_random
from mooring.objects.selectors import requirement, selector_of
from mooring.objects.storage import PersistentVolume
from mooring.objects.volume_claims import amount
from mooring.state.cache import Cache
from mooring.state.volumes.free_index import first_match as module
from mooring.state.volumes.free_index.first_match import NONE, VolumeRequest
from mooring.state.volumes.free_index.free_volumes import INSERTIONS_MAX, FreeVolumes
from mooring.state.volumes.free_index.groups import Positions
from mooring.state.volumes.topology import TopologyMasks, topology_of_affinity
from mooring.testing import cluster, make_node
from tests.helpers.volume_objects import HOSTNAME, ZONE, volume
from tests.plugins import volume_clusters as clusters

GIGABYTE = 1 << 30
TIER = selector_of([requirement("tier", "In", ("gold",))])


@pytest.fixture(params=[0, 16], autouse=True, scope="module")
def few_rows(request: pytest.FixtureRequest) -> Iterator[None]:
    """Everything is tried twice: with columns for any number of rows, and with plain lists."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_FEW_ROWS", request.param)
        yield


def free(cache: Cache, *volumes: PersistentVolume) -> FreeVolumes:
    found = FreeVolumes(cache.nodes, TopologyMasks(cache.nodes))
    for each in volumes:
        found.put(each)
    return found


def wanted(gigabytes: float = 1, **more: object) -> VolumeRequest:
    fields = {
        "volume_mode": "Filesystem",
        "attributes_class": "",
        "access_modes": ("ReadWriteOnce",),
        "selector": None,
        **more,
    }
    return VolumeRequest(int(gigabytes * GIGABYTE * 10**9), **fields)  # type: ignore[arg-type]


def chosen(
    cache: Cache, volumes: FreeVolumes, claim: VolumeRequest, taken: int = 0
) -> list[list[str]]:
    """Returns for each node the volumes that ``taken + 1`` equal claims get, in order."""
    rows = np.array(cache.nodes.order.rows(), dtype=np.intp)
    places: list[Positions] = []
    for _ in range(taken + 1):
        places.append(volumes.choose(claim, rows, taken=places))
    return [
        [volumes.at(int(at[n])).metadata.name if at[n] != NONE else "" for at in places]
        for n in range(len(rows))
    ]


def walked(
    cache: Cache, there: list[PersistentVolume], claim: VolumeRequest, taken: int
) -> list[list[str]]:
    """Returns the same, volume by volume."""
    ordered = sorted(there, key=lambda v: (amount(v.spec.capacity), v.metadata.name))
    found = []
    for row in cache.nodes.order.rows():
        labels = cache.nodes.node(row).metadata.labels
        fit = [v.metadata.name for v in ordered if will_do(v, claim, labels)]
        found.append((fit + [""] * (taken + 1))[: taken + 1])
    return found


def will_do(found: PersistentVolume, claim: VolumeRequest, labels: dict[str, str]) -> bool:
    affinity = found.spec.node_affinity
    return (
        amount(found.spec.capacity).nanos >= claim.nanos
        and (found.spec.volume_mode or "Filesystem") == claim.volume_mode
        and (found.spec.volume_attributes_class_name or "") == claim.attributes_class
        and set(claim.access_modes) <= set(found.spec.access_modes)
        and (claim.selector is None or claim.selector.matches(found.metadata.labels))
        and topology_of_affinity(affinity.required if affinity else None).matches(labels)
    )


def some_claim(rng: Rng) -> VolumeRequest:
    return wanted(
        rng.choice((0, 1, 2, 5, 9)),
        volume_mode=rng.choice(("Filesystem", "Filesystem", "Block")),
        attributes_class=rng.choice(("", "", "gold")),
        access_modes=rng.choice((("ReadWriteOnce",), (), ("ReadOnlyMany", "ReadWriteOnce"))),
        selector=rng.choice((None, None, TIER)),
    )


@given(st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_the_choice_is_that_of_a_walk_after_every_change(seed: int) -> None:
    rng = seeded_random(seed)
    cache = cluster(*(clusters.node(rng, name) for name in clusters.NODES[:4]))
    volumes, there = free(cache), dict[str, PersistentVolume]()
    for _ in range(6):
        for _ in range(rng.choice((1, 3, INSERTIONS_MAX + 5))):
            found = clusters.volume(rng, f"v-{rng.randrange(60)}")
            if rng.random() < 0.6:
                volumes.put(found)
                there[found.metadata.name] = found
            else:
                volumes.remove(found.metadata.name)
                there.pop(found.metadata.name, None)
        if rng.random() < 0.5:
            cache.put_node(clusters.node(rng, rng.choice(clusters.NODES)))
        claim, taken = some_claim(rng), rng.choice((0, 0, 1, 2))

        assert chosen(cache, volumes, claim, taken) == walked(
            cache, list(there.values()), claim, taken
        )
        assert len(volumes) == len(there)


@given(st.integers(0, 2**32))
@settings(max_examples=80, deadline=None)
def test_answers_follow_volumes_that_are_taken_and_given_back(seed: int) -> None:
    rng = seeded_random(seed)
    cache = cluster(*(clusters.node(rng, name) for name in clusters.NODES))
    there = {f"v-{number}": clusters.volume(rng, f"v-{number}") for number in range(12)}
    volumes, taken = free(cache, *there.values()), dict[str, PersistentVolume]()
    claims = [some_claim(rng) for _ in range(3)]
    for _ in range(15):
        for _ in range(rng.choice((0, 1, 2, 90))):
            name = f"v-{rng.randrange(12)}"
            if name in taken:
                there[name] = taken.pop(name)
                volumes.put(there[name])
            else:
                taken[name] = there.pop(name)
                volumes.remove(name)
        if rng.random() < 0.2:
            cache.put_node(clusters.node(rng, rng.choice((*clusters.NODES, "new"))))
        claim, more = rng.choice(claims), rng.choice((0, 0, 2))

        assert chosen(cache, volumes, claim, more) == walked(
            cache, list(there.values()), claim, more
        )


def test_the_smallest_that_is_large_enough_is_taken() -> None:
    cache = cluster(make_node("a"))
    volumes = free(cache, volume("ten", size="10Gi"), volume("five", size="5Gi"), volume("one"))

    assert chosen(cache, volumes, wanted(2)) == [["five"]]
    assert chosen(cache, volumes, wanted(6)) == [["ten"]]
    assert chosen(cache, volumes, wanted(11)) == [[""]]


def test_sizes_are_compared_to_the_last_byte() -> None:
    cache = cluster(make_node("a"))
    volumes = free(cache, volume("less", size="1073741823"), volume("more", size="1073741824100m"))

    assert chosen(cache, volumes, wanted(1)) == [["more"]]


def test_of_equal_ones_the_first_by_name_is_taken() -> None:
    cache = cluster(make_node("a"))

    assert chosen(cache, free(cache, volume("b"), volume("a")), wanted()) == [["a"]]


def test_each_node_gets_the_smallest_that_it_can_reach() -> None:
    cache = cluster(make_node("a", zone="1"), make_node("b", zone="2"), make_node("c", zone="1"))
    volumes = free(
        cache,
        volume("a-disk", size="3Gi", near={HOSTNAME: "a"}),
        volume("zone-1", size="4Gi", near={ZONE: "1"}),
        volume("anywhere", size="5Gi"),
        volume("nowhere", near={HOSTNAME: "gone"}),
    )

    names = [cache.nodes.names[row] for row in cache.nodes.order.rows()]
    assert dict(zip(names, chosen(cache, volumes, wanted(), 1), strict=True)) == {
        "a": ["a-disk", "zone-1"],
        "b": ["anywhere", ""],
        "c": ["zone-1", "anywhere"],
    }


@given(st.integers(0, 2**32))
@settings(max_examples=80, deadline=None)
def test_the_next_volume_after_a_place_is_the_one_that_equal_claims_get(seed: int) -> None:
    rng = seeded_random(seed)
    cache = cluster(*(clusters.node(rng, name) for name in clusters.NODES))
    volumes = free(cache, *(clusters.volume(rng, f"v-{number}") for number in range(15)))
    claim = some_claim(rng)
    rows = np.array(cache.nodes.order.rows(), dtype=np.intp)
    taken: list[Positions] = []
    after: Positions | None = None
    for _ in range(4):
        found = volumes.choose(claim, rows, taken=taken)
        following = volumes.choose(claim, rows, after=after)

        assert following.tolist() == found.tolist()
        taken.append(found)
        after = np.where(found == NONE, 2**31, found)


def test_a_volume_that_comes_back_is_as_it_was_or_as_it_is_now() -> None:
    cache = cluster(make_node("a"), make_node("b"))
    volumes = free(cache, volume("one", near={HOSTNAME: "a"}))
    assert chosen(cache, volumes, wanted()) == [["one"], [""]]

    volumes.remove("one")
    assert chosen(cache, volumes, wanted()) == [[""], [""]]
    volumes.put(volume("one", near={HOSTNAME: "a"}))
    assert chosen(cache, volumes, wanted()) == [["one"], [""]]
    volumes.remove("one")
    volumes.put(volume("one", size="2Gi", near={HOSTNAME: "b"}))
    assert chosen(cache, volumes, wanted(2)) == [[""], ["one"]]


def test_places_of_volumes_that_are_gone_are_given_up() -> None:
    cache = cluster(make_node("a"))
    volumes = free(cache)
    for number in range(500):
        volumes.put(volume(f"v-{number}"))
        chosen(cache, volumes, wanted())
        volumes.remove(f"v-{number}")

    assert len(volumes) == 0
    assert len(volumes._list.placed) <= 3 * INSERTIONS_MAX


def test_a_new_value_of_a_label_is_seen() -> None:
    cache = cluster(make_node("a"))
    volumes = free(cache, volume("far", near={HOSTNAME: "b"}))
    assert chosen(cache, volumes, wanted()) == [[""]]

    cache.put_node(make_node("b"))
    assert sorted(chosen(cache, volumes, wanted())) == [[""], ["far"]]
    cache.remove_node("b")
    cache.put_node(make_node("c"))
    assert chosen(cache, volumes, wanted()) == [[""], [""]]


def test_what_is_kept_by_row_follows_nodes_that_move_to_another_zone() -> None:
    cache = cluster(make_node("a", zone="1"), make_node("b", zone="2"))
    volumes = free(cache, volume("one", near={ZONE: "1"}), volume("two", near={ZONE: "2"}))
    assert chosen(cache, volumes, wanted(), 1) == [["one", ""], ["two", ""]]

    cache.put_node(make_node("a", zone="2"))
    assert chosen(cache, volumes, wanted(), 1) == [["two", ""], ["two", ""]]
    volumes.remove("two")
    assert chosen(cache, volumes, wanted(), 1) == [["", ""], ["", ""]]
    cache.put_node(make_node("b", zone="1"))
    assert sorted(chosen(cache, volumes, wanted(), 1)) == [["", ""], ["one", ""]]


def test_what_is_kept_by_row_outlives_the_numbers_of_a_labels_values() -> None:
    nodes = [make_node(f"n-{n}", labels={f"key-{n}": "x"}, zone=f"{n % 2}") for n in range(300)]
    cache = cluster(*nodes)
    volumes = free(cache, volume("one", near={ZONE: "1"}), volume("two", near={ZONE: "1"}))
    cache.nodes.label(ZONE)
    cache.put_node(make_node("n-0", zone="1"))  # made anew, the column will count from zone 1
    before = chosen(cache, volumes, wanted(), 2)
    for number in range(1, 300):
        cache.nodes.label(f"key-{number}")

    assert chosen(cache, volumes, wanted(), 2) == before
    volumes.remove("one")
    found = [["two", "", ""]] * 151 + [["", "", ""]] * 149
    assert sorted(chosen(cache, volumes, wanted(), 2)) == sorted(found)


def test_rows_with_equal_topology_columns_get_the_same_volumes() -> None:
    cache = cluster(*(make_node(name, zone=zone) for name, zone in ("ax", "by", "cx", "dz")))
    not_x = [{"key": ZONE, "operator": "NotIn", "values": ["x"]}]
    term = {"nodeSelectorTerms": [{"matchExpressions": not_x}]}
    volumes = free(
        cache,
        volume("in-zone", near={ZONE: "x"}),
        volume("elsewhere", nodeAffinity={"required": term}),
        volume("anywhere"),
    )
    rows = np.array([cache.nodes.row(name) for name in "abcd"], dtype=np.intp)

    columns = [column.tolist() for column in volumes.topology_groups(rows)]

    by_node = dict(zip("abcd", zip(*columns, strict=True), strict=True))
    assert by_node["a"] == by_node["c"] != by_node["b"]
    # What the volumes can reach is the same on b and d, but their labels differ.
    assert len({by_node["b"], by_node["d"]}) == len({*by_node.values()}) - 1
    assert len(volumes.topology_groups(rows[:1])[0]) == 1
