"""Changes of objects, and which refused pods they bring back: kube-scheduler's queue and ours.

``python -m tests.parity.requeue FIRST COUNT [devices]`` runs so many seeds from the first on and
prints every difference. ``bench/peer -requeue`` is the other side: the whole scheduler with its
queue, event handlers and queueing hints; only the watch is left out.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench.against_peer import build_peer
from mooring.clock import SystemClock, seeded_random
from mooring.config import from_document
from mooring.objects.codec.decode import convert
from mooring.queue import QueueName
from mooring.simulation.driver import Driver
from mooring.simulation.replay import objects_of
from mooring.state import audit
from tests.helpers.queue_cluster import QueueCluster
from tests.parity.differential_cases import key_of
from tests.parity.requeue_cases import RequeueCase, random_requeue_case

#: Pods that this plugin refused may come back earlier here.
AFFINITY = "InterPodAffinity"
#: And those that this one refused, if it has ``addedAffinity``.
NODE_AFFINITY = "NodeAffinity"

Document = dict[str, Any]


class Parked(NamedTuple):
    """The pods that wait to be tried, and those that wait for an event."""

    queued: list[str]
    parked: list[str]


def refused(case: RequeueCase) -> RequeueCase:
    """Returns the case without the pods that get a node, or whose attempt ends in an error."""
    driver = Driver(
        objects_of([*case.objects, *case.pods]),
        config=from_document(case.config),
        rng=seeded_random(0),
        clock=SystemClock(),
    )
    kept = []
    for document in case.pods:
        decision = driver.attempt(convert(document, "Pod"), start_index=0).decision()
        if document["spec"].get("schedulingGates") or decision.result == "unschedulable":
            kept.append(document)
    keys = {key_of(pod) for pod in case.pods} - {key_of(pod) for pod in kept}
    changes = [
        each
        for each in case.changes
        if each.object["kind"] != "Pod" or key_of(each.object) not in keys
    ]
    return case._replace(pods=kept, changes=changes)


def told_by_peer(program: Path, case: RequeueCase) -> list[Parked]:
    """Returns what kube-scheduler's queue has: after the attempts, and after each change."""
    lines = [{"role": "config", "object": case.config}]
    lines += [{"role": "object", "object": obj} for obj in [*case.objects, *case.pods]]
    lines += [{"role": "change", "verb": each.verb, "object": each.object} for each in case.changes]
    done = subprocess.run(
        [program, "-requeue"],
        input="".join(json.dumps(line) + "\n" for line in lines).encode(),
        capture_output=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return [Parked(**json.loads(line)) for line in done.stdout.splitlines()]


def told_by_us(case: RequeueCase) -> Iterator[tuple[Parked, set[str]]]:
    """Yields the same of our queue, and the pods that may come back earlier here.

    Raises:
        AssertionError: the cache's audit reports something in the end.
    """
    cluster = QueueCluster(from_document(case.config))
    for obj in [*case.objects, *case.pods]:
        cluster.tell(obj["kind"], None, convert(obj, obj["kind"]))
    while any(entry.queue_name is QueueName.ACTIVE for entry in cluster.queue.pods()):
        cluster.try_next()
    early = {AFFINITY, NODE_AFFINITY} if "addedAffinity" in json.dumps(case.config) else {AFFINITY}
    may_be_earlier = {
        entry.pod.key for entry in cluster.queue.pods() if early & set(entry.unschedulable_plugins)
    }
    yield _parked(cluster), may_be_earlier
    for change in case.changes:
        kind = change.object["kind"]
        old, new = (
            convert(each, kind) if each is not None else None for each in (change.old, change.new)
        )
        cluster.tell(kind, old, new)
        yield _parked(cluster), may_be_earlier
    assert audit(cluster.cache) == []


def _parked(cluster: QueueCluster) -> Parked:
    queued = {entry.pod.key for entry in cluster.waiting_to_be_tried()}
    everything = {entry.pod.key for entry in cluster.queue.pods()}
    return Parked(sorted(queued), sorted(everything - queued))


def compared(case: RequeueCase, theirs: list[Parked]) -> list[str]:
    """Returns the differences in words.

    A pod that InterPodAffinity refused may come back earlier here, or NodeAffinity with
    ``addedAffinity``: their hints miss some changes upstream, and the pod then waits for minutes.
    From there on it is not compared.
    """
    found, earlier = [], set[str]()
    changes = [None, *case.changes]
    for change, their, (our, may_be_earlier) in zip(changes, theirs, told_by_us(case), strict=True):
        earlier |= (set(our.queued) & set(their.parked)) & may_be_earlier
        for name in Parked._fields:
            upstream, here = (set(getattr(each, name)) - earlier for each in (their, our))
            if upstream != here:
                only = f"only by kube-scheduler {upstream - here}, only by us {here - upstream}"
                found.append(f"{name} {only} after {change}")
        if found:
            break
    return found


def main(first: int, count: int, kind: str = "") -> int:
    """Runs seeds and print what differs; 1 if anything does."""
    program, bad = build_peer(), 0
    moved: Counter[str] = Counter()
    for seed in range(first, first + count):
        case = refused(random_requeue_case(seeded_random(seed), with_devices=kind == "devices"))
        theirs = told_by_peer(program, case)
        for change, before, after in zip(case.changes, theirs[:-1], theirs[1:], strict=True):
            moves = len(set(before.parked) & set(after.queued))
            moved[f"{change.object['kind']} {change.verb}: changes"] += 1
            moved[f"{change.object['kind']} {change.verb}: pods that came back"] += moves
        found = compared(case, theirs)
        if found:
            bad += 1
            print(f"seed {seed} ({case.name}): {len(found)} differences")
            for line in found[:4]:
                print("   ", line[:3000])
    for text, number in sorted(moved.items()):
        print(f"{number:6} {text}")
    print(f"{count} cases, {bad} with differences")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:4]))
