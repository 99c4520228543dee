"""Explaining a recorded decision: the cluster is what it was at that step."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mooring.config import from_document
from mooring.errors import ConfigError
from mooring.explain.explain import Explained, Options
from mooring.explain.from_recording import explain_recording
from mooring.objects.quantity import Quantity
from mooring.recordings.format import Recording, Step, read_recording
from mooring.simulation.weights import score_weights
from tests.helpers.paths import PARITY_DATA

DATA = PARITY_DATA

NO_DEVICES = "cannot allocate all claims"


@pytest.mark.parametrize("path", sorted(DATA.glob("profiles-*.json.gz")), ids=lambda p: p.name[:11])
def test_recorded_totals_are_the_recorded_scores_times_our_weights(path: Path) -> None:
    recording = read_recording(path)
    config = from_document(recording.config) if recording.config else None
    checked = 0
    for step in recording.steps:
        decision = step.decision
        weights = score_weights(config, step.pod["spec"]["schedulerName"])
        for node, total in (decision.total or {}).items():
            scores = decision.scores or {}
            assert sum(scores[name][node] * weights[name] for name in scores) == total
            checked += 1
    # One of the recorded profiles has no score plugin.
    assert checked or all(step.decision.total is None for step in recording.steps)


def test_a_scheduler_without_a_profile_has_no_weights() -> None:
    assert score_weights(None, "somebody-else") == {}
    assert score_weights(None) == score_weights(None, "default-scheduler")


def requested_cpu_milli(recording: Recording, node: str, index: int) -> int:
    """Returns the requests of the containers on a node before a step."""
    pods = [
        obj
        for obj in recording.objects
        if obj["kind"] == "Pod"
        and obj["spec"].get("nodeName") == node
        and obj.get("status", {}).get("phase") not in ("Succeeded", "Failed")
    ]
    gone: set[str] = set()
    for step in recording.steps[:index]:
        gone |= {name.partition(" ")[2] for name in step.effects.deleted} if step.effects else set()
        if step.decision.node == node:
            pods.append(step.pod)
    return sum(
        Quantity.from_wire(container["resources"].get("requests", {}).get("cpu", "0")).milli()
        for pod in pods
        if f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" not in gone
        for container in pod["spec"]["containers"]
    )


def test_what_is_free_is_what_was_free_at_that_step() -> None:
    path = DATA / "preemption-7.json.gz"
    recording = read_recording(path)
    checked = 0
    for index, step in enumerate(recording.steps):
        if step.decision.result != "unschedulable":
            continue
        text = explain_recording(str(path), step.pod_key, attempt=step.attempt)
        for node, free, whole in re.findall(
            r"cpu short by .* \((\S+) has (\S+) free of (\S+)\)", text
        ):
            expected = round(float(whole) * 1000) - requested_cpu_milli(recording, node, index)
            assert round(float(free) * 1000) == expected
            checked += 1
    assert checked > 5


@pytest.mark.parametrize("path", sorted(DATA.glob("*-5.json.gz")), ids=lambda p: p.name[:12])
def test_every_step_of_a_recording_can_be_told(path: Path) -> None:
    recording = read_recording(path)
    results: dict[tuple[str, str | None], Step] = {}
    for step in recording.steps:
        results.setdefault((step.decision.result, step.decision.choice), step)
    for step in results.values():
        text = explain_recording(str(path), step.pod_key, attempt=step.attempt)
        first = text.splitlines()[0]
        assert first.startswith(f"Pod {step.pod_key} ")
        if step.decision.node:
            assert f" goes to {step.decision.node} " in first
        if step.decision.message:
            assert f"\nMessage: {step.decision.message}" in text


def test_the_last_attempt_is_told_unless_another_is_asked_for() -> None:
    path = DATA / "preemption-3.json.gz"
    again = next(step for step in read_recording(path).steps if step.attempt == 2)
    last = explain_recording(str(path), again.pod_key)
    assert last == explain_recording(str(path), again.pod_key, attempt=2)
    assert last != explain_recording(str(path), again.pod_key, attempt=1)


def test_a_name_without_its_namespace_will_do() -> None:
    path = str(DATA / "resources-1.json.gz")
    key = read_recording(path).steps[0].pod_key
    assert explain_recording(path, key.partition("/")[2]) == explain_recording(path, key)


def test_a_pod_or_an_attempt_that_is_not_there_is_refused() -> None:
    path = str(DATA / "resources-1.json.gz")
    key = read_recording(path).steps[0].pod_key
    with pytest.raises(ConfigError, match="no attempt 9 of pod"):
        explain_recording(path, key, attempt=9)
    with pytest.raises(ConfigError) as caught:
        explain_recording(path, f"{key}x")
    assert caught.value.suggestion == key
    assert caught.value.file == path


def test_recorded_claims_are_explained_as_they_were_at_that_step() -> None:
    explained = 0
    for path in sorted(DATA.glob("dra-*.json.gz"))[:4]:
        for step in read_recording(path).steps:
            rejected = step.decision.rejected.values()
            if step.decision.result == "unschedulable" and any(
                NO_DEVICES in one.reasons for one in rejected
            ):
                text = explain_recording(str(path), step.pod_key, attempt=step.attempt)
                assert "\nIts claims:\n" in text
                assert "\nMissing devices, by group of nodes:\n" in text
                # The recorded state is complete: whatever the allocator refused has a cause here.
                assert "no single cause was found" not in text
                explained += 1
    assert explained > 5


@pytest.mark.parametrize("path", sorted(DATA.glob("*-2.json.gz")), ids=lambda p: p.name[:12])
def test_the_first_of_all_rejections_is_the_one_that_kube_scheduler_recorded(path: Path) -> None:
    checked = []

    def check(explained: Explained) -> str:
        decision = explained.decision
        if decision.result == "unschedulable" and decision.prefilter is None:
            for name, recorded in decision.rejected.items():
                rejections = explained.of_nodes[name]
                assert rejections[0].plugin in recorded.plugins
                if not recorded.is_left_out:
                    assert rejections[0] == recorded
                checked.append(name)
        elif decision.prefilter is not None:
            assert explained.of_pod[0] == decision.prefilter
        return ""

    recording = read_recording(path)
    options = Options(has_all_rejections=True)
    for step in recording.steps:
        explain_recording(
            str(path), step.pod_key, attempt=step.attempt, options=options, render=check
        )
        if len(checked) > 100:
            break
