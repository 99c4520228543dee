"""The Accept header."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mooring.serving.negotiation import CLAUSES_MAX, JSON, PLAIN, YAML, Choice, choose

TYPES = (JSON, YAML, PLAIN)


def everything(_media_type: str, _parameters: Mapping[str, str]) -> bool:
    return True


@pytest.mark.parametrize(
    ("header", "chosen"),
    [
        ("", JSON),
        ("*/*", JSON),
        ("*", JSON),
        ("text/*", PLAIN),
        ("application/yaml", YAML),
        ("application/yaml;q=0.5, text/plain", PLAIN),
        ("application/xml", None),
        ("application", None),
        ("application/", None),
        ("application/json/x", None),
        (" text/plain ; a = b ", PLAIN),
        ("*/*, text/plain", PLAIN),
        ("text/plain;q=x, application/yaml", YAML),
    ],
)
def test_the_first_acceptable_type(header: str, chosen: str | None) -> None:
    choice = choose(header, TYPES, everything)
    assert (choice.media_type if choice else None) == chosen


def test_the_parameters_of_the_alternative_come_along() -> None:
    choice = choose("application/json;as=A;q=1;bad;also=;v=b=c", TYPES, everything)
    assert choice == Choice(JSON, {"as": "A"})


def test_a_type_that_is_not_allowed_is_skipped() -> None:
    def only_plain(media_type: str, parameters: Mapping[str, str]) -> bool:
        return media_type == PLAIN and not parameters

    choice = choose("text/plain;as=A, application/json, text/plain", TYPES, only_plain)
    assert choice == Choice(PLAIN, {})


def test_a_header_with_too_many_alternatives_is_cut() -> None:
    header = ",".join(["a/b"] * CLAUSES_MAX + ["text/plain"])
    assert choose(header, TYPES, everything) is None
