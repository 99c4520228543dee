"""Type aliases of the embedded API server."""

from __future__ import annotations

from typing import Any

#: A Kubernetes object as decoded JSON.
Object = dict[str, Any]
