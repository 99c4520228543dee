"""ImageLocality: a node that has the pod's images already starts it sooner."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.clock import seeded_random
from mooring.plugins import ImageLocality
from mooring.testing import Harness, check_conformance, make_node, make_pod
from mooring.testing.random_cluster import random_objects, random_pod
from tests.plugins.reference_plugins import SEED_BLOCKS, ImageLocalityTwin, assert_same

MEBIBYTE = 1 << 20


def scores(nodes: dict[str, dict[str, int]], *images: str, **spec: Any) -> dict[str, int]:
    """Returns node -> score; ``nodes`` are images in MiB. The twin has to agree."""
    objects = [
        make_node(name, images={image: size * MEBIBYTE for image, size in held.items()})
        for name, held in nodes.items()
    ]
    pod = make_pod(images=images, spec=spec)
    assert_same(ImageLocality(), ImageLocalityTwin(), objects, pod)
    found = Harness(objects, [ImageLocality()]).scores(pod)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("size", "score"),
    [
        (0, 0),
        (22, 0),
        (23, 0),
        (32, 0),  # 100 * (32 - 23) / (1000 - 23) = 0.92
        (33, 1),
        (511, 49),  # 49.95
        (512, 50),
        (999, 99),
        (1000, 100),
        (1_000_000, 100),
    ],
)
def test_one_image_scores_between_23_and_1000_mebibytes(size: int, score: int) -> None:
    assert scores({"a": {"web:1": size}}, "web:1") == {"a": score}


def test_an_image_counts_less_the_fewer_nodes_have_it() -> None:
    have, lack = {"web:1": 500}, dict[str, int]()
    assert scores({"a": have, "b": lack}, "web:1") == {"a": 23, "b": 0}  # 250 MiB
    assert scores({"a": have, "b": have}, "web:1") == {"a": 48, "b": 48}
    assert scores({"a": have, "b": lack, "c": lack, "d": lack}, "web:1")["a"] == 10  # 125 MiB


def test_the_upper_threshold_grows_with_the_containers() -> None:
    held = {"web:1": 1000, "db:1": 1000}
    assert scores({"a": held}, "web:1", "db:1") == {"a": 100}
    assert scores({"a": held}, "web:1", "other:1") == {"a": 49}  # 977 of 1977
    assert scores({"a": held}, "web:1", "web:1") == {"a": 100}


def test_init_containers_count_with_their_images() -> None:
    init = [{"name": "i", "image": "init:1"}]
    held = {"a": {"web:1": 500, "init:1": 500}}
    assert scores(held, "web:1", initContainers=init) == {"a": 49}


def test_image_volumes_count_but_do_not_raise_the_threshold() -> None:
    volumes = [{"name": "v", "image": {"reference": "data:1"}}, {"name": "plain"}]
    assert scores({"a": {"data:1": 1000}}, "web:1", volumes=volumes) == {"a": 100}


@pytest.mark.parametrize(
    ("listed", "asked", "is_found"),
    [
        ("web:latest", "web", True),
        ("web", "web", False),
        ("localhost:5000/web:latest", "localhost:5000/web", True),
        ("localhost:5000/web:2", "localhost:5000/web:2", True),
        ("web@sha256:abc", "web@sha256:abc", True),
        ("docker.io/library/web:1", "web:1", False),
    ],
)
def test_names_are_compared_with_a_tag(listed: str, asked: str, is_found: bool) -> None:
    assert scores({"a": {listed: 1000}}, asked) == {"a": 100 if is_found else 0}


def test_the_first_reported_size_of_an_image_stays() -> None:
    nodes = {"a": {"web:1": 1000}, "b": {"web:1": 23}}
    assert scores(nodes, "web:1") == {"a": 100, "b": 100}


def test_all_names_of_an_image_count() -> None:
    status = {"images": [{"names": ["web:1", "web:stable"], "sizeBytes": 1000 * MEBIBYTE}]}
    objects = [make_node("a", status=status)]
    harness = Harness(objects, [ImageLocality()])
    assert harness.scores(make_pod(images=["web:stable"])) == {"a": 100}


def test_no_pod_is_skipped_and_without_images_all_score_0() -> None:
    assert scores({"a": {}, "b": {}}, "web:1") == {"a": 0, "b": 0}


def test_a_node_more_makes_every_image_rarer_also_for_shared_answers() -> None:
    objects = [make_node(name, images={"web:1": 500 * MEBIBYTE}) for name in ("a", "b")]
    harness = Harness(objects, [ImageLocality()])
    pod = make_pod(images=["web:1"])
    assert harness.decide(pod).decision.raw == {"ImageLocality": {"a": 48, "b": 48}}
    harness.cache.put_node(make_node("c"))
    assert harness.decide(pod).decision.raw == {"ImageLocality": {"a": 31, "b": 31, "c": 0}}
    harness.cache.remove_node("a")
    assert harness.decide(pod).decision.raw == {"ImageLocality": {"b": 23, "c": 0}}


@given(st.integers(0, 2**32))
def test_it_equals_its_twin(seed: int) -> None:
    rng = seeded_random(seed)
    objects = random_objects(rng, nodes=rng.choice((1, 3, 7, 11)), pods=0)
    assert_same(ImageLocality(), ImageLocalityTwin(), objects, random_pod(rng, "x"))


@given(
    st.lists(st.integers(0, 2**45), min_size=1, max_size=6),
    st.integers(1, 4),
    st.integers(0, 5),
)
def test_odd_sizes_and_spreads_round_as_upstream(
    sizes: list[int], containers: int, lacking: int
) -> None:
    objects = [
        make_node(f"n{at}", images={"web:1": size, f"own-{at}:1": size})
        for at, size in enumerate(sizes)
    ]
    objects += [make_node(f"m{at}") for at in range(lacking)]
    pod = make_pod(images=["web:1", "own-0:1", "own-1:1", "web:1"][:containers])
    assert_same(ImageLocality(), ImageLocalityTwin(), objects, pod)


@pytest.mark.parametrize("seeds", SEED_BLOCKS, ids=str)
def test_it_keeps_the_contract(seeds: range) -> None:
    check_conformance(ImageLocality(), reference=ImageLocalityTwin(), seeds=seeds)
