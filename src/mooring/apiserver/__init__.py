"""The embedded API server: kube-apiserver's behaviour in memory, for laptops, tests, simulation.

``ApiServer`` answers requests in process; ``serve`` puts it on a socket. Where it differs from
kube-apiserver, it is wrong: one contract suite runs against both.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mooring.apiserver.http_server.http import serve
    from mooring.apiserver.server import ApiServer

__all__ = ["ApiServer", "serve"]

_HOMES = {"ApiServer": "mooring.apiserver.server", "serve": "mooring.apiserver.http_server.http"}


def __getattr__(name: str) -> Any:
    """Imports a public name when it is asked for: who needs no socket need not load aiohttp."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
