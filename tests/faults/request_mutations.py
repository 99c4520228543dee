"""Bugs about requests and their outcomes: conflicts, Retry-After, and how often one is sent."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from mooring.client import Client
from mooring.errors import Conflict
from mooring.queue.backoff_queue import BackoffQueue
from mooring.scheduler import plugin_handle as handle_module
from mooring.scheduler.bind_pod import bind_pod
from mooring.scheduler.status_writer import StatusWriter

Patch = pytest.MonkeyPatch


def trust_conflicts(patch: Patch) -> None:
    """Takes a conflict for a binding of its own, although another scheduler chose another node."""

    async def bind(client: Client, pod: Any, node_name: str, **options: Any) -> None:
        with suppress(Conflict):
            await bind_pod(client, pod, node_name, **options)

    patch.setattr(handle_module, "bind_pod", bind)


def forget_requested_waits(patch: Patch) -> None:
    """Writes the condition of a pod at once, although its nomination was refused with a 429."""
    patch.setattr(StatusWriter, "_note_requested_wait", lambda *_: None)


def retry_without_backoff(patch: Patch) -> None:
    """Retries failed pods ten times a second."""
    patch.setattr(BackoffQueue, "duration_s", lambda *_: 0.1)
    patch.setattr(BackoffQueue, "_floor_to_window", lambda _, time_s: time_s)


REQUEST_MUTATIONS = [trust_conflicts, forget_requested_waits, retry_without_backoff]
