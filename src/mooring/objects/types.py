"""Type aliases for objects as decoded JSON."""

from __future__ import annotations

from typing import Any

#: A Kubernetes object as decoded JSON.
Object = dict[str, Any]
#: Any decoded JSON.
Json = Any
