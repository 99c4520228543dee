"""DefaultBinder: binds a pod through the API server's binding subresource."""

from __future__ import annotations

from mooring.framework import Cycle
from mooring.framework.interface import Handle


class DefaultBinder:
    """Binds pods, with a UID precondition.

    Source: pkg/scheduler/framework/plugins/defaultbinder/default_binder.go.
    """

    name = "DefaultBinder"

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def bind(self, cycle: Cycle, node_name: str) -> None:
        """Binds the cycle's pod.

        Raises:
            Conflict, NotFound, OutcomeUnknown: see ``mooring.errors``.
        """
        await self._handle.bind(cycle.pod, node_name)
