"""OpenAPI: v3 as an index and one document per group and version, v2 as one document.

The documents are Kubernetes' own, reduced to what is served (``tools/openapi_documents.py`` and
``tools/openapi_v2.py`` make them). The package has them compressed; they are unpacked on
request. kubectl validates a document of the kind List with v2, which it reads as protobuf only; v2
is JSON for all who do not ask for protobuf. It has the definitions, and no paths. Documents of
resources that need a feature gate are served only with the gate.

Source: k8s.io/kube-openapi pkg/handler3/handler.go, pkg/handler/handler.go.
Differs: the protobuf form of v2 lacks the definitions of custom resources.
"""

from __future__ import annotations

import gzip
import hashlib
from functools import lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from mooring.apiserver.custom.openapi import custom_definition, custom_document, document_name
from mooring.apiserver.custom.openapi_message import definitions_field
from mooring.apiserver.endpoints import negotiation
from mooring.apiserver.resources import GATED_BY_PATH

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mooring.apiserver.resources import Resource

#: A small document that has the schemas of a kind and of its metadata.
_WITH_METADATA = "apis/scheduling.k8s.io/v1"
ROOT = "/openapi/v3"
ROOT_V2 = "/openapi/v2"
#: Clients also use its old name, whose "@" is not allowed in a header.
V2_MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_V2_PROTOBUF = (V2_MEDIA_TYPE, V2_MEDIA_TYPE.replace("v2.v1", "v2@v1"))
_V2_JSON = (negotiation.JSON, "application/*", "*/*")
#: The documents that need a feature gate.
_GATED = frozenset(map(document_name, GATED_BY_PATH.values()))
#: Unpacked documents in the cache: kubectl requests few, and each is megabytes.
_CACHE_SIZE = 4
#: The hash is part of the URL, so a cached document never changes.
_FOREVER = "public, immutable"


class HttpResponse(NamedTuple):
    """A complete response."""

    status: int
    headers: dict[str, str]
    body: bytes


def respond(
    path: str,
    headers: Mapping[str, str],
    query: Sequence[tuple[str, str]] = (),
    added: tuple[Resource, ...] = (),
) -> HttpResponse | None:
    """Returns the response to a GET of ``path``, or None if there is no such document.

    Args:
        path: Decoded, without query.
        headers: With lower-case names.
        query: With the ``hash`` of the index, clients may cache the response.
        added: The resources that definitions and feature gates have added.

    Raises:
        ApiStatusError: 406, the client accepts no format of the document.

    Example:
        >>> answer = respond("/openapi/v3", {})
        >>> sorted(msgspec.json.decode(answer.body)["paths"])[:2]
        ['api', 'api/v1']
    """
    path = path.rstrip("/")
    if path == ROOT_V2:
        return _v2(headers, added)
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        return None
    if path == ROOT:
        negotiation.requested_shape(headers.get("accept", ""), ())
        body = _index_document(added)
        return _respond_unless_cached(body, hashlib.sha512(body).hexdigest().upper(), headers, {})
    name = path.removeprefix(f"{ROOT}/")
    content, tag = _body_and_hash(name, added)
    if content is None:
        return None
    negotiation.requested_shape(headers.get("accept", ""), ())
    requested_tag = dict(query).get("hash")
    if requested_tag is not None and requested_tag != tag:
        return HttpResponse(301, {"location": _url(name, tag), "vary": "Accept"}, b"")
    caching = {} if requested_tag is None else {"cache-control": _FOREVER}
    extra_headers = {"vary": "Accept", **caching}
    return _respond_unless_cached(content, tag, headers, extra_headers)


def _body_and_hash(name: str, added: tuple[Resource, ...]) -> tuple[bytes | None, str]:
    tag = _served_hashes(added).get(name)
    if tag is not None:
        return document(name), tag
    resources = tuple(resource for resource in _custom(added) if document_name(resource) == name)
    return custom_document(resources, document(_WITH_METADATA)) if resources else (None, "")


def _custom(added: tuple[Resource, ...]) -> tuple[Resource, ...]:
    return tuple(resource for resource in added if resource.custom is not None)


def _gated(added: tuple[Resource, ...]) -> frozenset[str]:
    """Returns the names of the documents that feature gates have added."""
    return frozenset(document_name(resource) for resource in added if resource.custom is None)


def _served_hashes(added: tuple[Resource, ...]) -> dict[str, str]:
    hidden = _GATED - _gated(added)
    return {name: tag for name, tag in hashes().items() if name not in hidden}


def _v2(headers: Mapping[str, str], added: tuple[Resource, ...]) -> HttpResponse:
    clauses = negotiation.clauses(headers.get("accept", ""))
    media_types = [clause.media_type for clause in clauses] or ["*/*"]
    media_type = next((name for name in media_types if name in _V2_JSON + _V2_PROTOBUF), None)
    if media_type is None:
        raise negotiation.not_acceptable(f"{negotiation.JSON}, {V2_MEDIA_TYPE}")
    with_gated = bool(_gated(added))
    if media_type in _V2_PROTOBUF:
        body, tag = _v2_protobuf(_custom(added), with_gated=with_gated)
        content_type = V2_MEDIA_TYPE
    else:
        body, tag = _v2_json(_custom(added), with_gated=with_gated)
        content_type = negotiation.JSON
    return _respond_unless_cached(
        body, tag, headers, {"content-type": content_type, "vary": "Accept"}
    )


@lru_cache(maxsize=1)
def _v2_protobuf(custom: tuple[Resource, ...], *, with_gated: bool) -> tuple[bytes, str]:
    """Returns the document and its hash.

    A message of protobuf that occurs twice is merged: what follows the first file adds definitions.
    """
    names = ("v2.pb.gz", "v2_gated.pb.gz") if with_gated else ("v2.pb.gz",)
    body = b"".join(gzip.decompress(_read(name)) for name in names)
    if custom:
        body += definitions_field(dict(map(custom_definition, custom)))
    return body, hashlib.sha512(body).hexdigest().upper()


@lru_cache(maxsize=1)
def _v2_json(custom: tuple[Resource, ...], *, with_gated: bool) -> tuple[bytes, str]:
    names = [f"v2{part}.definitions.gz" for part in (("", "_gated") if with_gated else ("",))]
    types: dict[str, msgspec.Raw] = {}
    for name in names:
        types |= msgspec.json.decode(gzip.decompress(_read(name)), type=dict[str, msgspec.Raw])
    document = {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "v1.36.3"},
        "paths": {},
        "definitions": {**types, **dict(map(custom_definition, custom))},
    }
    body = msgspec.json.encode(document)
    return body, hashlib.sha512(body).hexdigest().upper()


def _respond_unless_cached(
    body: bytes, tag: str, headers: Mapping[str, str], extra_headers: Mapping[str, str]
) -> HttpResponse:
    response_headers = {"content-type": negotiation.JSON, "etag": f'"{tag}"', **extra_headers}
    if headers.get("if-none-match") == f'"{tag}"':
        return HttpResponse(304, response_headers, b"")
    return HttpResponse(200, response_headers, body)


@lru_cache(maxsize=1)
def hashes() -> Mapping[str, str]:
    """Returns the hash of each document, such as "api/v1" and "apis/apps/v1"."""
    index: dict[str, str] = msgspec.json.decode(_read("index.json"))
    return MappingProxyType(index)


@lru_cache(maxsize=_CACHE_SIZE)
def document(name: str) -> bytes:
    """Returns one document as JSON.

    Raises:
        KeyError: There is none with this name.
    """
    if name not in hashes():
        raise KeyError(name)
    return gzip.decompress(_read(f"{name.replace('/', '__')}.json.gz"))


def _index_document(added: tuple[Resource, ...]) -> bytes:
    tags = _served_hashes(added)
    for name in sorted({document_name(resource) for resource in _custom(added)}):
        tags[name] = _body_and_hash(name, added)[1]
    paths = {name: {"serverRelativeURL": _url(name, tag)} for name, tag in tags.items()}
    return msgspec.json.encode({"paths": paths})


def _url(name: str, tag: str) -> str:
    return f"{ROOT}/{name}?hash={tag}"


def _read(name: str) -> bytes:
    return files("mooring").joinpath("apiserver/data/openapi", name).read_bytes()
