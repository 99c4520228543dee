"""Texts of values that are the same everywhere: no address, folder, line or order of a set."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from enum import Enum
from typing import Any, Final

import numpy as np

from mooring.cluster_event import ClusterEvent
from mooring.framework import Diagnosis, Placement
from mooring.framework.status import PostFilterResult, Status
from mooring.queue import QueuedPod
from mooring.state import PodInfo

_ADDRESS: Final = re.compile(r"0x[0-9a-f]{6,}")
#: A place in a file: its folder differs by checkout, and its line changes with every edit.
_PLACE: Final = re.compile(r"[^\s:\"'(]*/([\w-]+\.py):\d+")
#: A line of Python's source in C, which differs by version.
_SSL_LINE: Final = re.compile(r"\b_ssl\.c:\d+")
#: A set in a text: its order is that of the hashes.
_SET: Final = re.compile(r"(?<=set\(\{)[^{}]+(?=\}\))")
_PLAIN: Final = (bool, int, str, type(None))


def without_addresses(text: str) -> str:
    """Returns a text without what differs from process to process.

    That are addresses of objects, folders and lines of places, and the order of sets.
    """
    if "set({" in text:
        text = _SET.sub(lambda items: ", ".join(sorted(items[0].split(", "))), text)
    return _PLACE.sub(r"\1", _SSL_LINE.sub("_ssl.c", _ADDRESS.sub("0x", text)))


def text_of(value: Any) -> str:
    """Returns a text of a value; of an object that has no such text, the name of its type."""
    if isinstance(value, (*_PLAIN, np.integer)):
        return without_addresses(str(value))
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, bytes):
        return without_addresses(value.decode(errors="replace"))
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {without_addresses(str(value))}"
    return _text_of_object(value)


def _text_of_object(value: Any) -> str:
    if isinstance(value, QueuedPod):
        return f"{text_of(value.pod)} attempt {value.attempts} {value.queue_name.value}"
    if isinstance(value, PodInfo):
        return text_of(value.pod)
    if isinstance(value, Placement):
        counts = f"{value.feasible_count} of {value.evaluated_count}"
        return f"Placement {value.node_name} {counts}"
    if isinstance(value, Diagnosis):
        plugins = text_of([value.unschedulable_plugins, value.pending_plugins])
        return f"Diagnosis {value.message} {plugins}"
    if isinstance(value, PostFilterResult):
        victims = text_of(value.victims)
        change = text_of(value.claim_change)
        return f"{text_of(value.status)} {value.node_name} {victims} {change}"
    if isinstance(value, ClusterEvent):
        return value.label
    if isinstance(value, Status):
        return f"{value.code.name} {value.plugin} {text_of(value.reasons)}"
    if (metadata := getattr(value, "metadata", None)) is not None:
        at = f"{metadata.namespace}/{metadata.name}"
        return f"{type(value).__name__} {at} {metadata.uid} {metadata.resource_version}"
    return _text_of_many(value)


def _text_of_many(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{text_of(key)}: {text_of(it)}" for key, it in value.items()) + "}"
    if isinstance(value, Set):
        return "{" + ", ".join(sorted(map(text_of, value))) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(text_of, value)) + "]"
    return type(value).__name__
