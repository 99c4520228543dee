"""Pods are signed once for all that are the same in everything a plugin may sign."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mooring.framework.runtime import signatures
from mooring.framework.runtime.signatures import Signature, Signatures
from mooring.state import PodInfo
from mooring.testing import make_pod


class Signs:
    """Signs the given fields, and counts the calls."""

    name = "Signs"

    def __init__(self, read: Callable[[PodInfo], Any]) -> None:
        self.read = read
        self.signed = 0
        self.signs_claim_names = True

    def sign(self, pod: PodInfo) -> Any:
        self.signed += 1
        return self.read(pod)


def call(plugin: Any, point: str, method: Callable[..., Any], *arguments: Any) -> Any:
    assert (plugin.name, point) == ("Signs", "Sign")
    return method(*arguments)


def pod(name: str = "a", **more: Any) -> PodInfo:
    return PodInfo(make_pod(name, **more))


def test_replicas_are_signed_once_and_have_one_signature() -> None:
    plugin = Signs(lambda pod: pod.requests.get("cpu"))
    known = Signatures([plugin])

    first, second = (known.of(pod(name, requests={"cpu": "1"}), call) for name in "ab")

    assert first is second
    assert plugin.signed == 1
    assert first.fragments == {"Signs": 1000}
    assert first.cached_plugins == {"Signs"}


@pytest.mark.parametrize(
    ("more", "read"),
    [
        ({"labels": {"app": "x"}}, lambda pod: pod.metadata.labels.get("app")),
        (
            {"metadata": {"annotations": {"of": "x"}}},
            lambda pod: pod.metadata.annotations.get("of"),
        ),
        ({"metadata": {"finalizers": ["x.io/x"]}}, lambda pod: pod.metadata.finalizers),
        ({"namespace": "x"}, lambda pod: pod.metadata.namespace),
        ({"priority": 7}, lambda pod: pod.priority),
        ({"requests": {"cpu": "2"}}, lambda pod: pod.requests.get("cpu")),
        ({"nominated_node": "n"}, lambda pod: pod.status.nominated_node_name),
    ],
)
def test_whatever_a_plugin_may_sign_makes_another_signature(
    more: dict[str, Any], read: Callable[[PodInfo], Any]
) -> None:
    known = Signatures([Signs(read)])

    assert known.of(pod(), call) is not known.of(pod(**more), call)


def with_claims(number: int) -> PodInfo:
    """Returns a replica of a StatefulSet: volumes and claims have names of their own."""
    return pod(
        f"web-{number}",
        spec={
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": f"data-web-{number}"}},
                {"name": f"kube-api-access-{number}", "projected": {"sources": []}},
            ],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": f"gpu-{number}"}],
        },
    )


def test_replicas_with_claims_are_signed_once_if_no_plugin_reads_their_names() -> None:
    plugin = Signs(lambda pod: len(pod.spec.volumes))
    plugin.signs_claim_names = False
    signed = Signatures([plugin])

    first, second = (signed.of(with_claims(number), call) for number in (1, 2))
    none = signed.of(pod(), call)

    assert first is second
    assert none is not first
    assert plugin.signed == 2


def test_names_of_claims_count_by_default() -> None:
    signed = Signatures([Signs(lambda pod: pod.spec.volumes)])

    assert signed.of(with_claims(1), call) is not signed.of(with_claims(2), call)


def test_kinds_that_are_signed_alike_share_a_signature() -> None:
    plugin = Signs(lambda pod: pod.requests.get("cpu"))
    known = Signatures([plugin])

    one, other = (known.of(pod(labels={"app": app}), call) for app in "xy")

    assert one is other
    assert plugin.signed == 2


def test_signatures_stay_when_the_templates_are_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signatures, "TEMPLATES_MAX", 4)
    plugin = Signs(lambda pod: pod.requests.get("cpu"))
    signed = Signatures([plugin])

    first = signed.of(pod(labels={"app": "0"}), call)
    others = [signed.of(pod(labels={"app": str(number)}), call) for number in range(1, 20)]

    assert all(other is first for other in others), "results are cached by signature"
    assert plugin.signed == 20


def test_a_pod_that_a_plugin_does_not_share_is_in_nobodys_name() -> None:
    assert Signatures([Signs(lambda _: None)]).of(pod(), call).cached_plugins == frozenset()


def test_one_pod_may_be_signed_by_two_profiles() -> None:
    info = pod(requests={"cpu": "1"})
    one, other = Signatures([Signs(lambda _: "x")]), Signatures([Signs(lambda _: "y")])

    assert one.of(info, call).fragments == {"Signs": "x"}
    assert other.of(info, call).fragments == {"Signs": "y"}
    assert one.of(info, call).fragments == {"Signs": "x"}


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signatures, "TEMPLATES_MAX", 3)
    plugin = Signs(lambda pod: pod.requests.get("cpu"))
    known = Signatures([plugin])

    for number in (*range(1, 9), 8):
        found = known.of(pod(requests={"cpu": str(number)}), call)
        assert found.fragments == {"Signs": 1000 * number}
    assert plugin.signed == 8


def test_huge_pods_are_signed_each_by_itself() -> None:
    plugin = Signs(lambda _: ())
    known = Signatures([plugin])
    note = {"note": "x" * signatures.TEMPLATE_BYTES_MAX}

    one, other = (known.of(pod(name, metadata={"annotations": note}), call) for name in "ab")

    assert one is other
    assert plugin.signed == 2


class Idle:
    """Applies to no pod; it may have a state for such pods."""

    def __init__(self, name: str, **more: Any) -> None:
        self.name = name
        self.__dict__.update(more)


def test_the_states_of_all_plugins_that_do_not_apply_are_kept() -> None:
    idle = [Idle("A"), Idle("B", idle_state="b"), Idle("C", idle_state=None), Idle("D")]

    signature = Signature({"X": 1, "Y": ()}, idle)

    assert signature.idle_plugins == {"A", "B", "C", "D"}
    assert signature.idle_states == {"B": "b", "C": None}
    assert signature.cached_plugins == {"X", "Y"}
    assert signature.fragments == {"X": 1, "Y": ()}
