"""Binds a pod through the API server until the outcome is certain.

A bind request without an answer may have succeeded. Giving up then would give the pod's resources
to another pod as well. So the API server is asked where the pod is, and the request is repeated,
until the answer is certain. Binding a pod twice to the same node does no harm: the second request
is refused.
"""

from __future__ import annotations

import logging
import math
from typing import Final

from mooring.client import Client
from mooring.client.bound_node import read_bound_node
from mooring.client.retry import RetryPolicy, Sleep, retry
from mooring.clock import Rng
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

#: Retries while the outcome is unknown: without an end, doubled waits.
RETRY_POLICY: Final = RetryPolicy(tries_max=math.inf, initial_s=0.1, max_s=5.0)

_log = logging.getLogger(__name__)


async def bind_pod(client: Client, pod: Pod, node_name: str, *, rng: Rng, sleep: Sleep) -> None:
    """Binds exactly this pod (by UID) to a node; returns when it is certainly bound there.

    While the outcome is unknown it retries, however long the API server is away.

    Raises:
        Conflict: the pod is bound to another node, or cannot be bound.
        NotFound: the pod was deleted, even if another one has its name now.
        ApiError: the API server refuses the binding for another reason.
        Unreachable: no request was sent.
        LeaseLost: the lease does not allow writes any more.
    """
    is_unknown, tries = False, 0
    while True:
        refusal: ApiError | None = None
        cause: SchedulerError
        try:
            await client.bind(pod, node_name)
            return
        except OutcomeUnknown as error:
            is_unknown, cause = True, error
            _log.info("binding not answered", extra={"error": str(error)})
        except (Unreachable, TooManyRequests) as error:
            if not is_unknown:
                raise
            cause = error
        except ApiError as error:
            # The refusal may be caused by an earlier try that has succeeded.
            if not is_unknown and not isinstance(error, Conflict):
                raise
            refusal = cause = error
        if await _is_bound(client, pod, node_name, rng, sleep):
            return
        if refusal is not None:
            raise refusal
        tries += 1
        await sleep(RETRY_POLICY.wait_s(tries, cause, rng))


async def _is_bound(client: Client, pod: Pod, node_name: str, rng: Rng, sleep: Sleep) -> bool:
    """Returns whether the pod is bound to the node; retries until the API server answers.

    Raises:
        Conflict: it is bound to another node.
        NotFound: it was deleted.
    """
    bound_node = await retry(
        lambda: read_bound_node(client, pod),
        RETRY_POLICY,
        sleep=sleep,
        rng=rng,
        should_retry=_should_read_again,
    )
    if bound_node not in ("", node_name):
        message = f"pod {pod.metadata.name} is bound to node {bound_node} already"
        raise Conflict(message, status=409, reason="Conflict")
    return bool(bound_node)


def _should_read_again(error: SchedulerError) -> bool:
    if isinstance(error, NotFound) or not isinstance(error, Unreachable | ApiError | ConfigError):
        return False
    _log.warning("cannot read pod from API server", extra={"error": str(error)})
    return True
