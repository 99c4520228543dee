"""The embedded API server: kube-apiserver's behaviour in memory, for laptops, tests, simulation.

``ApiServer`` handles requests in process; ``serve`` serves it on a socket. Any difference from
kube-apiserver is a bug: one contract suite runs against both.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mooring.apiserver.http_server.http import serve
    from mooring.apiserver.server import ApiServer

__all__ = ["ApiServer", "serve"]

_MODULES = {"ApiServer": "mooring.apiserver.server", "serve": "mooring.apiserver.http_server.http"}


def __getattr__(name: str) -> Any:
    """Imports a public name on first use, so that in-process use does not load aiohttp."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
