"""Reads whether a pod is still the same one, and on which node it is."""

from __future__ import annotations

from typing import Final

from mooring.client.rest.client import Client
from mooring.errors import Invalid, NotFound, SchedulerError
from mooring.objects.pod import Pod

#: A binding may reach the API server so long after it was sent, over proxies or an extender.
ARRIVES_WITHIN_S: Final = 125.0


async def read_bound_node(client: Client, pod: Pod) -> str:
    """Returns the name of the node that exactly this pod (by UID) is bound to; "" if none.

    Raises:
        NotFound: the pod was deleted, also if another pod has its name now.
        ApiError, Unreachable: the pod could not be read.
    """
    metadata = pod.metadata
    live = await client.get("Pod", metadata.name, metadata.namespace)
    if live.metadata.uid != metadata.uid:
        message = f"pod {metadata.name} was deleted and created again"
        raise NotFound(message, status=404, reason="NotFound")
    node_name: str = live.spec.node_name
    return node_name


def is_other_uid(error: SchedulerError) -> bool:
    """Returns whether a patch was refused because the object has another UID than the patch.

    An admission policy refuses with the same code, but does not name the field.
    """
    return isinstance(error, Invalid) and any(
        cause.startswith("metadata.uid:") for cause in error.causes
    )
