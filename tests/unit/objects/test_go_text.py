"""Text as Go writes it."""

from __future__ import annotations

import errno

import pytest

from mooring.objects.go_text import error_text, go_json, go_quote, valid_unicode


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("", '""'),
        ("/metrics", '"/metrics"'),
        ('a"b\\', r'"a\"b\\"'),
        ("\n\t\x00\x7f", r'"\n\t\x00\x7f"'),
        ("é世", '"é世"'),
        ("\u200b\U000e0001", r'"\u200b\U000e0001"'),
        (b"\xff".decode("utf-8", "surrogateescape"), r'"\xff"'),
    ],
)
def test_quote(text: str, quoted: str) -> None:
    assert go_quote(text) == quoted


def test_json_is_safe_in_html_and_keeps_the_order() -> None:
    assert go_json({"b": "<&>\u2028", "a": 1}) == r'{"b":"\u003c\u0026\u003e\u2028","a":1}'
    assert go_json({"a": []}, pretty=True) == '{\n  "a": []\n}'


def test_bytes_that_are_not_utf8_are_replaced() -> None:
    assert valid_unicode(b"/\xffa".decode("utf-8", "surrogateescape")) == "/\ufffda"


def test_errors_have_gos_names() -> None:
    assert error_text(FileNotFoundError(errno.ENOENT, "x")) == "no such file or directory"
    assert error_text(OSError(errno.EADDRINUSE, "x")) == "address already in use"
