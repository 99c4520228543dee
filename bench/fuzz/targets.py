"""The readers that are fuzzed, and the errors that each may raise.

mooring reads no protobuf: it only writes some for profiles, so there is no target for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import httptools
import msgspec

from bench.fuzz import SECONDS_PER_KIB
from bench.fuzz.clusters import feed
from bench.fuzz.expressions import mutated_expression
from bench.fuzz.mutation import mutated
from bench.fuzz.research_files import feed_policy, feed_stages, feed_trace, mutated_trace
from bench.fuzz.server_requests import feed_applies, feed_definitions, mutated_definition
from bench.fuzz.start_files import (
    feed_answer,
    feed_devices,
    feed_kubeconfig,
    feed_scenario,
    feed_snapshot,
    input_file,
)
from bench.fuzz.structures import mutated_cluster, mutated_values
from bench.fuzz.watch_streams import feed_watches, mutated_watch
from mooring.apiserver.errors import ApiStatusError
from mooring.apiserver.patch.patch import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, apply_patch
from mooring.apiserver.storage.store import SnapshotError
from mooring.cel import CompileError, DeviceInput, EvaluationError, compile_selector
from mooring.client.transport.http1_pool import _Connection
from mooring.client.transport.transport import AnswerTooLong
from mooring.clock import Rng
from mooring.config import loads
from mooring.decision import decode_decision
from mooring.errors import ConfigError, ExtenderError, SchedulerError
from mooring.extender_server import wire as extender_requests
from mooring.extenders import wire as extender_answers
from mooring.objects.codec.decode import decode, decode_list
from mooring.objects.files.documents import json_document, yaml_documents
from mooring.objects.quantity import Quantity, QuantityError
from mooring.objects.selector_text import parse_field_selector, parse_label_selector
from mooring.objects.selectors import SelectorError
from mooring.recordings.format import read_recording
from mooring.serving.negotiation import choose


class Target(NamedTuple):
    """A reader of bytes, and the errors that it documents.

    Attributes:
        name: Of the target, and of the folder of its corpus.
        read: Reads an input.
        errors: The exceptions that it may raise.
        mutate: Returns a mutation of a corpus.
        seconds: Limit of CPU seconds for an input, for each KiB of it.
        tested: How many mutations the test suite tries.
    """

    name: str
    read: Callable[[bytes], object]
    errors: tuple[type[Exception], ...]
    mutate: Callable[[Rng, list[bytes]], bytes] = mutated
    seconds: float = SECONDS_PER_KIB
    tested: int = 200


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _objects(data: bytes) -> None:
    for kind in ("Pod", "Node", "PersistentVolume", "ResourceSlice"):
        try:
            decode(data, kind)
        except ConfigError:
            continue
    decode_list(data, "Pod")


def _quantity(data: bytes) -> None:
    quantity = Quantity.parse(_text(data))
    if abs(quantity.nanos) < 10**30:  # beyond that upstream, too, drops the suffix
        assert Quantity.parse(str(quantity)) == quantity
    assert isinstance(quantity.value(), int)
    assert isinstance(quantity.milli(), int)


def _selectors(data: bytes) -> None:
    try:
        parse_field_selector(_text(data)).matches({"metadata.name": "a"})
    except SelectorError:
        parse_label_selector(_text(data))
        return
    parse_label_selector(_text(data))


def _cel(data: bytes) -> None:
    selector = compile_selector(_text(data))
    selector.matches(DeviceInput("gpu.example.com", attributes={"model": "A100", "cores": 8}))


POD: Final = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "labels": {"app": "web"}, "finalizers": ["x/y"]},
    "spec": {"containers": [{"name": "a", "image": "b", "ports": [{"containerPort": 80}]}]},
}


def _patches(data: bytes) -> None:
    try:
        patch = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    for media_type in (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH):
        pod: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(POD))
        try:
            apply_patch(media_type, pod, patch, "Pod")
        except ApiStatusError:
            continue


class _Wire(asyncio.Transport):
    """A transport that sends nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._is_closed = False

    def write(self, data: Any) -> None:
        """Ignores what is sent."""

    def is_closing(self) -> bool:
        """Returns whether it was aborted."""
        return self._is_closed

    def abort(self) -> None:
        """Closes it."""
        self._is_closed = True


async def _http_response(data: bytes) -> None:
    connection = _Connection(lambda _: None)
    connection.connection_made(_Wire())
    due_s = asyncio.get_running_loop().time() + 60
    answer = asyncio.ensure_future(connection.exchange(b"", 1 << 20, due_s))
    await asyncio.sleep(0)
    for first in range(0, len(data), 100):
        if connection.is_open:
            connection.data_received(data[first : first + 100])
    connection.connection_lost(None)
    await asyncio.wait([answer])
    if (error := answer.exception()) is not None:
        raise error


def _heads(data: bytes) -> None:
    asyncio.run(_http_response(data))
    choose(_text(data), ["application/json", "text/plain"], lambda *_: True)


def _recording(data: bytes) -> None:
    with input_file(data) as path:
        read_recording(Path(path))


def _extender(data: bytes) -> None:
    readers: tuple[Callable[[bytes], object], ...] = (
        lambda body: extender_answers.read_filter(body, None),
        extender_answers.read_priorities,
        extender_answers.read_preempt,
        extender_answers.read_bind,
        extender_requests.read_filtering,
        extender_requests.read_preempting,
        extender_requests.read_binding,
    )
    for read in readers:
        try:
            read(data)
        except (ExtenderError, ConfigError):
            continue


_ALL: Final = (
    Target("objects", _objects, (ConfigError,), mutated_values),
    Target("yaml", lambda data: list(yaml_documents(data)), (ConfigError,)),
    Target("json", json_document, (ConfigError,)),
    Target("selectors", _selectors, (SelectorError,)),
    Target("quantities", _quantity, (QuantityError,)),
    Target("cel", _cel, (CompileError, EvaluationError), mutated_expression),
    Target("patches", _patches, ()),
    Target("http_heads", _heads, (httptools.HttpParserError, AnswerTooLong, ConnectionError)),
    Target("configurations", loads, (ConfigError,), mutated_values),
    Target("decisions", decode_decision, (ConfigError,), mutated_values),
    Target("recordings", _recording, (ConfigError,), mutated_values),
    Target("extenders", _extender, (), mutated_values),
    Target("devices", feed_devices, (ConfigError,), mutated_values),
    Target("scenarios", feed_scenario, (ConfigError,), mutated_values),
    Target("kubeconfigs", feed_kubeconfig, (ConfigError,), mutated_values),
    Target("policies", feed_policy, (ConfigError,), mutated_values),
    Target("stages", feed_stages, (ConfigError,), mutated_values),
    Target("traces", feed_trace, (ConfigError,), mutated_trace),
    Target("snapshots", feed_snapshot, (SnapshotError,), mutated_values, seconds=0.5, tested=60),
    # Each input is sent by a server of its own, which two readers ask for all kinds.
    Target("answers", feed_answer, (SchedulerError,), mutated_values, seconds=1.0, tested=60),
    # Each input is a dozen requests to one server, whose answers are read back.
    Target("definitions", feed_definitions, (ConfigError,), mutated_definition, tested=60),
    Target("applies", feed_applies, (ConfigError,), mutated_values, tested=60),
    # Each input has a server of its own, which is asked some thirty times.
    Target("watches", feed_watches, (), mutated_watch, seconds=2.0, tested=40),
    # A file of one KiB can be 40 pods that preempt each other, which are simulated six times.
    Target("clusters", feed, (), mutated_cluster, seconds=5.0, tested=40),
)

#: Name -> target.
TARGETS: Final = {target.name: target for target in _ALL}
