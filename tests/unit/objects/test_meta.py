"""Metadata: keys and owners."""

from __future__ import annotations

import gzip
import json

import msgspec
import pytest

from mooring.objects import Node, ObjectMeta, Pod, key
from mooring.objects.meta import OwnerReference, RawQuantity, controller_of
from mooring.objects.quantity import Quantity, QuantityError
from tests.helpers.paths import UNIT_DATA

RECORDED = UNIT_DATA / "quantities.jsonl.gz"


def passes_decoding(text: str) -> bool:
    try:
        msgspec.convert(text, RawQuantity)
    except msgspec.ValidationError:
        return False
    return True


def test_decoding_lets_exactly_those_quantities_through_that_can_be_read() -> None:
    with gzip.open(RECORDED, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    # JSON may have spaces around a quantity; the recorded answers are for the bare text.
    rows = [row for row in rows if row["text"] == row["text"].strip()]
    assert len(rows) > 1800
    assert [row["text"] for row in rows if passes_decoding(row["text"]) is not row["ok"]] == []


@pytest.mark.parametrize(
    "text", [" 1Gi ", "\t5\n", "", " ", "Ei", "Pi", "e-30", ". ", "1e+3", "1 Gi"]
)
def test_decoding_and_reading_agree_about_odd_texts(text: str) -> None:
    try:
        Quantity.from_wire(text)
    except QuantityError:
        assert not passes_decoding(text)
    else:
        assert passes_decoding(text)


@pytest.mark.parametrize("text", ["1" * 10**5 + "x", " " * 10**5 + "x", "1." + "0" * 10**5 + "x"])
def test_a_long_bad_quantity_is_refused_at_once(text: str) -> None:
    assert not passes_decoding(text)
    with pytest.raises(QuantityError):
        Quantity.from_wire(text)


def test_a_key_is_the_name_within_its_namespace() -> None:
    assert key(Pod(metadata=ObjectMeta(name="web", namespace="shop"))) == "shop/web"
    assert key(Node(metadata=ObjectMeta(name="n1"))) == "n1"


def test_the_controller_is_the_owner_that_says_so() -> None:
    helper = OwnerReference(kind="Node", name="n1")
    manager = OwnerReference(kind="ReplicaSet", name="web", controller=True)
    assert controller_of(ObjectMeta(owner_references=(helper, manager))) is manager
    assert controller_of(ObjectMeta(owner_references=(helper,))) is None
    assert controller_of(ObjectMeta()) is None


def test_objects_made_without_fields_do_not_share_their_mappings() -> None:
    one, other = ObjectMeta(name="a"), ObjectMeta(name="b")
    assert one.labels == other.labels == {}
    assert one.labels is not other.labels
