"""Claims and volumes, and how one tells that they belong together."""

from __future__ import annotations

import pytest

from mooring.objects.meta import ObjectReference
from mooring.objects.quantity import Quantity
from mooring.objects.volume_claims import (
    ClaimUse,
    amount,
    claim_class,
    claim_uses,
    is_bound_to,
    is_fully_bound,
    ownership_problem,
    reference_to,
    volume_class,
)
from tests.helpers.volume_objects import claim, user, volume

BETA = {"volume.beta.kubernetes.io/storage-class": "old"}


def test_a_pod_uses_claims_by_name_and_by_its_own_name() -> None:
    scratch = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
    config = {"name": "config", "configMap": {"name": "c"}}
    pod = user("web", "data", "data", volumes=[config, scratch])

    assert claim_uses(pod) == [
        ClaimUse("data", is_ephemeral=False),
        ClaimUse("data", is_ephemeral=False),
        ClaimUse("web-scratch", is_ephemeral=True),
    ]


def test_the_beta_annotation_of_a_class_comes_first() -> None:
    assert claim_class(claim(storage_class="new")) == "new"
    assert claim_class(claim(storage_class="new", annotations=BETA)) == "old"
    assert claim_class(claim(storageClassName=None)) == ""
    assert volume_class(volume(storage_class="new")) == "new"
    assert volume_class(volume(storage_class="new", annotations=BETA)) == "old"


def test_a_claim_is_bound_when_it_has_a_volume_and_the_controller_is_done() -> None:
    assert is_fully_bound(claim(volume_name="v"))
    assert not is_fully_bound(claim(volume_name="v", is_bound=False))
    assert not is_fully_bound(claim(annotations={"pv.kubernetes.io/bind-completed": "yes"}))


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        (None, False),
        (ObjectReference(namespace="default", name="claim", uid="uid-claim"), True),
        (ObjectReference(namespace="default", name="claim"), True),
        (ObjectReference(namespace="default", name="claim", uid="of-one-before"), False),
        (ObjectReference(namespace="other", name="claim"), False),
        (ObjectReference(namespace="default", name="another"), False),
    ],
)
def test_a_volume_belongs_to_the_claim_that_it_names(
    reference: ObjectReference | None, expected: bool
) -> None:
    assert is_bound_to(reference, claim()) is expected
    assert is_bound_to(reference_to(claim()), claim())


def test_an_ephemeral_claim_must_be_the_pods_own() -> None:
    pod = user("web")
    problem = "PVC default/web-v was not created for pod default/web (pod is not owner)"

    assert ownership_problem(pod, claim("web-v", owner=pod.metadata.uid)) == ""
    assert ownership_problem(pod, claim("web-v", owner="another")) == problem
    assert ownership_problem(pod, claim("web-v")) == problem


def test_an_amount_that_is_not_listed_is_none() -> None:
    assert amount({"storage": "1500m"}) == Quantity.parse("1500m")
    assert amount({"cpu": "1"}).is_zero
