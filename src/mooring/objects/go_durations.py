"""Go's text form of durations, with Go's error texts: what flags and URLs are parsed with.

Source: Go's package time, ParseDuration.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

#: Unit of a duration -> nanoseconds.
UNITS_NS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,  # MICRO SIGN
    "μs": 10**3,  # GREEK SMALL LETTER MU
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_PART: Final = re.compile(r"([0-9]*)(\.?)([0-9]*)([^0-9.]*)")
_NS_MAX: Final = 2**63


def quote(text: str) -> str:
    r"""Returns a text in the quotes of Go's package time, which escapes what is not ASCII.

    Example:
        >>> print(quote("1µs\n"))
        "1\xc2\xb5s\x0a"
    """
    letters = (
        f"\\{letter}" if letter in '"\\'
        else letter if " " <= letter < "\x80"
        else "".join(f"\\x{byte:02x}" for byte in letter.encode(errors="surrogatepass"))
        for letter in text
    )  # fmt: skip
    return f'"{"".join(letters)}"'


def parse_duration_ns(text: str) -> int:
    """Returns the nanoseconds of a duration such as "1m30s".

    Raises:
        ValueError: it is no duration, or longer than 292 years; the message is Go's.

    Example:
        >>> parse_duration_ns("-1.5s")
        -1500000000
        >>> parse_duration_ns("1x")
        Traceback (most recent call last):
        ValueError: time: unknown unit "x" in duration "1x"
    """
    unsigned = text[1:] if text[:1] in ("+", "-") else text
    if unsigned == "0":
        return 0
    if not unsigned:
        raise ValueError(f"time: invalid duration {quote(text)}")
    total_ns, position = 0, 0
    while position < len(unsigned):
        match = _PART.match(unsigned, position)
        assert match is not None
        whole, _, fraction, unit = match.groups()
        if not whole and not fraction:
            raise ValueError(f"time: invalid duration {quote(text)}")
        if not unit:
            raise ValueError(f"time: missing unit in duration {quote(text)}")
        if unit not in UNITS_NS:
            raise ValueError(f"time: unknown unit {quote(unit)} in duration {quote(text)}")
        total_ns += int(Decimal(f"{whole or 0}.{fraction or 0}") * UNITS_NS[unit])
        position = match.end()
    is_negative = text.startswith("-")
    if total_ns > _NS_MAX or (total_ns == _NS_MAX and not is_negative):
        raise ValueError(f"time: invalid duration {quote(text)}")
    return -total_ns if is_negative else total_ns
