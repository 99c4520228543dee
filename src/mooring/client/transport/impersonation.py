"""Impersonation: requests are sent for another user, ``as`` of a kubeconfig's user entry.

Source: client-go's transport/round_trippers.go (impersonatingRoundTripper).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

#: (name, value) of headers; a name may occur more than once.
HeaderPairs = tuple[tuple[str, str], ...]

#: The characters of a header name, but for letters, digits and "_.-~", which ``quote`` keeps.
_NAME_CHARACTERS: Final = "!#$&'*+^`|"


def impersonation_headers(user: Mapping[str, Any]) -> HeaderPairs:
    """Returns the headers that impersonate the user which a user entry names.

    Args:
        user: ``as``, ``as-uid``, ``as-groups`` and ``as-user-extra``; () without any.

    Raises:
        ValueError: the text names the field and the problem.
    """
    name, uid = _text("as", field_or(user, "as", "")), _text("as-uid", field_or(user, "as-uid", ""))
    groups = _texts("as-groups", field_or(user, "as-groups", []))
    extra = field_or(user, "as-user-extra", {})
    if not isinstance(extra, Mapping):
        raise ValueError("as-user-extra: must be a mapping of lists of strings")
    if not name:
        for field, value in (("as-uid", uid), ("as-groups", groups), ("as-user-extra", extra)):
            if value:
                raise ValueError(f"{field}: needs a user to impersonate in the field 'as'")
        return ()
    pairs = [("impersonate-user", name)]
    if uid:
        pairs.append(("impersonate-uid", uid))
    pairs += [("impersonate-group", text) for text in groups]
    for key, values in extra.items():
        header = f"impersonate-extra-{quote(str(key), safe=_NAME_CHARACTERS)}"
        pairs += [(header, text) for text in _texts(f"as-user-extra[{key}]", values)]
    return tuple(pairs)


def field_or(fields: Mapping[str, Any], name: str, default: Any) -> Any:
    """Returns the default for an absent field and for null; a value of another type is an error."""
    value = fields.get(name)
    return default if value is None else value


def _texts(field: str, values: Any) -> list[str]:
    if not isinstance(values, list):
        raise ValueError(f"{field}: must be a list of strings")
    return [_text(field, value) for value in values]


def _text(field: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{field}: must be a string")
    if not value.isprintable():
        raise ValueError(f"{field}: must not contain control characters")
    return value
