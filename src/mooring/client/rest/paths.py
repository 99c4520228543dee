"""URL paths of the API server."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import quote

from mooring.objects.kinds import Kind

#: Cache size: namespaces of a cluster times the kinds of which single objects are read.
_COLLECTIONS_CACHED = 1024
_PLAIN = re.compile(r"[-.a-zA-Z0-9]+")


def path_of(kind: Kind, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """Returns the URL path of a collection, an object or its subresource.

    Example:
        >>> from mooring.objects.kinds import kind_named
        >>> path_of(kind_named("Pod"), "shop", "web-0", "binding")
        '/api/v1/namespaces/shop/pods/web-0/binding'
    """
    path_namespace = namespace if kind.namespaced else ""
    path = _collection(kind.group, kind.version, path_namespace, kind.resource)
    if name:
        path += f"/{_quoted(name)}"
    return f"{path}/{_quoted(subresource)}" if subresource else path


@lru_cache(maxsize=_COLLECTIONS_CACHED)
def _collection(group: str, version: str, namespace: str, resource: str) -> str:
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    return (
        f"{root}/namespaces/{_quoted(namespace)}/{resource}" if namespace else f"{root}/{resource}"
    )


def _quoted(part: str) -> str:
    # Nearly no name needs quoting, and quote() is slow.
    return part if _PLAIN.fullmatch(part) else quote(part, safe="")
