"""Bugs about requests and their outcomes: conflicts, Retry-After, and how often one is sent."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from mooring.client import Client
from mooring.errors import Conflict
from mooring.framework.waiting_pods import WaitingPod
from mooring.plugins.default_preemption import dry_run
from mooring.scheduler import plugin_handle as handle_module
from mooring.scheduler.bind_pod import bind_pod
from mooring.scheduler.binding_cycle import BindingCycle

Patch = pytest.MonkeyPatch


def trust_conflicts(patch: Patch) -> None:
    """Takes a conflict for a binding of its own, although another scheduler chose another node."""

    async def bind(client: Client, pod: Any, node_name: str, **options: Any) -> None:
        with suppress(Conflict):
            await bind_pod(client, pod, node_name, **options)

    patch.setattr(handle_module, "bind_pod", bind)


def retry_without_backoff(patch: Patch) -> None:
    """Activates a pod at once after its binding failed."""
    handle = BindingCycle._handle_binding_failure

    def handle_and_activate(self: BindingCycle, binding_ctx: Any, reason: Any) -> None:
        handle(self, binding_ctx, reason)
        self._queue.activate([binding_ctx.cycle.pod.uid])

    patch.setattr(BindingCycle, "_handle_binding_failure", handle_and_activate)


def allow_with_one_plugin(patch: Patch) -> None:
    """Binds a pod that waits for two Permit plugins as soon as one of them allows it."""

    def allow(self: WaitingPod, plugin: str) -> None:
        for name in list(self.pending_plugins):
            allow_one(self, name)

    allow_one = WaitingPod.allow
    patch.setattr(WaitingPod, "allow", allow)


def allow_any_disruption(patch: Patch) -> None:
    """Lets a budget that allows one disruption allow any number of them."""
    earlier_of_group = dry_run._earlier_of_group

    def at_most_one(groups: Any) -> Any:
        return np.minimum(earlier_of_group(groups), 0)

    patch.setattr(dry_run, "_earlier_of_group", at_most_one)


REQUEST_MUTATIONS = [
    trust_conflicts,
    retry_without_backoff,
    allow_with_one_plugin,
]
#: Needs two victims of one budget: no seed had them.
UNSEEN_REQUEST_MUTATIONS = [allow_any_disruption]
