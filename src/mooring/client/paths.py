"""Where the API server keeps things: URL paths."""

from __future__ import annotations

import re
from urllib.parse import quote

from mooring.objects.kinds import Kind

_PLAIN = re.compile(r"[-.a-zA-Z0-9]+")


def path_of(kind: Kind, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """The URL path of a collection, an object or its subresource.

    Example:
        >>> from mooring.objects.kinds import kind_named
        >>> path_of(kind_named("Pod"), "shop", "web-0", "binding")
        '/api/v1/namespaces/shop/pods/web-0/binding'
    """
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    parts = [root]
    if namespace and kind.namespaced:
        parts += ["namespaces", _quoted(namespace)]
    parts.append(kind.resource)
    parts += [_quoted(part) for part in (name, subresource) if part]
    return "/".join(parts)


def _quoted(part: str) -> str:
    # Names that need no quotes are nearly all, and quote() takes its time to find that out.
    return part if _PLAIN.fullmatch(part) else quote(part, safe="")
