"""A lesson as people run it: a process of its own, on the machine's clock."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.embedded import running
from tests.integration.processes import heed_interrupts, once

COMMAND = [sys.executable, "-m", "mooring", "learn"]
DEADLINE_S = 60.0


def learn(*words: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(
        [*COMMAND, *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


@pytest.mark.parametrize("step", ["1", "2"])
def test_a_lesson_in_real_time(step: str) -> None:
    done = learn(step, "-o", "json")

    assert (done.returncode, done.stderr) == (0, "")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    bound = [line for line in lines if line["what"] == "bound"]
    assert [line["pod"] for line in bound] == ["default/pod1"]
    assert bound[0]["node"] in {f"node{number}" for number in range(11)}
    assert 0.0 < bound[0]["time_s"] < 4.0


def test_the_order_of_sets_has_no_say() -> None:
    first, second = (learn("8", "--fast", "--seed", "5", hash_seed=seed) for seed in ("1", "2"))

    assert first.returncode == second.returncode == 0
    assert first.stdout == second.stdout


def test_an_interruption_ends_a_lesson_at_once() -> None:
    process = subprocess.Popen(
        [*COMMAND, "5", "--variant", "sanposhiho"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        preexec_fn=heed_interrupts,
    )
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            if "pod9    waiting" in line:
                break
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=DEADLINE_S)

    assert process.returncode == 130
    assert "Traceback" not in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_lesson_and_its_objects_are_deleted(
    tmp_path: Path, number: signal.Signals
) -> None:
    def objects() -> int:
        cluster = once(tmp_path, "dump", "--kubeconfig", str(tmp_path / "kubeconfig")).stdout
        return cluster.count('"Node"') + cluster.count('"Pod"')

    words = ["5", "--variant", "sanposhiho", "--kubeconfig", str(tmp_path / "kubeconfig")]
    with (
        running(tmp_path),
        subprocess.Popen(
            [*COMMAND, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            if "pod9    waiting" in line:
                break
        objects_before = objects()
        process.send_signal(number)
        _, errors = process.communicate(timeout=DEADLINE_S)
        objects_after = objects()

    assert (objects_before, objects_after) == (12, 0)
    assert (process.returncode, errors) == (128 + number, "")
