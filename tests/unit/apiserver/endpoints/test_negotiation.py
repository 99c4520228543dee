"""Accept headers: what kubectl, client-go and browsers send, and what they get."""

from __future__ import annotations

import pytest

from mooring.apiserver.endpoints.negotiation import AGGREGATED, TABLES, clauses, requested_shape
from mooring.apiserver.errors import ApiStatusError

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
KUBECTL_GET = f"{TABLE},{TABLE.replace('v=v1;', 'v=v1beta1;')},application/json"


@pytest.mark.parametrize(
    ("header", "shape"),
    [
        ("", None),
        ("  ", None),
        ("*/*", None),
        ("application/*", None),
        ("application/json, */*", None),
        (KUBECTL_GET, ("meta.k8s.io", "v1", "Table")),
        # describe, for clients that read protobuf.
        ("application/vnd.kubernetes.protobuf,application/json", None),
        # Sorted by weight, not by position.
        (f"application/json;q=0.5,{TABLE};q=0.9", ("meta.k8s.io", "v1", "Table")),
        (f"{TABLE};q=0.1,application/json", None),
        (f"{TABLE};q=0,application/json", None),
        ("application/json;q=0", None),
        # A shape that is not made here is passed over.
        ("application/json;as=Chart;v=v1;g=x, application/json", None),
        ('application/json;as="Table";v="v1";g="meta.k8s.io"', ("meta.k8s.io", "v1", "Table")),
        ("APPLICATION/JSON", None),
        ("application/json;q=nonsense", None),
        (",,application/json", None),
    ],
)
def test_the_first_possible_wish_is_granted(
    header: str, shape: tuple[str, str, str] | None
) -> None:
    assert requested_shape(header, TABLES) == shape


@pytest.mark.parametrize(
    "header", ["text/html", "application/vnd.kubernetes.protobuf", TABLE, "text/html;q=0"]
)
def test_who_takes_nothing_that_is_made_here_is_refused(header: str) -> None:
    with pytest.raises(ApiStatusError) as error:
        requested_shape(header, AGGREGATED)

    assert error.value.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "only the following media types are accepted: application/json",
        "reason": "NotAcceptable",
        "code": 406,
    }


def test_equal_wishes_stay_in_the_clients_order() -> None:
    items = [clause.media_type for clause in clauses("a/b, c/d;q=0.2, e/f;q=1.0, g/h;q=0.2")]

    assert items == ["a/b", "e/f", "c/d", "g/h"]


def test_a_header_of_nothing_but_clauses_is_cut() -> None:
    assert len(clauses(",".join(["a/b"] * 5000))) == 32
