"""Runs the background coroutines of plugins."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

#: Pause before a background coroutine that ended, normally or with an error, is started again.
PAUSE_S: Final = 5.0

_log = logging.getLogger(__name__)


async def run_background(plugin: Any, sleep: Callable[[float], Awaitable[None]]) -> None:
    """Runs a plugin's ``background`` until cancelled; its errors do not affect others."""
    while True:
        try:
            await plugin.background()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            _log.error("background of a plugin was cancelled", extra={"plugin": plugin.name})
        except Exception:  # noqa: BLE001 - a plugin may raise anything; it alone is restarted
            _log.exception("background of a plugin failed", extra={"plugin": plugin.name})
        await sleep(PAUSE_S)
