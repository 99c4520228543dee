"""Parses and writes URLs as Go's net/url does.

Source: Go 1.26, net/url/url.go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from mooring.cel.golang.addresses import AddressProblem, parse_address
from mooring.objects.go_text import go_quote

_HEX: Final = frozenset(b"0123456789abcdefABCDEF")
_UNRESERVED: Final = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~"
)
#: Bytes that stay as they are, by the part of the URL.
_PLAIN: Final = {
    "host": _UNRESERVED | frozenset(b"!$&'()*+,;=:[]<>\""),
    "zone": _UNRESERVED | frozenset(b"!$&'()*+,;=:[]<>\""),
    "path": _UNRESERVED | frozenset(b"$&+,/:;=@"),
    "user": _UNRESERVED | frozenset(b"$&+,;="),
    "query": _UNRESERVED,
    "fragment": _UNRESERVED | frozenset(b"$&+,/:;=?@!()*"),
}
_USERINFO = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_PORT = re.compile(r"(?::[0-9]*)?")
_MAX_PARAMETERS: Final = 10_000


class URLProblem(Exception):
    """A text that is not a URL, with Go's reason."""


@dataclass(slots=True)
class URL:
    """The parts of a URL; ``path`` is decoded, ``raw_path`` as written if that differs."""

    scheme: str = ""
    opaque: str = ""
    user: str | None = None
    host: str = ""
    path: str = ""
    raw_path: str = ""
    raw_query: str = ""
    has_query: bool = False
    omits_host: bool = False
    fragment: str = ""
    raw_fragment: str = ""

    @property
    def hostname(self) -> str:
        """The host without port and brackets."""
        name = self._host_and_port()[0]
        return name[1:-1] if name.startswith("[") and name.endswith("]") else name

    @property
    def port(self) -> str:
        """The port, or ""."""
        return self._host_and_port()[1]

    def _host_and_port(self) -> tuple[str, str]:
        name, colon, port = self.host.rpartition(":")
        if colon and _PORT.fullmatch(":" + port):
            return name, port
        return self.host, ""

    @property
    def escaped_path(self) -> str:
        """The path with percent-encoding."""
        if self.raw_path and _is_encoded(self.raw_path, "path"):
            return self.raw_path
        return "*" if self.path == "*" else _escape(self.path, "path")

    def query(self) -> dict[str, list[str]]:
        """Returns the parameters; invalid ones are left out."""
        result: dict[str, list[str]] = {}
        if self.raw_query.count("&") >= _MAX_PARAMETERS:
            return result
        for pair in self.raw_query.split("&"):
            if not pair or ";" in pair:
                continue
            key, _, value = pair.partition("=")
            try:
                result.setdefault(_unescape(key, "query"), []).append(_unescape(value, "query"))
            except URLProblem:
                continue
        return {key: values for key, values in result.items() if values}

    def __str__(self) -> str:
        text = f"{self.scheme}:" if self.scheme else ""
        text += self.opaque or self._authority_and_path(text)
        if self.has_query or self.raw_query:
            text += "?" + self.raw_query
        return f"{text}#{self._escaped_fragment()}" if self.fragment else text

    def _authority_and_path(self, head: str) -> str:
        text = ""
        if self.user is not None or (
            (self.scheme or self.host) and not (self.omits_host and not self.host)
        ):
            if self.host or self.path or self.user is not None:
                text = "//"
            if self.user is not None:
                text += self.user + "@"
            text += _escape(self.host, "host")
        path = self.escaped_path
        if path and path[0] != "/" and self.host:
            text += "/"
        if not head and not text and ":" in path.split("/")[0]:
            text = "./"
        return text + path

    def _escaped_fragment(self) -> str:
        if self.raw_fragment and _is_encoded(self.raw_fragment, "fragment"):
            return self.raw_fragment
        return _escape(self.fragment, "fragment")


def parse_request_uri(text: str) -> URL:
    """Parses an absolute URI or an absolute path.

    Raises:
        URLProblem: It is neither.
    """
    return _labelled(text, via_request=True)


def parse_url(text: str) -> URL:
    """Parses a URL or a reference, with its fragment.

    Raises:
        URLProblem: It is not one.
    """
    head, _, fragment = text.partition("#")
    url = _labelled(head, via_request=False)
    if fragment:
        try:
            url.fragment = _unescape(fragment, "fragment")
        except URLProblem as problem:
            raise URLProblem(f"parse {go_quote(text)}: {problem}") from None
        url.raw_fragment = fragment if _escape(url.fragment, "fragment") != fragment else ""
    return url


def _labelled(text: str, *, via_request: bool) -> URL:
    try:
        return _parse(text, via_request=via_request)
    except URLProblem as problem:
        raise URLProblem(f"parse {go_quote(text)}: {problem}") from None


def _parse(text: str, *, via_request: bool) -> URL:
    if any(character < " " or character == "\x7f" for character in text):
        raise URLProblem("net/url: invalid control character in URL")
    if not text and via_request:
        raise URLProblem("empty url")
    if text == "*":
        return URL(path="*")
    url = URL()
    scheme, rest = _scheme(text)
    url.scheme = scheme.lower()
    if rest.endswith("?") and rest.count("?") == 1:
        url.has_query, rest = True, rest[:-1]
    else:
        rest, _, url.raw_query = rest.partition("?")
    if not rest.startswith("/"):
        if url.scheme:
            url.opaque = rest
            return url
        if via_request:
            raise URLProblem("invalid URI for request")
        if ":" in rest.split("/")[0]:
            raise URLProblem("first path segment in URL cannot contain colon")
    may_have_host = bool(url.scheme) or (not via_request and not rest.startswith("///"))
    if may_have_host and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        url.user, url.host = _authority(url.scheme, authority)
        rest = slash + path
    elif url.scheme and rest.startswith("/"):
        url.omits_host = True
    url.path = _unescape(rest, "path")
    url.raw_path = rest if _escape(url.path, "path") != rest else ""
    return url


def _scheme(text: str) -> tuple[str, str]:
    match = re.match(r"[A-Za-z][A-Za-z0-9+\-.]*:", text)
    if match is not None:
        return match[0][:-1], text[match.end() :]
    if text.startswith(":"):
        raise URLProblem("missing protocol scheme")
    return "", text


def _authority(scheme: str, authority: str) -> tuple[str | None, str]:
    userinfo, at, host_text = authority.rpartition("@")
    host = _host(scheme, host_text)
    if not at:
        return None, host
    if not _USERINFO.fullmatch(userinfo):
        raise URLProblem("net/url: invalid userinfo")
    name, colon, password = userinfo.partition(":")
    user = _escape(_unescape(name, "user"), "user")
    if colon:
        user += ":" + _escape(_unescape(password, "user"), "user")
    return user, host


def _host(scheme: str, host: str) -> str:
    opening = host.rfind("[")
    if opening > 0:
        raise URLProblem("invalid IP-literal")
    if opening == 0:
        return _bracketed_host(host)
    first, last = host.find(":"), host.rfind(":")
    if first >= 0:
        start = first if scheme in ("http", "https") else last
        _check_port(host[start:])
    return _unescape(host, "host")


def _bracketed_host(host: str) -> str:
    closing = host.rfind("]")
    if closing < 0:
        raise URLProblem("missing ']' in host")
    port = host[closing + 1 :]
    _check_port(port)
    name, zone_mark, zone = host[1:closing].partition("%25")
    address = _unescape(name, "host")
    if zone_mark:
        address += _unescape(zone_mark + zone, "zone")
    try:
        parsed, _ = parse_address(address)
    except AddressProblem as problem:
        raise URLProblem(f"invalid host: {problem}") from None
    if parsed.version == 4:
        raise URLProblem("invalid IP-literal")
    return f"[{address}]{_unescape(port, 'host')}"


def _check_port(text: str) -> None:
    if not _PORT.fullmatch(text):
        raise URLProblem(f"invalid port {go_quote(text)} after host")


def _unescape(text: str, part: str) -> str:
    raw = text.encode()
    decoded = bytearray()
    index = 0
    while index < len(raw):
        byte = raw[index]
        if byte != ord("%"):
            if part in ("host", "zone") and byte < 0x80 and byte not in _PLAIN[part]:
                raise URLProblem(f"invalid character {go_quote(chr(byte))} in host name")
            decoded.append(ord(" ") if byte == ord("+") and part == "query" else byte)
            index += 1
            continue
        digits = raw[index + 1 : index + 3]
        code = raw[index : index + 3].decode(errors="replace")
        if len(digits) < 2 or not _HEX.issuperset(digits):
            raise URLProblem(f"invalid URL escape {go_quote(code)}")
        value = int(digits, 16)
        is_bad = part == "host" and value < 0x80 and code != "%25"
        is_bad |= part == "zone" and code != "%25" and value != 0x20 and value not in _PLAIN["host"]
        if is_bad:
            raise URLProblem(f"invalid URL escape {go_quote(code)}")
        decoded.append(value)
        index += 3
    return decoded.decode(errors="replace")


def _escape(text: str, part: str) -> str:
    plain = _PLAIN[part]
    return "".join(chr(byte) if byte in plain else f"%{byte:02X}" for byte in text.encode())


def _is_encoded(text: str, part: str) -> bool:
    allowed = _PLAIN[part] | frozenset(b"!$&'()*+,;=:@[]%")
    return allowed.issuperset(text.encode())
