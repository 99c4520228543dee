"""Binds a pod through the API server, and finds out whether it is bound.

::

    POST binding ── 201 ──────────────────────────────────────> bound
        │  ├─ refused, or 5xx ──> GET pod: bound here? ── no ──> failed, with the server's text
        │  └─ no answer ────────> GET pod: bound here? ── no ──> again, for 30 s
        │                                                          └─> GET for 2 minutes, failed
        └─ no answer for 10 s: GET pod meanwhile; an admission webhook may take 30 s

A request without an answer may have succeeded, or arrive late. Giving up then would give the pod's
resources to another pod as well. So a binding without an answer fails only when the API server has
shown, two minutes after the request was sent, that the pod is not bound. Binding a pod twice to the
same node does no harm: the second request is refused.

Source: pkg/scheduler/framework/plugins/defaultbinder/default_binder.go. *Differs:* upstream takes
every error for a failure.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from mooring.client import Client
from mooring.client.bound_node import ARRIVES_WITHIN_S, read_bound_node
from mooring.client.retry import RetryPolicy, Sleep, retry
from mooring.clock import Clock, Rng
from mooring.errors import (
    ApiError,
    ConfigError,
    Conflict,
    NotFound,
    OutcomeUnknown,
    SchedulerError,
    TooManyRequests,
    Unreachable,
)
from mooring.objects.pod import Pod

#: How long a request may take: the API server waits for an admission webhook up to 30 s.
REQUEST_S_MAX: Final = 35.0

#: After so long without an answer the pod is read: the answer may be lost.
READ_AFTER_S: Final = 10.0

#: After so long without an answer to any try there is no further one.
GIVE_UP_AFTER_S: Final = 30.0

#: Waits between two tries, and between two reads: doubled.
RETRY_POLICY: Final = RetryPolicy(tries_max=math.inf, initial_s=0.1, max_s=5.0)

_log = logging.getLogger(__name__)


async def bind_pod(
    client: Client, pod: Pod, node_name: str, *, clock: Clock, rng: Rng, sleep: Sleep
) -> None:
    """Binds exactly this pod (by UID) to a node; returns when it is certainly bound there.

    Raises:
        Conflict: the pod is bound to another node, or cannot be bound.
        NotFound: the pod was deleted, even if another one has its name now.
        ApiError: the API server refuses the binding for another reason, or fails.
        OutcomeUnknown: no try was answered; the pod is not bound.
        Unreachable: no request was sent.
        LeaseLost: the lease does not allow writes any more.
    """
    give_up_at_s = clock.monotonic_s() + GIVE_UP_AFTER_S
    #: Until then an unanswered request may still arrive.
    arrives_until_s, tries = -math.inf, 0
    sent_at_s = -math.inf

    def on_send() -> None:
        nonlocal sent_at_s  # of the last try: the server may have asked to wait before it
        sent_at_s = clock.monotonic_s()

    while True:
        started_at_s = clock.monotonic_s()
        is_final = False
        try:
            await _post_binding(client, pod, node_name, rng=rng, sleep=sleep, on_send=on_send)
            return
        except OutcomeUnknown as error:
            _log.info("binding not confirmed", extra={"error": str(error)})
            cause: SchedulerError = error
            if isinstance(error.__cause__, ApiError):
                # The server's own failure is an answer: nothing happens after it.
                is_final, cause = True, error.__cause__
            else:
                arrives_until_s = sent_at_s + ARRIVES_WITHIN_S
        except (Unreachable, TooManyRequests) as error:
            if arrives_until_s < started_at_s:
                raise
            cause = error
        except ApiError as error:
            # The refusal may be caused by an earlier try that has succeeded.
            if arrives_until_s < started_at_s and not isinstance(error, Conflict):
                raise
            is_final, cause = True, error
        while True:
            # Before the read: a request may arrive between it and its answer.
            may_arrive = clock.monotonic_s() < arrives_until_s
            bound_node = await _read_node(client, pod, rng, sleep)
            if bound_node == node_name:
                return
            if bound_node:
                raise cause if isinstance(cause, Conflict) else _bound_elsewhere(pod, bound_node)
            if not is_final and clock.monotonic_s() < give_up_at_s:
                break  # another try
            if not may_arrive:
                raise cause
            is_final = True
            await sleep(RETRY_POLICY.max_s)
        tries += 1
        await sleep(RETRY_POLICY.wait_s(tries, cause, rng))


async def _post_binding(
    client: Client,
    pod: Pod,
    node_name: str,
    *,
    rng: Rng,
    sleep: Sleep,
    on_send: Callable[[], None],
) -> None:
    """Sends one binding; returns when it is bound, be it that a read of the pod shows it.

    Raises:
        SchedulerError: as ``Client.bind``.
    """
    task = asyncio.current_task()
    assert task is not None
    loop, cancel_count = task.get_loop(), task.cancelling()
    reads: list[asyncio.Task[None]] = []
    is_shown = False

    async def read() -> None:
        nonlocal is_shown
        with suppress(SchedulerError):
            if await _read_node(client, pod, rng, sleep) == node_name:
                is_shown = True
                task.cancel()

    timer = loop.call_later(READ_AFTER_S, lambda: reads.append(loop.create_task(read())))
    try:
        await client.bind(pod, node_name, deadline_s=REQUEST_S_MAX, on_send=on_send)
    except asyncio.CancelledError:
        # The pod is bound, and nothing else has cancelled this task.
        if not is_shown or task.uncancel() > cancel_count:
            raise
    finally:
        timer.cancel()
        for pending in reads:
            pending.cancel()


async def _read_node(client: Client, pod: Pod, rng: Rng, sleep: Sleep) -> str:
    """Returns the node that the pod is bound to, "" if none; retries until it is answered.

    Raises:
        NotFound: it was deleted.
    """
    return await retry(
        lambda: read_bound_node(client, pod),
        RETRY_POLICY,
        sleep=sleep,
        rng=rng,
        should_retry=_should_read_again,
    )


def _bound_elsewhere(pod: Pod, node_name: str) -> Conflict:
    """Returns the error with which the API server refuses to bind the pod again."""
    name = pod.metadata.name
    message = (
        f'Operation cannot be fulfilled on pods/binding "{name}": '
        f'pod {name} is already assigned to node "{node_name}"'
    )
    return Conflict(message, status=409, reason="Conflict")


def _should_read_again(error: SchedulerError) -> bool:
    if isinstance(error, NotFound) or not isinstance(error, Unreachable | ApiError | ConfigError):
        return False
    _log.warning("cannot read pod from API server", extra={"error": str(error)})
    return True
