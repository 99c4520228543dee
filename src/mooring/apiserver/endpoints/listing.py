"""Lists: which version of which objects, page by page.

A page's continue token names the version of the first page and the key to go on from; later pages
are made from what was stored at that version, which the history still knows for a while.

Source: k8s.io/apiserver pkg/storage/{interfaces,continue}.go, pkg/storage/etcd3/{store,errors}.go,
pkg/apis/meta/internalversion/validation.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from mooring.apiserver.endpoints.body import decode_json
from mooring.apiserver.errors import (
    FieldFault,
    Refused,
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
    """What a URL says about a list or watch.

    Attributes:
        limit: Objects of one page; 0 = all.
        continue_token: As the page before gave it.
        version: ``resourceVersion``, "" if not given.
        match: ``resourceVersionMatch``, "" if not given.
        is_watch: Whether to watch.
        sends_initial_events: ``sendInitialEvents``; None if not given.
        wants_bookmarks: ``allowWatchBookmarks``.
        timeout_s: Seconds after which a watch ends; None = as is usual.
    """

    limit: int = 0
    continue_token: str = ""
    version: str = ""
    match: str = ""
    is_watch: bool = False
    sends_initial_events: bool | None = None
    wants_bookmarks: bool = False
    timeout_s: int | None = None

    def checked(self) -> ListOptions:
        """Returns the options with their defaults.

        Raises:
            Refused: 422, they contradict each other.
        """
        is_legacy = self.sends_initial_events is None and not self.match
        options = self
        if self.is_watch and is_legacy and self.version in ("", "0"):
            options = replace(self, sends_initial_events=True, match=NOT_OLDER)
        faults = _watch_faults(options) if options.is_watch else _list_faults(options)
        if faults:
            raise invalid_object("ListOptions", "", faults, group="meta.k8s.io")
        return options


def _list_faults(options: ListOptions) -> list[FieldFault]:
    field = "resourceVersionMatch"
    faults = []
    if options.match:
        if not options.version:
            problem = f"{field} is forbidden unless resourceVersion is provided"
            faults.append(forbidden_field(field, problem))
        if options.continue_token:
            problem = f"{field} is forbidden when continue is provided"
            faults.append(forbidden_field(field, problem))
        if options.match not in (EXACT, NOT_OLDER):
            faults.append(not_supported(field, options.match, [EXACT, NOT_OLDER, ""]))
        if options.match == EXACT and options.version == "0":
            problem = f'{field} "exact" is forbidden for resourceVersion "0"'
            faults.append(forbidden_field(field, problem))
    if options.sends_initial_events is not None:
        problem = "sendInitialEvents is forbidden for list"
        faults.append(forbidden_field("sendInitialEvents", problem))
    return faults


def _watch_faults(options: ListOptions) -> list[FieldFault]:
    field = "resourceVersionMatch"
    faults = []
    if options.sends_initial_events is not None and options.match != NOT_OLDER:
        problem = f"sendInitialEvents requires setting {field} to {NOT_OLDER}"
        faults.append(forbidden_field(field, problem))
    if options.match:
        if options.sends_initial_events is None:
            problem = f"{field} is forbidden for watch unless sendInitialEvents is provided"
            faults.append(forbidden_field(field, problem))
        if options.match != NOT_OLDER:
            faults.append(not_supported(field, options.match, [NOT_OLDER]))
        if options.continue_token:
            problem = f"{field} is forbidden when continue is provided"
            faults.append(forbidden_field(field, problem))
    return faults


class Page(NamedTuple):
    """One page of a list.

    Attributes:
        objects: In the order of their keys.
        metadata: The list's metadata: resourceVersion, continue, remainingItemCount.
    """

    objects: list[Stored]
    metadata: dict[str, Any]


def list_page(store: Store, selection: Selection, options: ListOptions) -> Page:
    """Returns a page of the objects that are selected.

    Raises:
        Refused: 400, 410, 504.
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
    found = selection.of(candidates)
    metadata: dict[str, Any] = {"resourceVersion": str(version or store.version)}
    # Who takes any version is served from upstream's cache, which makes no pages.
    is_cached = options.version == "0" and not options.continue_token and options.match != EXACT
    if options.limit <= 0 or is_cached:
        return Page(list(found), metadata)
    objects = list(islice(found, options.limit))
    following = sum(1 for _ in (found if selection.is_everything else islice(found, 1)))
    if following:
        last = objects[-1].key
        metadata["continue"] = token_of(version or store.version, last + "\0", selection)
        if selection.is_everything:
            metadata["remainingItemCount"] = following
    return Page(objects, metadata)


def _start(store: Store, selection: Selection, options: ListOptions) -> tuple[int, str]:
    """Returns the version to list at (0 = now), and the key to begin with."""
    if options.continue_token:
        version, start = parse_token(options.continue_token)
        if options.version not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        prefix = f"{selection.namespace}/" if selection.namespace else ""
        return max(version, 0), prefix + start
    version = parse_version(options.version)
    check_not_ahead(store.version, version)
    is_exact = options.match == EXACT or (not options.match and options.limit > 0)
    return (version if is_exact else 0), ""


def check_not_ahead(current: int, asked: int) -> None:
    """Refuses to read a version that does not exist yet.

    Raises:
        Refused: 504.
    """
    if asked > current:
        raise version_too_large(asked, current)


def check_read_version(current: int, text: str) -> None:
    """The version that an object must have at least reached, as a GET may say.

    Raises:
        Refused: 500 for what is no version (as upstream), 504.
    """
    if problem := version_problem(text):
        raise Refused(500, "", problem)
    check_not_ahead(current, int(text or 0))


def parse_version(text: str) -> int:
    """Returns a resourceVersion as a number; "" is 0.

    Raises:
        Refused: 400.
    """
    problem = version_problem(text)
    if problem:
        raise bad_request(f"invalid resource version: {problem}")
    return int(text or 0)


def version_problem(text: str) -> str:
    """Why a text is no resourceVersion, "" if it is one or empty."""
    if not text or (text.isascii() and text.isdecimal() and int(text) < 2**64):
        return ""
    what = "value out of range" if text.isascii() and text.isdecimal() else "invalid syntax"
    why = f"strconv.ParseUint: parsing {quoted(text)}: {what}"
    return f"resourceVersion: Invalid value: {quoted(text)}: {why}"


def token_of(version: int, key: str, selection: Selection) -> str:
    """Returns a continue token: go on with ``key`` at ``version`` (-1 = at the latest)."""
    start = key
    if selection.namespace:
        start = key.removeprefix(f"{selection.namespace}/")
    content = {"v": _TOKEN_VERSION, "rv": version, "start": f"/{start}"}
    return base64.urlsafe_b64encode(msgspec.json.encode(content)).rstrip(b"=").decode()


def parse_token(token: str) -> tuple[int, str]:
    """Version and key of a continue token.

    Raises:
        Refused: 400.
    """
    lead = "invalid continue token: continue key is not valid"
    try:
        _check_base64(token)
        padded = token + "=" * (-len(token) % 4)
        content = base64.b64decode(padded, altchars=b"-_", validate=True)
        found: Mapping[str, Any] = decode_json(content)
        kind, version, start = found["v"], found["rv"], found["start"]
    except (binascii.Error, ValueError, KeyError, TypeError) as why:
        raise bad_request(f"{lead}: {why}") from why
    if kind != _TOKEN_VERSION:
        problem = "server does not recognize this encoded version"
        raise bad_request(f"{lead}: {problem} {kind}")
    if not isinstance(version, int) or version == 0:
        problem = "incorrect encoded start resourceVersion (version meta.k8s.io/v1)"
        raise bad_request(f"{lead}: {problem}")
    if not isinstance(start, str) or not start:
        raise bad_request(f"{lead}: encoded start key empty (version meta.k8s.io/v1)")
    if ".." in start.split("/"):
        raise bad_request(f"{lead}: {start}")
    return version, start.removeprefix("/")


def _check_base64(token: str) -> None:
    """Raises ValueError with Go's words for what is no base64."""
    is_short = len(token) % 4 == 1
    broken = _NO_BASE64.search(token)
    if broken is not None or is_short:
        position = broken.start() if broken is not None else len(token) - 1
        raise ValueError(f"illegal base64 data at input byte {position}")


def _too_old(selection: Selection, options: ListOptions, after: str) -> Refused:
    if not options.continue_token:
        return expired(LIST_TOO_OLD)
    refusal = expired(CONTINUE_TOO_OLD)
    refusal.list_metadata = {"continue": token_of(-1, after, selection)}
    return refusal
