"""Replies that several endpoints give; the formats are compared with the peer elsewhere."""

from __future__ import annotations

import json

from mooring.serving.messages import (
    Reply,
    http_error,
    internal_error,
    not_found,
    status_object,
    status_reply,
)
from tests.helpers.serving import asking

STATUS = status_object(403, "Forbidden", 'User "x" cannot', has_details=True)


def test_errors_end_with_a_newline_and_are_never_sniffed() -> None:
    for reply in (not_found(), http_error("no", 500)):
        assert reply.body.endswith(b"\n")
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
    assert not_found().body == b"404 page not found\n"


def test_an_internal_error_quotes_the_target_and_cannot_be_html() -> None:
    reply = internal_error(asking("/a<b>"), "x & y")
    assert reply.status == 500
    assert reply.body == b'Internal Server Error: "/a&lt;b&gt;": x &amp; y\n'


def test_a_status_is_compact_unless_a_person_reads_it() -> None:
    compact = status_reply(asking(), STATUS)
    assert compact.body.endswith(b'"details":{},"code":403}\n')
    for headers, query in (
        ({"User-Agent": "curl/8"}, []),
        ({}, [("pretty", "true")]),
        ({"Accept": "text/html"}, []),
    ):
        reply = status_reply(asking(headers=headers, query=query), STATUS)
        assert reply.body == json.dumps(STATUS, indent=2).encode()
        assert reply.headers["Content-Type"] == "application/json"
    refused = asking(headers={"User-Agent": "curl/8"}, query=[("pretty", "0")])
    assert status_reply(refused, STATUS).body == compact.body


def test_a_status_can_be_yaml_or_protobuf() -> None:
    yaml = status_reply(asking(headers={"Accept": "application/yaml"}), STATUS)
    assert yaml.body.startswith(b"apiVersion: v1\ncode: 403\ndetails: {}\n")
    accept = {"Accept": "application/vnd.kubernetes.protobuf"}
    assert status_reply(asking(headers=accept), STATUS).body.startswith(b"k8s\x00\n\x0c\n\x02v1")


def test_a_reply_without_a_type_has_none() -> None:
    assert Reply().headers == {}
    assert Reply.text("ok").headers == {"Content-Type": "text/plain; charset=utf-8"}
