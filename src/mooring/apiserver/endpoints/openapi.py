"""OpenAPI: v3 as an index and one document for each group and version, v2 as kubectl needs it.

The documents are Kubernetes' own, reduced to what is served (``tools/openapi_documents.py`` and
``tools/openapi_v2.py`` make them). They lie compressed in the package and are unpacked when
somebody asks. kubectl checks a document of the kind List by v2, which it takes as protobuf only.

Source: k8s.io/kube-openapi pkg/handler3/handler.go, pkg/handler/handler.go.
"""

from __future__ import annotations

import gzip
import hashlib
from functools import lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from mooring.apiserver.endpoints import negotiation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = "/openapi/v3"
ROOT_V2 = "/openapi/v2"
#: Clients ask for it by its old name too, whose "@" no header may have.
V2_MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_V2_NAMES = (V2_MEDIA_TYPE, V2_MEDIA_TYPE.replace("v2.v1", "v2@v1"), "*/*")
#: Unpacked documents that are kept: kubectl asks for few, and each is megabytes.
_KEPT_MAX = 4
#: A document is named by its hash, so who has it needs no other.
_FOREVER = "public, immutable"


class Answer(NamedTuple):
    """A complete answer."""

    status: int
    headers: dict[str, str]
    body: bytes


def respond(
    path: str, headers: Mapping[str, str], query: Sequence[tuple[str, str]] = ()
) -> Answer | None:
    """Returns the answer to a GET of ``path``, or None if no document is there.

    Args:
        path: Decoded, without query.
        headers: With lower-case names.
        query: ``hash`` as the index has it makes the answer one that clients may keep.

    Raises:
        Refused: 406, the client takes no JSON.

    Example:
        >>> answer = respond("/openapi/v3", {})
        >>> sorted(msgspec.json.decode(answer.body)["paths"])[:2]
        ['api', 'api/v1']
    """
    path = path.rstrip("/")
    if path == ROOT_V2:
        return _v2(headers)
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        return None
    if path == ROOT:
        negotiation.wanted_shape(headers.get("accept", ""), ())
        body = _index_document()
        return _answer(body, hashlib.sha512(body).hexdigest().upper(), headers, {})
    name = path.removeprefix(f"{ROOT}/")
    tag = hashes().get(name)
    if tag is None:
        return None
    negotiation.wanted_shape(headers.get("accept", ""), ())
    asked = dict(query).get("hash")
    if asked is not None and asked != tag:
        return Answer(301, {"location": _url(name, tag), "vary": "Accept"}, b"")
    more = {"vary": "Accept"} if asked is None else {"vary": "Accept", "cache-control": _FOREVER}
    return _answer(document(name), tag, headers, more)


def _v2(headers: Mapping[str, str]) -> Answer:
    wanted = negotiation.clauses(headers.get("accept", ""))
    if wanted and not any(one.media_type in _V2_NAMES for one in wanted):
        raise negotiation.not_acceptable(V2_MEDIA_TYPE)
    body, tag = _v2_document()
    return _answer(body, tag, headers, {"content-type": V2_MEDIA_TYPE, "vary": "Accept"})


@lru_cache(maxsize=1)
def _v2_document() -> tuple[bytes, str]:
    body = gzip.decompress(_read("v2.pb.gz"))
    return body, hashlib.sha512(body).hexdigest().upper()


def _answer(body: bytes, tag: str, headers: Mapping[str, str], more: Mapping[str, str]) -> Answer:
    found = {"content-type": negotiation.JSON, "etag": f'"{tag}"', **more}
    if headers.get("if-none-match") == f'"{tag}"':
        return Answer(304, found, b"")
    return Answer(200, found, body)


@lru_cache(maxsize=1)
def hashes() -> Mapping[str, str]:
    """Returns the documents, such as "api/v1" and "apis/apps/v1", and their hashes."""
    found: dict[str, str] = msgspec.json.decode(_read("index.json"))
    return MappingProxyType(found)


@lru_cache(maxsize=_KEPT_MAX)
def document(name: str) -> bytes:
    """Returns one document as JSON.

    Raises:
        KeyError: there is none of this name.
    """
    if name not in hashes():
        raise KeyError(name)
    return gzip.decompress(_read(f"{name.replace('/', '__')}.json.gz"))


@lru_cache(maxsize=1)
def _index_document() -> bytes:
    paths = {name: {"serverRelativeURL": _url(name, tag)} for name, tag in hashes().items()}
    return msgspec.json.encode({"paths": paths})


def _url(name: str, tag: str) -> str:
    return f"{ROOT}/{name}?hash={tag}"


def _read(name: str) -> bytes:
    return files("mooring").joinpath("apiserver/data/openapi", name).read_bytes()
