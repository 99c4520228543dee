"""The parameters of a URL, parsed as Go parses them.

Source: k8s.io/apimachinery pkg/runtime/converter.go and pkg/conversion/queryparams; the options of
pkg/apis/meta/v1/validation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from mooring.apiserver.endpoints.listing import ListOptions
from mooring.apiserver.errors import (
    FieldError,
    bad_request,
    forbidden_field,
    invalid_object,
    not_supported,
    quoted,
    required,
)
from mooring.apiserver.validation.metadata import (
    FIELD_MANAGER_BYTES_MAX,
    validate_dry_run,
    validate_field_manager,
)
from mooring.objects.go_durations import parse_duration_ns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mooring.apiserver.types import Object

#: Python refuses to convert thousands of digits, and longer numbers are out of range anyway.
INT64_DIGITS_MAX = 19
_VALIDATIONS = ("", "Ignore", "Strict", "Warn")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The parameters of a write in a URL.

    Attributes:
        dry_run: The values of ``dryRun``.
        manager: The field manager; by default from the user agent.
        validation: "Strict", "Warn" or "Ignore".
    """

    dry_run: tuple[str, ...]
    manager: str
    validation: str

    @property
    def is_dry(self) -> bool:
        """True if nothing is stored."""
        return bool(self.dry_run)


class Query:
    """The parameters of one request."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            self._values.setdefault(name, []).append(value)

    def text(self, name: str) -> str:
        """Returns the first value, "" if there is none."""
        return self._values.get(name, [""])[0]

    def texts(self, name: str) -> tuple[str, ...]:
        """Returns all values."""
        return tuple(self._values.get(name, ()))

    def flag(self, name: str) -> bool | None:
        """Returns a boolean; None if absent. All values but "false" and "0" are true."""
        if name not in self._values:
            return None
        return self.text(name).lower() not in ("false", "0")

    def number(self, name: str) -> int | None:
        """Returns an integer; None if absent.

        Raises:
            ApiStatusError: 400.
        """
        text = self.text(name)
        if not text:
            return None
        digits = text[1:] if text[0] in "+-" else text
        if not (digits.isascii() and digits.isdecimal()):
            raise bad_request(f"strconv.ParseInt: parsing {quoted(text)}: invalid syntax")
        digits = digits.lstrip("0") or "0"
        value = int(digits[:INT64_DIGITS_MAX]) * (-1 if text[0] == "-" else 1)
        if len(digits) > INT64_DIGITS_MAX or not -(2**63) <= value < 2**63:
            raise bad_request(f"strconv.ParseInt: parsing {quoted(text)}: value out of range")
        return value

    def check_timeout(self) -> None:
        """Checks the time that a client gives a request; this server answers at once.

        Raises:
            ApiStatusError: 400.
        """
        text = self.text("timeout")
        if not text:
            return
        try:
            parse_duration_ns(text)
        except ValueError as error:
            problem = f"invalid timeout specified in the request URL - {error}"
            raise bad_request(problem) from None

    def list_options(self) -> ListOptions:
        """Returns the parameters of a list or watch.

        Raises:
            ApiStatusError: 400, 422.
        """
        return ListOptions(
            limit=max(self.number("limit") or 0, 0),
            continue_token=self.text("continue"),
            version=self.text("resourceVersion"),
            match=self.text("resourceVersionMatch"),
            is_watch=bool(self.flag("watch")),
            sends_initial_events=self.flag("sendInitialEvents"),
            wants_bookmarks=bool(self.flag("allowWatchBookmarks")),
            timeout_s=self.number("timeoutSeconds"),
        ).validated()

    def write_options(
        self, kind: str, headers: Mapping[str, str], *, is_apply: bool = False
    ) -> WriteOptions:
        """Returns the parameters of a write.

        Args:
            kind: "CreateOptions", "UpdateOptions" or "PatchOptions".
            headers: Of the request.
            is_apply: True for a server-side apply.

        Raises:
            ApiStatusError: 422.
        """
        get = self._values.get
        agent = headers.get("user-agent", "")
        if len(agent) > FIELD_MANAGER_BYTES_MAX:
            agent = _prefix_of(agent)
        return _checked_options(
            kind,
            self.text("fieldManager"),
            self.text("fieldValidation"),
            tuple(get("dryRun", ())),
            agent,
            is_apply=is_apply,
            is_forced=self.flag("force") is not None,
        )

    def delete_options(self) -> Object:
        """Returns the parameters of a deletion, as a DeleteOptions object.

        Raises:
            ApiStatusError: 400.
        """
        options: Object = {}
        grace_s = self.number("gracePeriodSeconds")
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        if policy := self.text("propagationPolicy"):
            options["propagationPolicy"] = policy
        orphans = self.flag("orphanDependents")
        if orphans is not None:
            options["orphanDependents"] = orphans
        if dry_run := self.texts("dryRun"):
            options["dryRun"] = list(dry_run)
        return options


@lru_cache(maxsize=1024)
def _checked_options(
    kind: str,
    manager: str,
    validation: str,
    dry_run: tuple[str, ...],
    agent: str,
    *,
    is_apply: bool,
    is_forced: bool,
) -> WriteOptions:
    """Returns validated options of a write; cached, since most writes of a client use the same."""
    errors: list[FieldError] = []
    if is_apply and not manager:
        errors.append(required("fieldManager", "is required for apply patch"))
    if kind == "PatchOptions" and not is_apply and is_forced:
        errors.append(forbidden_field("force", "may not be specified for non-apply patch"))
    errors += validate_field_manager(manager)
    errors += validate_dry_run(dry_run)
    if validation not in _VALIDATIONS:
        errors.append(not_supported("fieldValidation", validation, _VALIDATIONS))
    if errors:
        raise invalid_object(kind, "", errors, group="meta.k8s.io")
    return WriteOptions(dry_run, manager or _prefix_of(agent), validation or "Warn")


def _prefix_of(agent: str) -> str:
    """Returns the program's name in a user agent, as the name of a field manager."""
    name = "".join(filter(str.isprintable, agent.partition("/")[0]))
    return name.encode()[:FIELD_MANAGER_BYTES_MAX].decode(errors="ignore")
