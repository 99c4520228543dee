"""Type aliases of the embedded API server."""

from __future__ import annotations

from mooring.objects.types import Json, Object

__all__ = ["Json", "Object"]
