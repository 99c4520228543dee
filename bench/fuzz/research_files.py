"""Feeds the files of studies and of other tools: traces, stages of KWOK, and legacy Policies.

What is accepted has to be usable: a trace has times and amounts, a stage applies to a pod and to a
node, and the configuration of a Policy is one.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Final

import msgspec
import numpy as np
import yaml

from bench.fuzz.mutation import BYTES_MAX, mutated
from bench.fuzz.start_files import input_file
from bench.fuzz.structures import TEXTS, change_values, mutated_values
from mooring.apiserver.errors import ApiStatusError
from mooring.clock import Rng, seeded_random
from mooring.config import loads
from mooring.config.legacy_policy import convert_policy
from mooring.scenario.stages.reading import read_stages
from mooring.scenario.stages.stage import Stage, chosen
from mooring.scenario.stages.surroundings import message_for, status_after
from mooring.scenario.stages.template_syntax import TemplateError
from mooring.traces.read import read_trace
from mooring.traces.trace import AMOUNT_MAX, DEFAULTS

#: Numbers as texts of a table; traces have times, amounts, counts and unknown values.
_CELLS: Final = (
    *("", "-1", "0", "1", "0.5", "1e3", "-0", "nan", "inf", "1e400", "9" * 30, "1" * 5000, "0x10"),
    *("1,000", '"', '"a, b"', "2026-01-31T09:30:00Z", "2026-02-30 00:00:00", "9999-12-31T23:59:59"),
)
#: The first half byte of a small mapping of MessagePack.
_MSGPACK: Final = 0x80
_CHANGES_MAX: Final = 4
#: A note has at most fifty fields, each with its place and a value, which are cut.
_NOTE_MAX: Final = 50 * 300
#: How often the bytes of a trace are mutated instead of its values.
_BYTES: Final = 0.2
_NOW: Final = "2026-01-01T00:00:00Z"

#: What stages are applied to, by kind.
_VIEWS: Final[dict[str, dict[str, Any]]] = {
    "Pod": {
        "metadata": {
            "name": "p",
            "namespace": "default",
            "uid": "u",
            "labels": {"app": "a"},
            "annotations": {"example.com/runs": "90s"},
            "creationTimestamp": _NOW,
            "ownerReferences": [{"kind": "Job", "name": "j"}],
        },
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}]},
    },
    "Node": {
        "metadata": {"name": "n", "uid": "u", "creationTimestamp": _NOW},
        "spec": {},
        "status": {"allocatable": {"cpu": "1"}},
    },
}


def feed_trace(data: bytes) -> None:
    """Reads a trace of any format.

    Raises:
        ConfigError: it is refused.
        AssertionError: a column has values that no trace has.
    """
    with input_file(data) as path:
        trace = read_trace(path)
    for title, default in DEFAULTS.items():
        assert len(getattr(trace, title)) == len(trace), title
        if isinstance(default, int) and title != "priority":
            column = getattr(trace, title)
            assert not len(column) or (column.min() >= 0 and column.max() <= AMOUNT_MAX), title
    assert np.isfinite(trace.submit_s).all()
    assert not len(trace) or (trace.submit_s[0] >= 0 and (np.diff(trace.submit_s) >= 0).all())
    assert not (trace.duration_s < 0).any()
    assert not np.isinf(trace.duration_s).any()
    assert not len(trace) or trace.count.min() >= 1
    assert all(len(note) <= _NOTE_MAX for note in trace.notes)


def mutated_trace(rng: Rng, corpus: list[bytes]) -> bytes:
    """Returns a mutation of a trace: of cells of a table, of values in JSON, or of bytes."""
    if rng.random() < _BYTES:
        return mutated(rng, corpus)
    data = rng.choice(corpus)
    if data[0] & 0xF0 == _MSGPACK:
        return _mutated_simkube(rng, data)
    if data.startswith(b"{"):
        lines = data.splitlines()
        texts = lines if all(line.startswith(b"{") for line in lines) else [data]
        number = rng.randrange(len(texts))
        texts[number] = mutated_values(rng, texts)
        return b"\n".join(texts)[:BYTES_MAX]
    return _mutated_table(rng, data)


def _mutated_simkube(rng: Rng, data: bytes) -> bytes:
    """Changes events, and the times of pods."""
    document: Any = msgspec.msgpack.decode(data, strict=False)
    owners = document["pod_lifecycles"].values()
    times = [lifecycle for owner in owners for lifecycle in owner.values()]
    for _ in range(rng.randrange(1, _CHANGES_MAX)):
        part = rng.choice((document["events"], document["events"], *times))
        change_values(rng, part, [])
    try:
        return msgspec.msgpack.encode(document)[:BYTES_MAX]
    except OverflowError:  # an integer of more than 64 bits
        return data


def _mutated_table(rng: Rng, data: bytes) -> bytes:
    """Changes cells, rows and columns of a table."""
    separator = "," if b"," in data else " "
    rows = [line.split(separator) for line in data.decode().splitlines()]
    for _ in range(rng.randrange(1, _CHANGES_MAX)):
        row = rng.choice(rows)
        at = rng.randrange(len(row))
        match rng.randrange(6):
            case 0 | 1 | 2:
                row[at] = rng.choice(_CELLS)
            case 3:
                row[at] = rng.choice(TEXTS)
            case 4:
                del row[at:]
                row.append("")
            case _:
                rows.insert(rng.randrange(len(rows) + 1), list(row))
    text = "\n".join(separator.join(row) for row in rows)
    return text.encode("utf-8", "replace")[:BYTES_MAX]


def feed_policy(data: bytes) -> None:
    """Converts a legacy Policy, and reads the configuration.

    Raises:
        ConfigError: the Policy is refused.
        AssertionError: the error does not say where.
    """
    with input_file(data) as path:
        converted = convert_policy(data, file=path)
    loads(yaml.safe_dump(converted.document))


def feed_stages(data: bytes) -> None:
    """Reads stages, and applies them to a pod and to a node.

    Raises:
        ConfigError: they are refused.
        AssertionError: an error does not say where, or a status is not JSON.
    """
    with input_file(data) as path:
        stages = read_stages([path]).stages
    rng = seeded_random(0)
    for kind, view in _VIEWS.items():
        own = [stage for stage in stages if stage.kind == kind]
        chosen(own, view, rng)
        for stage in own:
            assert stage.text
            assert stage.delay_s(view, 1.0, rng) >= 0
            _apply(stage, view)


def _apply(stage: Stage, view: dict[str, Any]) -> None:
    for effect in stage.effects:
        assert effect.finalizers_after(["a/b"]) is not None
        # A template may not fit the object, and a patch not its status.
        with suppress(TemplateError, ApiStatusError):
            if effect.template is not None:
                _, status = status_after(effect.template, view, stage.kind, 1, _NOW)
                json.dumps(status)
        with suppress(TemplateError):
            if effect.event is not None:
                message_for(effect.event.message, view, stage.kind, 1, _NOW)
