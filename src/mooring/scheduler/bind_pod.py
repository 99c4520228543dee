"""Telling the API server where a pod goes, until the answer is certain.

A binding that was sent and not answered may have happened. It must not be given up then: the room
would be given to another pod as well. So the API server is asked, and told again, until it says
where the pod is; to bind a pod twice to the same node does no harm, since the second time is
refused.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from mooring.client import Client
from mooring.clock import Rng
from mooring.errors import (
    ApiError,
    ConfigError,
    Conflict,
    NotFound,
    OutcomeUnknown,
    TooManyRequests,
    Unreachable,
)
from mooring.objects.pod import Pod

#: Waits between two questions while nobody answers: doubled each time, with jitter.
ASK_AGAIN_S: Final = 0.1
ASK_AGAIN_S_MAX: Final = 5.0

Sleep = Callable[[float], Awaitable[None]]

_log = logging.getLogger(__name__)


async def bind_pod(client: Client, pod: Pod, node_name: str, *, rng: Rng, sleep: Sleep) -> None:
    """Binds exactly this pod (by UID) to a node; returns when it is surely bound there.

    While the outcome is unknown this goes on, however long the API server is away.

    Raises:
        Conflict: it is on another node, is another pod by now, or cannot be bound at all.
        NotFound: it is gone.
        ApiError: the API server refuses it for another reason.
        Unreachable: nothing was sent.
        LeaseLost: the fence does not let it pass.
    """
    is_unknown, wait_s = False, ASK_AGAIN_S
    while True:
        refusal: ApiError | None = None
        try:
            await client.bind(pod, node_name)
            return
        except OutcomeUnknown as error:
            is_unknown = True
            _log.info("a binding was not answered", extra={"error": str(error)})
        except (Unreachable, TooManyRequests):
            if not is_unknown:
                raise
        except ApiError as error:
            # Refused, perhaps for the very reason that an earlier try was done after all.
            if not is_unknown and not isinstance(error, Conflict):
                raise
            refusal = error
        if await _is_there(client, pod, node_name, rng, sleep):
            return
        if refusal is not None:
            raise refusal
        await sleep(wait_s * (1 + rng.random()))
        wait_s = min(2 * wait_s, ASK_AGAIN_S_MAX)


async def _is_there(client: Client, pod: Pod, node_name: str, rng: Rng, sleep: Sleep) -> bool:
    """Returns whether the pod is on the node; False if it is on none.

    Raises:
        Conflict: it is on another one, or there is another pod of this name.
        NotFound: it is gone.
    """
    metadata, wait_s = pod.metadata, ASK_AGAIN_S
    while True:
        try:
            live = await client.get("Pod", metadata.name, metadata.namespace)
            break
        except NotFound:
            raise
        except (Unreachable, ApiError, ConfigError) as error:
            _log.warning("nobody says where a pod is", extra={"error": str(error)})
            asked_s = (isinstance(error, ApiError) and error.retry_after_s) or 0.0
        await sleep(max(asked_s, wait_s * (1 + rng.random())))
        wait_s = min(2 * wait_s, ASK_AGAIN_S_MAX)
    if live.metadata.uid != metadata.uid:
        raise Conflict("it was made anew under its name", status=409, reason="Conflict")
    if live.spec.node_name not in ("", node_name):
        told = f"it is assigned to node {live.spec.node_name} already"
        raise Conflict(told, status=409, reason="Conflict")
    return bool(live.spec.node_name)
