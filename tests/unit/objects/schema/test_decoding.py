"""A reader that remembers what it read answers as one that reads for the first time."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.clock import seeded_random
from mooring.objects.schema import decoding as typed
from mooring.objects.schema.decoding import TypedReader, WrongType, reader_of
from mooring.testing.random_cluster import random_pod

POD = "core.Pod"


def spec_of(*images: str, **more: Any) -> dict[str, Any]:
    names = [{"name": f"c{number}", "image": image} for number, image in enumerate(images)]
    return {"spec": {"containers": names, **more}}


@given(st.integers(0, 2**32))
def test_what_was_read_before_is_read_as_the_first_time(seed: int) -> None:
    rng = seeded_random(seed)
    reader = TypedReader(POD)
    pods = [msgspec.json.encode(random_pod(rng, f"p{number}")) for number in range(6)]

    for text in pods * 2:
        found = reader.read(msgspec.json.decode(text))

        first = TypedReader(POD).read(msgspec.json.decode(text))
        assert msgspec.json.encode(found) == msgspec.json.encode(first)


def test_every_answer_belongs_to_who_asked() -> None:
    reader = TypedReader(POD)
    expected = copy.deepcopy(reader.read(spec_of("a:1")))

    for _ in range(3):
        found = reader.read(spec_of("a:1"))
        assert found == expected
        found["spec"]["containers"][0]["image"] = "b:2"
        found["spec"]["priority"] = 5


def test_unknown_fields_are_reported_every_time() -> None:
    reader = TypedReader(POD)
    odd = {"metdata": {}, **spec_of("a:1")}
    told = []
    for value in (spec_of("a:1", nodeNmae="n"), spec_of("a:1"), odd) * 3:
        reader.read(value)
        told.append(reader.has_unknown_fields)
    assert told == [True, False, True] * 3


def test_a_wrong_type_is_refused_every_time() -> None:
    reader = TypedReader(POD)
    reader.read(spec_of("a:1", priority=1))
    for wrong in (True, 1.0, "1", float("nan"), 2**70, [1]):
        for _ in range(2):
            with pytest.raises(WrongType):
                reader.read(spec_of("a:1", priority=wrong))
    assert reader.read(spec_of("a:1", priority=None))["spec"].get("priority") is None


def test_what_cannot_be_remembered_is_read_all_the_same() -> None:
    """YAML has numbers of any size."""
    reader = TypedReader(POD)
    for _ in range(2):
        assert reader.read(spec_of("a:1", odd=2**70)) == TypedReader(POD).read(spec_of("a:1"))
        assert reader.has_unknown_fields


def test_only_so_much_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []
    monkeypatch.setattr(typed, "CACHE_SIZE", 3)
    monkeypatch.setattr(typed, "CACHED_BYTES_MAX", 200)
    monkeypatch.setattr(typed, "_pack", counted(typed._pack, kept))
    reader = TypedReader(POD)

    def packed(*images: str) -> int:
        """Returns 1 if it was cached, 2 if it was decoded and cached."""
        kept.clear()
        reader.read(spec_of(*images))
        return len(kept)

    assert [packed(image) for image in "abcabc"] == [2, 2, 2, 1, 1, 1]
    assert [packed(image) for image in "dad"] == [2, 2, 1]
    assert [packed("x" * 300), packed("x" * 300)] == [1, 1]  # too large: never kept


def counted(pack: Any, calls: list[int]) -> Any:
    def packing(value: Any) -> Any:
        calls.append(1)
        return pack(value)

    return packing


def test_times_of_the_first_years_have_four_digits() -> None:
    """As Go writes them; the zero time and some seconds is what its clients send by mistake."""
    spec = reader_of("coordination.LeaseSpec").read(
        {"renewTime": "0001-01-01T02:00:02.500000+02:00"}
    )
    assert spec["renewTime"] == "0001-01-01T00:00:02.500000Z"
    metadata = reader_of("meta.ObjectMeta").read({"deletionTimestamp": "0099-01-01T00:00:02.5Z"})
    assert metadata["deletionTimestamp"] == "0099-01-01T00:00:02Z"


def test_a_time_before_the_first_year_is_no_time() -> None:
    with pytest.raises(WrongType, match="out of range"):
        reader_of("coordination.LeaseSpec").read({"renewTime": "0001-01-01T00:00:00.500000+02:00"})
