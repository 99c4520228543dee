"""Random CEL selectors, by kube-scheduler's own compiler and by ours.

``python -m tests.parity.selectors FIRST COUNT`` makes so many selectors from the seed ``FIRST``,
evaluates each for the devices of ``data/cel-random.jsonl.gz``, and prints every difference: error
texts, results, costs, and the estimated cost. ``bench/peer/selectors`` is the other side.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from bench.against_peer import build_peer
from mooring.cel import CompileError, DeviceInput, compile_selector
from tests.parity.selector_cases import random_selector
from tests.parity.test_cel_cases import answer, device_input, records

#: Bytes; longer selectors say no more.
LENGTH_MAX = 3_000
#: Selectors that the peer gets together: one of them may end it, or take all memory.
TOGETHER = 400
#: Bytes of memory, and seconds, for them.
MEMORY_MAX = 5_000_000_000
TIME_MAX_S = 120

#: How often upstream is asked again: it visits the entries of a map in random order.
REPETITIONS = 16

Answer = dict[str, Any]


def main(arguments: Sequence[str]) -> int:
    """Returns 0 if both sides agree."""
    seed, count = map(int, arguments)
    program = build_peer("selectors")
    devices = records("cel-random.jsonl.gz")[0]["devices"]
    rng = Random(seed)
    expressions: dict[str, None] = {}
    while len(expressions) < count:
        expression = random_selector(rng)
        if len(expression.encode()) <= LENGTH_MAX:
            expressions[expression] = None
    inputs = [device_input(device) for device in devices]
    counts: Counter[str] = Counter()
    theirs = answers_of_peer(program, devices, list(expressions))
    for expression, expected in zip(expressions, theirs, strict=True):
        actual = own_answer(expression, inputs)
        counts["selectors"] += 1
        if "panic" in expected:
            # Upstream's compiler does not survive it: ours has to answer something.
            counts["end upstream's compiler"] += 1
        elif not is_equal(
            actual, expected, partial(answers_of_peer, program, devices, [expression] * REPETITIONS)
        ):
            counts["with differences"] += 1
            print(f"{json.dumps(expression)}\n  upstream {expected}\n  mooring  {actual}")
        counts["that compile"] += "answers" in expected
        counts["answers"] += len(expected.get("answers", ()))
        counts["are errors"] += sum(bool(text) for _, text, _ in expected.get("answers", ()))
    print(", ".join(f"{number} {what}" for what, number in counts.items()))
    return 1 if counts["with differences"] else 0


def answers_of_peer(
    program: Path, devices: Sequence[Answer], expressions: Sequence[str]
) -> list[Answer]:
    """Returns upstream's answers; ``{"panic": ...}`` for a selector that ends the program."""
    answers: list[Answer] = []
    pending = [list(expressions[at : at + TOGETHER]) for at in range(0, len(expressions), TOGETHER)]
    while pending:
        group = pending.pop(0)
        lines = [json.dumps(devices), *map(json.dumps, group)]
        limits = ["prlimit", f"--as={MEMORY_MAX}", "timeout", str(TIME_MAX_S)]
        done = subprocess.run(
            [*limits, str(program)],
            input="".join(f"{line}\n" for line in lines).encode(),
            capture_output=True,
            check=False,
        )
        texts = done.stdout.decode().splitlines()
        if done.returncode == 0:
            answers += map(json.loads, texts)
        elif len(group) == 1:
            answers.append({"panic": done.stderr.decode()[:200]})
        else:
            pending[:0] = [group[: len(group) // 2], group[len(group) // 2 :]]
    return answers


def is_equal(actual: Answer, expected: Answer, ask_again: Callable[[], list[Answer]]) -> bool:
    """Returns whether our answer is among those that upstream gives."""
    if actual == expected:
        return True
    if "answers" not in actual or actual.get("max_cost") != expected.get("max_cost"):
        return False
    possible = [expected, *ask_again()]
    return all(
        any(entry == other["answers"][at] for other in possible)
        for at, entry in enumerate(actual["answers"])
    )


def own_answer(expression: str, devices: Sequence[DeviceInput]) -> Answer:
    """Returns our answer, in the form of the peer."""
    try:
        most = compile_selector(expression).estimate_cost().most
    except CompileError as error:
        return {"compile_error": str(error)}
    answers = [list(answer(expression, device)) for device in devices]
    cost = {"max_cost": min(most, 2**64 - 1)} if most else {}
    return {**cost, "answers": answers}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
