"""Where the API server keeps things: URL paths."""

from __future__ import annotations

from urllib.parse import quote

from mooring.objects.kinds import Kind


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
        parts += ["namespaces", quote(namespace, safe="")]
    parts.append(kind.resource)
    parts += [quote(part, safe="") for part in (name, subresource) if part]
    return "/".join(parts)
