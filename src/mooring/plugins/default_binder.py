"""DefaultBinder: binds a pod through the API server's binding subresource."""

from __future__ import annotations

from mooring.framework import Cycle
from mooring.framework.interface import Handle


class DefaultBinder:
    """Tells the API server which node the pod with this UID goes to.

    Source: pkg/scheduler/framework/plugins/defaultbinder/default_binder.go.
    """

    name = "DefaultBinder"

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def bind(self, cycle: Cycle, node_name: str) -> None:
        """Binds the cycle's pod.

        Raises:
            Conflict, NotFound, OutcomeUnknown: as the API server, or the lack of one, has it.
        """
        await self._handle.bind(cycle.pod, node_name)
