"""Clusters and pods made by chance, decided by kube-scheduler's own framework and by us.

``python -m tests.parity.differential FIRST COUNT`` runs so many seeds from the first one on and
prints every difference. ``bench/peer`` is the other side: the recordings that it writes lack raw
scores, and which preemption candidates are equally good, and so these are not compared.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from bench.against_peer import build_peer
from mooring.clock import SystemClock, seeded_random
from mooring.config import from_document
from mooring.decision import ERROR, Decision, decode_decision
from mooring.objects.codec.decode import convert
from mooring.recordings.compare import differences
from mooring.recordings.format import Effects, Step
from mooring.simulation.driver import Driver
from mooring.simulation.replay import RecordedOutcomes, objects_of
from mooring.state import audit
from tests.parity.differential_cases import Case, random_case

Document = dict[str, Any]


def decided_by_peer(program: Path, case: Case) -> tuple[list[str], list[Step]]:
    """Returns the order of the nodes and every step, as kube-scheduler's framework has it."""
    lines = [("config", case.config)] if case.config is not None else []
    for obj in case.objects:
        role = "object"
        if obj["kind"] == "Node":
            role = "node"
        elif obj["kind"] == "Pod":
            role = "running"
        lines.append((role, obj))
    lines += [("pod", pod) for pod in case.pods]
    text = "".join(json.dumps({"role": role, "object": obj}) + "\n" for role, obj in lines)
    done = subprocess.run(
        [program, f"-percentage={case.percentage}", "-record"],
        input=text.encode(),
        capture_output=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    *steps, last = done.stdout.splitlines()
    return json.loads(last)["nodes"], [_step(line) for line in steps]


def _step(line: bytes) -> Step:
    found = json.loads(line)
    decision = decode_decision(json.dumps(found["decision"]))
    effects = msgspec.convert(found["effects"], Effects)
    return Step(found["pod"], found["attempt"], found["start_index"], decision, effects)


def compared(case: Case, node_order: list[str], steps: list[Step]) -> list[str]:
    """Returns every difference between the steps and what we decide, in words."""
    config = from_document(case.config) if case.config is not None else None
    driver = Driver(
        objects_of([*case.objects, *case.waiting()]),
        config=config,
        rng=seeded_random(0),
        clock=SystemClock(),
        node_order=node_order,
        preempt_all_nodes=True,
    )
    follower = RecordedOutcomes(driver, case.objects)
    found: list[str] = []
    for number, step in enumerate(steps):
        pod = convert(step.pod, "Pod")
        decided = driver.attempt(pod, start_index=step.start_index, explain=True).decision()
        found += _differences(number, step, decided)
        found += audit(driver.cache)
        following = steps[number + 1 : number + 2]
        if following and following[0].start_index != driver.next_start_index:
            then, now = following[0].start_index, driver.next_start_index
            found.append(f"step {number}: the next walk began at {then}, ours would at {now}")
        follower.apply(step)
    return found


def _differences(number: int, step: Step, decided: Decision) -> list[str]:
    recorded = step.decision
    if recorded.result == ERROR:
        if (decided.result, decided.message) == (ERROR, recorded.message):
            return []
        return [f"step {number}: {recorded.message!r} is now {decided.result} {decided.message!r}"]
    if recorded.total is not None:
        recorded = msgspec.structs.replace(recorded, raw=decided.raw)
    theirs, ours = recorded.preemption, decided.preemption
    if theirs is not None and ours is not None:
        acceptable = ours.acceptable
        if theirs.nominated is not None and theirs.nominated not in acceptable:
            return [f"step {number}: made room on {theirs.nominated}, not one of {acceptable}"]
        theirs = msgspec.structs.replace(theirs, acceptable=acceptable)
        recorded = msgspec.structs.replace(recorded, preemption=theirs)
    return [str(each) for each in differences(number, recorded, decided, pod=step.pod_key)]


def main(first: int, count: int) -> int:
    """Runs seeds and print what differs; 1 if anything does."""
    program, bad, total = build_peer(), 0, 0
    results: dict[str, int] = {}
    for seed in range(first, first + count):
        case = random_case(seeded_random(seed))
        node_order, steps = decided_by_peer(program, case)
        found = compared(case, node_order, steps)
        total += len(steps)
        for step in steps:
            results[step.decision.result] = results.get(step.decision.result, 0) + 1
        if found:
            bad += 1
            print(f"seed {seed} ({case.name}): {len(found)} differences")
            for line in found[:4]:
                print("   ", line[:600])
    print(f"{count} cases, {total} steps {results}, {bad} cases with differences")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
