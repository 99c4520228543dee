"""Chooses format and encoding of /metrics from the headers of a request.

Source: github.com/prometheus/common v0.67.5, expfmt/encode.go (Negotiate);
github.com/prometheus/client_golang v1.23.2, internal/github.com/golang/gddo/httputil.
*Differs*: the two text forms of protocol buffers, which are for debugging and have no stable form,
are answered in the Prometheus text format.
"""

from __future__ import annotations

import re
from typing import Final

from mooring.metrics.exposition import TEXT, Exposition
from mooring.metrics.text import MEDIA_TYPE
from mooring.serving.exposition.protobuf_families import render_delimited
from mooring.serving.negotiation import accept_clauses

_PROTOBUF: Final = ("application", "vnd.google.protobuf")
_FAMILY: Final = "io.prometheus.client.MetricFamily"
_DELIMITED: Final = f"application/vnd.google.protobuf; proto={_FAMILY}; encoding=delimited"
_TEXT_VERSIONS: Final = ("", "0.0.4")

#: How names are written that the format does not allow. There are none, so it is a parameter only.
_ESCAPINGS: Final = ("allow-utf-8", "underscores", "dots", "values")
_ESCAPING: Final = "underscores"

#: One alternative of Accept-Encoding: a token, and its quality.
_CODING: Final = re.compile(
    r"([\w!#$%&'*+\-.^`|~/]+)[ \t\r\n]*(?:;[ \t\r\n]*q=([01](?:\.[0-9]*)?))?", re.ASCII
)
_COMMA: Final = re.compile(r"[ \t\r\n]*,[ \t\r\n]*")
GZIP: Final = "gzip"
IDENTITY: Final = "identity"


def exposition_for(accept: str) -> Exposition:
    """Returns the format that an Accept header prefers; the text format if it names none.

    Example:
        >>> exposition_for("text/plain").content_type
        'text/plain; version=0.0.4; charset=utf-8; escaping=underscores'
    """
    escaping = _ESCAPING
    for clause in accept_clauses(accept):
        requested = clause.parameters.get("escaping", "")
        escaping = requested if requested in _ESCAPINGS else escaping
        kind, of = (clause.major, clause.minor), clause.parameters
        if kind == _PROTOBUF and of.get("proto") == _FAMILY and of.get("encoding") == "delimited":
            return Exposition(f"{_DELIMITED}; escaping={escaping}", render_delimited)
        if kind == ("text", "plain") and of.get("version", "") in _TEXT_VERSIONS:
            break
    return Exposition(f"{MEDIA_TYPE}; escaping={escaping}", TEXT.render)


def content_coding(header: str) -> str:
    """Returns "gzip" or "identity", whichever an Accept-Encoding header prefers.

    Example:
        >>> content_coding("deflate, gzip;q=0.5"), content_coding("gzip;q=0, *;q=0.1")
        ('gzip', 'identity')
    """
    best, best_quality = IDENTITY, -1.0
    alternatives = _codings(header)
    for offer in (IDENTITY, GZIP):
        for name, quality in alternatives:
            if quality > best_quality and name in (offer, "*"):
                best, best_quality = offer, quality
    return best if best_quality else IDENTITY


def _codings(header: str) -> list[tuple[str, float]]:
    """Returns the alternatives up to the first that cannot be read."""
    codings: list[tuple[str, float]] = []
    position = 0
    while match := _CODING.match(header, position):
        rest = header[match.end() :].lstrip()
        if match[2] is None and rest.startswith(";"):
            break
        codings.append((match[1], float(match[2] or 1)))
        comma = _COMMA.match(header, match.end())
        if comma is None:
            break
        position = comma.end()
    return codings
