"""Steps about devices are followed, not compared, and that is said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mooring.cli import main
from mooring.objects.codec.decode import convert
from mooring.objects.pod import Pod
from mooring.recordings.format import read_recording
from mooring.recordings.skipped import DEVICES, why_not_compared
from mooring.simulation.replay import replay
from mooring.state.cache import Cache
from mooring.testing import make_pod
from tests.helpers.paths import PARITY_DATA
from tests.unit.simulation.test_replay import Parrot

DATA = PARITY_DATA
CLAIM: dict[str, Any] = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "g"}]}


def with_class(resource: str) -> Cache:
    cache = Cache()
    document = {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": resource}}
    cache.put_object("DeviceClass", convert(document, "DeviceClass"))
    return cache


@pytest.mark.parametrize(
    ("pod", "why"),
    [
        (make_pod(), None),
        (make_pod(spec=CLAIM), DEVICES),
        (make_pod(requests={"example.com/gpu": "1"}), DEVICES),
        (make_pod(requests={"example.com/tpu": "1"}), None),
    ],
    ids=["plain", "claim", "device class", "no device class"],
)
def test_pods_that_ask_for_devices_are_distinguished(pod: Pod, why: str | None) -> None:
    assert why_not_compared(with_class("example.com/gpu").snapshot(), pod) == why


def test_a_step_that_is_not_compared_is_followed_all_the_same() -> None:
    recording = read_recording(DATA / "mixed-1.json.gz")
    parrot = Parrot(recording)
    others = [decision for decision in parrot.script if decision.result == "unschedulable"]
    parrot.script = [others[0]] * len(parrot.script)

    results = list(
        replay(recording.steps, parrot, objects=recording.objects, why_not=lambda _: "because")
    )

    assert {result.not_compared for result in results} == {"because"}
    assert [difference for result in results for difference in result.differences] == []
    placed = {step.pod_key: step.decision.node for step in recording.steps if step.decision.node}
    assert placed
    assert placed.items() <= parrot.on_node.items()


def test_replay_says_how_many_steps_were_not_compared(capsys: pytest.CaptureFixture[str]) -> None:
    file = str(DATA / "mixed-11.json.gz")
    documents = read_recording(DATA / "mixed-11.json.gz").steps
    claims = sum(bool(step.pod["spec"].get("resourceClaims")) for step in documents)

    assert main(["replay", file, str(DATA / "taints-1.json.gz")]) == 0
    out = capsys.readouterr().out
    assert main(["replay", file, "-o", "json"]) == 0
    (report,) = json.loads(capsys.readouterr().out)["recordings"]

    count = report["steps_not_compared"][DEVICES]
    assert count >= claims > 0
    assert f"  note: {count} steps applied but not compared: {DEVICES}\n" in out
    assert out.splitlines()[-1].endswith(f"steps ({count} of them not compared), no difference")
