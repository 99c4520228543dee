"""Lists of objects at a version, page by page.

A page's continue token has the version of the first page and the key of the next object; later
pages are made of the objects at that version, which the history keeps for a while.

Source: k8s.io/apiserver pkg/storage/{interfaces,continue}.go, pkg/storage/etcd3/{store,errors}.go,
pkg/apis/meta/internalversion/validation.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from mooring.apiserver.endpoints.body import decode_json
from mooring.apiserver.endpoints.steps import Steps, last_step, slices_of
from mooring.apiserver.errors import (
    ApiStatusError,
    Errors,
    bad_request,
    expired,
    forbidden_field,
    invalid_object,
    not_supported,
    quoted,
    version_too_large,
)
from mooring.apiserver.storage.history import Dropped

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mooring.apiserver.storage.selection import Selection
    from mooring.apiserver.storage.store import Store
    from mooring.apiserver.storage.stored_object import Stored

_TOKEN_VERSION = "meta.k8s.io/v1"  # noqa: S105 - a version, no secret
_NO_BASE64 = re.compile(r"[^A-Za-z0-9_-]")
UINT64_DIGITS_MAX = 20
EXACT, NOT_OLDER = "Exact", "NotOlderThan"
LIST_TOO_OLD = "The resourceVersion for the provided list is too old."
CONTINUE_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start "
    "a new list without the continue parameter, or use the continue token in this response to "
    "retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)


@dataclass(frozen=True, slots=True)
class ListOptions:
    """The parameters of a list or watch.

    Attributes:
        limit: Objects of one page; 0 = all.
        continue_token: From the previous page.
        version: ``resourceVersion``, "" if absent.
        match: ``resourceVersionMatch``, "" if absent.
        is_watch: True for a watch.
        sends_initial_events: ``sendInitialEvents``; None if absent.
        wants_bookmarks: ``allowWatchBookmarks``.
        timeout_s: Seconds after which a watch ends; None = the default.
    """

    limit: int = 0
    continue_token: str = ""
    version: str = ""
    match: str = ""
    is_watch: bool = False
    sends_initial_events: bool | None = None
    wants_bookmarks: bool = False
    timeout_s: int | None = None

    def validated(self) -> ListOptions:
        """Returns the options with their defaults.

        Raises:
            ApiStatusError: 422, they contradict each other.
        """
        is_legacy = self.sends_initial_events is None and not self.match
        options = self
        if self.is_watch and is_legacy and self.version in ("", "0"):
            options = replace(self, sends_initial_events=True, match=NOT_OLDER)
        validate = _validate_watch if options.is_watch else _validate_list
        errors = list(validate(options))
        if errors:
            raise invalid_object("ListOptions", "", errors, group="meta.k8s.io")
        return options


def _validate_list(options: ListOptions) -> Errors:
    field = "resourceVersionMatch"
    if options.match:
        if not options.version:
            problem = f"{field} is forbidden unless resourceVersion is provided"
            yield forbidden_field(field, problem)
        if options.continue_token:
            problem = f"{field} is forbidden when continue is provided"
            yield forbidden_field(field, problem)
        if options.match not in (EXACT, NOT_OLDER):
            yield not_supported(field, options.match, [EXACT, NOT_OLDER, ""])
        if options.match == EXACT and options.version == "0":
            problem = f'{field} "exact" is forbidden for resourceVersion "0"'
            yield forbidden_field(field, problem)
    if options.sends_initial_events is not None:
        problem = "sendInitialEvents is forbidden for list"
        yield forbidden_field("sendInitialEvents", problem)


def _validate_watch(options: ListOptions) -> Errors:
    field = "resourceVersionMatch"
    if options.sends_initial_events is not None and options.match != NOT_OLDER:
        problem = f"sendInitialEvents requires setting {field} to {NOT_OLDER}"
        yield forbidden_field(field, problem)
    if options.match:
        if options.sends_initial_events is None:
            problem = f"{field} is forbidden for watch unless sendInitialEvents is provided"
            yield forbidden_field(field, problem)
        if options.match != NOT_OLDER:
            yield not_supported(field, options.match, [NOT_OLDER])
        if options.continue_token:
            problem = f"{field} is forbidden when continue is provided"
            yield forbidden_field(field, problem)


class Page(NamedTuple):
    """One page of a list.

    Attributes:
        objects: In the order of their keys.
        metadata: The list's metadata: resourceVersion, continue, remainingItemCount.
    """

    objects: list[Stored]
    metadata: dict[str, Any]


def list_page(store: Store, selection: Selection, options: ListOptions) -> Page:
    """Returns a page of the selected objects.

    Raises:
        ApiStatusError: 400, 410, 504.
    """
    return last_step(list_page_steps(store, selection, options))


def list_page_steps(store: Store, selection: Selection, options: ListOptions) -> Steps[Page]:
    """Returns a page of the selected objects, in steps between which other requests may run.

    The objects are those at the first step.

    Raises:
        ApiStatusError: 400, 410, 504.
    """
    collection = store.collection(selection.resource)
    version, after = _start(store, selection, options)
    try:
        candidates: Iterable[Stored]
        if version and version < store.version:
            candidates = collection.at_version(version, selection.namespace, after=after)
        else:
            candidates = selection.candidates(collection, after=after)
    except Dropped:
        raise _too_old(selection, options, after) from None
    selected = selection.of(candidates)
    metadata: dict[str, Any] = {"resourceVersion": str(version or store.version)}
    # Version "0" is served from upstream's cache, which ignores the limit.
    is_cached = options.version == "0" and not options.continue_token and options.match != EXACT
    if options.limit <= 0 or is_cached:
        if selection.is_everything and not selection.namespace:
            return Page(list(selected), metadata)
        objects: list[Stored] = []
        for number, chunk in enumerate(slices_of(list(candidates))):
            if number:
                yield
            objects += selection.of(chunk)
        return Page(objects, metadata)
    if selection.is_everything:
        objects = list(selected)
    else:
        objects = yield from _first_steps(selection, list(candidates), options.limit + 1)
    remaining = len(objects) - options.limit
    objects = objects[: options.limit]
    if remaining > 0:
        last = objects[-1].key
        metadata["continue"] = token_of(version or store.version, last + "\0", selection)
        if selection.is_everything:
            metadata["remainingItemCount"] = remaining
    return Page(objects, metadata)


def _first_steps(
    selection: Selection, candidates: list[Stored], count_max: int
) -> Steps[list[Stored]]:
    """Returns the first selected objects, ``count_max`` or some more if there are so many."""
    objects: list[Stored] = []
    for number, chunk in enumerate(slices_of(candidates)):
        if number:
            yield
        objects += selection.of(chunk)
        if len(objects) >= count_max:
            break
    return objects


def _start(store: Store, selection: Selection, options: ListOptions) -> tuple[int, str]:
    """Returns the version to list at (0 = now), and the key to begin with."""
    if options.continue_token:
        version, start = parse_token(options.continue_token)
        if options.version not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        check_not_ahead(store.version, version)
        prefix = f"{selection.namespace}/" if selection.namespace else ""
        return max(version, 0), prefix + start
    version = parse_version(options.version)
    check_not_ahead(store.version, version)
    is_exact = options.match == EXACT or (not options.match and options.limit > 0)
    return (version if is_exact else 0), ""


def check_not_ahead(current: int, requested: int) -> None:
    """Checks that a version exists already.

    Raises:
        ApiStatusError: 504.
    """
    if requested > current:
        raise version_too_large(requested, current)


def check_read_version(current: int, text: str) -> None:
    """Checks the ``resourceVersion`` of a GET: the store must have reached it.

    Raises:
        ApiStatusError: 500 for an invalid version (as upstream), 504.
    """
    if problem := version_problem(text):
        raise ApiStatusError(500, "", problem)
    check_not_ahead(current, int(text.lstrip("0") or 0))


def parse_version(text: str) -> int:
    """Returns a resourceVersion as a number; "" is 0.

    Raises:
        ApiStatusError: 400.
    """
    problem = version_problem(text)
    if problem:
        raise bad_request(f"invalid resource version: {problem}")
    return int(text.lstrip("0") or 0)


def version_problem(text: str) -> str:
    """Returns the reason why a text is no resourceVersion; "" if it is one or empty."""
    is_number = text.isascii() and text.isdecimal()
    if not text or (is_number and _is_uint64(text)):
        return ""
    detail = "value out of range" if is_number else "invalid syntax"
    reason = f"strconv.ParseUint: parsing {quoted(text)}: {detail}"
    return f"resourceVersion: Invalid value: {quoted(text)}: {reason}"


def _is_uint64(digits: str) -> bool:
    """Returns whether the number is in range; thousands of digits are not converted."""
    digits = digits.lstrip("0")
    return len(digits) <= UINT64_DIGITS_MAX and int(digits or 0) < 2**64


def token_of(version: int, key: str, selection: Selection) -> str:
    """Returns a continue token: continue with ``key`` at ``version`` (-1 = the latest)."""
    start = key
    if selection.namespace:
        start = key.removeprefix(f"{selection.namespace}/")
    content = {"v": _TOKEN_VERSION, "rv": version, "start": f"/{start}"}
    return base64.urlsafe_b64encode(msgspec.json.encode(content)).rstrip(b"=").decode()


def parse_token(token: str) -> tuple[int, str]:
    """Returns version and key of a continue token.

    Raises:
        ApiStatusError: 400.
    """
    lead = "invalid continue token: continue key is not valid"
    try:
        _check_base64(token)
        padded = token + "=" * (-len(token) % 4)
        content = base64.b64decode(padded, altchars=b"-_", validate=True)
        fields: Mapping[str, Any] = decode_json(content)
        kind, version, start = fields["v"], fields["rv"], fields["start"]
    except (binascii.Error, ValueError, KeyError, TypeError) as error:
        raise bad_request(f"{lead}: {error}") from error
    if kind != _TOKEN_VERSION:
        problem = "server does not recognize this encoded version"
        raise bad_request(f"{lead}: {problem} {kind}")
    if type(version) is not int or version == 0:
        problem = "incorrect encoded start resourceVersion (version meta.k8s.io/v1)"
        raise bad_request(f"{lead}: {problem}")
    if not isinstance(start, str) or not start:
        raise bad_request(f"{lead}: encoded start key empty (version meta.k8s.io/v1)")
    if ".." in start.split("/"):
        raise bad_request(f"{lead}: {start}")
    return version, start.removeprefix("/")


def _check_base64(token: str) -> None:
    """Raises ValueError with Go's message if a token is not base64."""
    is_short = len(token) % 4 == 1
    illegal = _NO_BASE64.search(token)
    if illegal is not None or is_short:
        position = illegal.start() if illegal is not None else len(token) - 1
        raise ValueError(f"illegal base64 data at input byte {position}")


def _too_old(selection: Selection, options: ListOptions, after: str) -> ApiStatusError:
    if not options.continue_token:
        return expired(LIST_TOO_OLD)
    error = expired(CONTINUE_TOO_OLD)
    error.list_metadata = {"continue": token_of(-1, after, selection)}
    return error
