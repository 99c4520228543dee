"""JSON paths of printer columns.

Source: the cases of k8s.io/client-go v0.36.3, util/jsonpath/jsonpath_test.go.
"""

from __future__ import annotations

from typing import Any

import pytest

from mooring.apiserver.custom.jsonpath import JsonPathError, evaluate, parse

STORE: dict[str, Any] = {
    "Name": "jsonpath",
    "Book": [
        {"Category": "reference", "Author": "Nigel Rees", "Price": 8.95},
        {"Category": "fiction", "Author": "Evelyn Waugh", "Price": 12.99},
    ],
    "Bicycle": [
        {"Color": "red", "Price": 19.95, "IsNew": True},
        {"Color": "green", "Price": 20.01, "IsNew": False},
    ],
    "Labels": {"engieer": 10, "web/html": 15, "k8s-app": 20},
    "Employees": {"jason": "manager", "dan": "clerk"},
    "None": None,
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".Name", ["jsonpath"]),
        (".absent", []),
        (".None", [None]),
        (".None.more", []),
        (".Book[0].Author", ["Nigel Rees"]),
        (".Book[-1].Author", ["Evelyn Waugh"]),
        (".Book[*].Author", ["Nigel Rees", "Evelyn Waugh"]),
        (".Book[0:2].Price", [8.95, 12.99]),
        (".Book[0:2:2].Price", [8.95]),
        (".Book[1:1].Price", []),
        (".Bicycle[0,1].Color", ["red", "green"]),
        (".Bicycle.*.Color", ["red", "green"]),
        (".Employees.*", ["manager", "clerk"]),
        ("..Price", [8.95, 12.99, 19.95, 20.01]),
        (".Labels.web/html", [15]),
        (".Labels['k8s-app']", [20]),
        (".Bicycle[?(@.IsNew==true)].Color", ["red"]),
        (".Bicycle[?(@.IsNew!=true)].Color", ["green"]),
        (".Bicycle[?(@.Price > 20.0)].Color", ["green"]),
        (".Bicycle[?(@.Price<=19.95)].Color", ["red"]),
        ('.Book[?(@.Category=="fiction")].Author', ["Evelyn Waugh"]),
        (".Book[?(@.Category=='a)b')].Author", []),
        (".Book[?(@.Author)].Price", [8.95, 12.99]),
        (".Book[?(@.absent)].Price", []),
        (".", []),
    ],
)
def test_values_at_a_path(path: str, expected: list[Any]) -> None:
    assert evaluate(parse(path), STORE) == expected


@pytest.mark.parametrize(
    "path",
    [
        ".Book[abc]",
        ".Book[0",
        ".Book[?(@.Price",
        ".Book[?(@.Price)x",
        "....Name",
        ".Book[?(@.Price==1.2.3)]",
        '.Book[?(@.Author=="x)]',
        ".Name,#",
    ],
)
def test_paths_that_cannot_be_read(path: str) -> None:
    with pytest.raises(JsonPathError):
        parse(path)


@pytest.mark.parametrize(
    "path",
    [
        ".Book[7]",
        ".Book[-7]",
        ".Book[1:0].Price",
        ".Name[0]",
        ".Name[?(@.x==1)]",
        ".Book[?(@.Price=='x')]",
        ".Bicycle[?(@.IsNew<true)]",
        ".Book[?(@.Price=~1)]",
        ".Book[0]['Price']range",
    ],
)
def test_paths_that_do_not_apply(path: str) -> None:
    with pytest.raises(JsonPathError):
        evaluate(parse(path), STORE)
