"""What plugins do beside the decisions: fetch, wait, remember."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

#: A plugin whose work ended, well or with an error, is begun anew after so long.
PAUSE_S: Final = 5.0

_log = logging.getLogger(__name__)


async def run_background(plugin: Any, sleep: Callable[[float], Awaitable[None]]) -> None:
    """Runs a plugin's ``background`` until cancelled; whatever it raises stops nobody else."""
    while True:
        try:
            await plugin.background()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            _log.error("a plugin's work was cancelled", extra={"plugin": plugin.name})
        except Exception:  # noqa: BLE001 - a plugin may raise anything; it alone is begun anew
            _log.exception("a plugin failed beside the decisions", extra={"plugin": plugin.name})
        await sleep(PAUSE_S)
