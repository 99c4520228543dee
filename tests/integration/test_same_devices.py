"""Two equal real clusters with devices: mooring allocates what kube-scheduler allocates.

kube-controller-manager makes claims from templates, and releases those of deleted pods. Both
schedulers are system:kube-scheduler.
"""

from __future__ import annotations

import json

import pytest

from mooring.client import Client
from tests.integration.device_cases import RULES, Outcome, Player
from tests.integration.equal_clusters import on_both

pytestmark = pytest.mark.slow

PODS = 150
PODS_WITH_RULES = 100


async def outcomes(client: Client) -> list[Outcome]:
    """Returns the outcomes of the pods."""
    return await Player(client, PODS).outcomes()


@pytest.mark.usefixtures("programs")
def test_the_same_pods_get_the_same_devices() -> None:
    theirs, ours = on_both(outcomes)

    assert len(theirs) == PODS
    for their, our in zip(theirs, ours, strict=True):
        assert our == their
    # It is worth something only if every kind of outcome occurs.
    assert sum(bool(outcome.node) for outcome in theirs) > PODS / 2
    assert len({outcome.message for outcome in theirs}) >= 3
    assert sum(len(outcome.claims) for outcome in theirs) > PODS / 2
    texts = json.dumps([outcome.claims for outcome in theirs])
    for part in ("bindingConditions", "consumedCapacity", "r/best", "r/other", "-extended-"):
        assert part in texts


@pytest.mark.usefixtures("programs")
def test_the_same_pods_get_the_same_devices_with_taint_rules() -> None:
    async def with_rules(client: Client) -> list[Outcome]:
        return await Player(client, PODS_WITH_RULES, RULES).outcomes()

    served = ["--runtime-config=resource.k8s.io/v1beta2=true"]
    gates = {"DRADeviceTaintRules": True}
    theirs, ours = on_both(with_rules, gates, apiserver_arguments=served)

    assert len(theirs) == PODS_WITH_RULES
    for their, our in zip(theirs, ours, strict=True):
        assert our == their
    # The rule for all GPUs, of pods 70 to 79, has an effect: only claims that tolerate it get one.
    by_node = [bool(outcome.node) for outcome in theirs]
    assert sum(by_node[70:80]) < sum(by_node[60:70])
