"""The deprecated paths of watches: ``/api/v1/watch/...`` and ``/apis/GROUP/VERSION/watch/...``.

Such a request is a watch of the collection; a name in the path selects one object, as a field
selector does::

    /api/v1/watch/namespaces/shop/pods/web-0
      ──> /api/v1/namespaces/shop/pods?watch=true&fieldSelector=metadata.name=web-0

Source: k8s.io/apiserver pkg/endpoints/{installer,request/requestinfo,handlers/get}.go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mooring.apiserver.errors import bad_request, method_not_allowed, no_such_path
from mooring.apiserver.resources import without_special_verb
from mooring.objects.selector_text import FieldRequirement, FieldSelector, parse_field_selector
from mooring.objects.selectors import SelectorError

if TYPE_CHECKING:
    from mooring.apiserver.resources import ResourcePath

Pairs = Sequence[tuple[str, str]]
_NAME = "metadata.name"


def as_collection_watch(
    method: str, path: str, query: Pairs, resource_at: Callable[[str], ResourcePath | None]
) -> tuple[str, Pairs]:
    """Returns path and parameters of the watch that a request is; others are returned unchanged.

    Args:
        method: "GET", "POST" ...
        path: Of the request.
        query: Names and values of its parameters.
        resource_at: Returns what a path names; None if no resource is served there.

    Raises:
        ApiStatusError: 400, 404, 405.
    """
    verb, plain = without_special_verb(path)
    target = resource_at(plain) if verb == "watch" else None
    if target is None:
        return path, query
    if target.subresource or "watch" not in target.resource.verbs:
        raise no_such_path()
    if method != "GET":
        raise method_not_allowed()
    pairs = [*((name, value) for name, value in query if name != "watch"), ("watch", "true")]
    if not target.name:
        return plain, pairs
    selector = next((value for name, value in query if name == "fieldSelector"), "")
    if not selector:
        by_name = FieldSelector((FieldRequirement(_NAME, target.name, is_equal=True),))
        pairs = [
            *(pair for pair in pairs if pair[0] != "fieldSelector"),
            ("fieldSelector", str(by_name)),
        ]
    elif _selected_name(selector) != target.name:
        raise bad_request("fieldSelector metadata.name doesn't match requested name")
    return plain.rstrip("/").rpartition("/")[0], pairs


def _selected_name(text: str) -> str | None:
    try:
        return parse_field_selector(text).exact(_NAME)
    except SelectorError as error:
        raise bad_request(str(error)) from None
