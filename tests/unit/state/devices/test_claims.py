"""Claims in their newest versions."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.errors import SchedulerError
from mooring.objects.resource import ResourceClaim
from mooring.state.devices.claims import EXTENDED_RESOURCE_ANNOTATION, ClaimNotFound, Claims
from tests.helpers.devices import make_claim, result_of


class Changes:
    """The changes that a listener got, as resource versions."""

    def __init__(self, claims: Claims) -> None:
        self.versions: list[tuple[str | None, str | None]] = []
        claims.listen(self.note)

    def note(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        self.versions.append((_version(old), _version(new)))


def _version(claim: ResourceClaim | None) -> str | None:
    return None if claim is None else claim.metadata.resource_version


def claim(version: str, **fields: Any) -> ResourceClaim:
    return make_claim("c", resourceVersion=version, **fields)


def test_only_newer_versions_replace_a_claim() -> None:
    claims = Claims()
    changes = Changes(claims)
    for version in ("9", "10", "10", "2", "11"):
        claims.put(claim(version))

    assert changes.versions == [(None, "9"), ("9", "10"), ("10", "11")]
    assert claims.version == 3


def test_versions_from_files_are_always_newer() -> None:
    claims = Claims()
    changes = Changes(claims)
    claims.put(claim(""))
    claims.put(claim(""))

    assert changes.versions == [(None, ""), ("", "")]


def test_an_assumed_version_holds_until_the_api_server_reports_a_newer_one() -> None:
    claims = Claims()
    changes = Changes(claims)
    claims.put(claim("5"))
    claims.assume(claim("7"))
    claims.put(claim("6"))
    assert _version(claims.get("default/c")) == "7"

    claims.restore("default/c")
    assert _version(claims.get("default/c")) == "6"
    claims.restore("default/c")
    claims.put(claim("8"))
    assert changes.versions == [(None, "5"), ("5", "7"), ("7", "6"), ("6", "8")]


def test_an_assumed_version_that_was_reported_is_not_undone() -> None:
    claims = Claims()
    claims.put(claim("5"))
    claims.assume(claim("7"))
    claims.put(claim("7"))

    claims.restore("default/c")

    assert _version(claims.get("default/c")) == "7"


def test_what_cannot_be_assumed() -> None:
    claims = Claims()
    with pytest.raises(ClaimNotFound, match=r'^could not find ResourceClaim "default/c"$'):
        claims.assume(claim("1"))
    claims.put(claim("5"))
    with pytest.raises(SchedulerError) as caught:
        claims.assume(claim("4"))

    assert str(caught.value) == ('ResourceClaim "default/c" is out of sync (stored: 5, assume: 4)')


def test_a_deleted_claim_is_reported_once() -> None:
    claims = Claims()
    changes = Changes(claims)
    claims.put(claim("1"))
    claims.remove("default/c")
    claims.remove("default/c")

    assert changes.versions == [(None, "1"), ("1", None)]
    assert (len(claims), claims.get("default/c")) == (0, None)


def test_the_claim_for_extended_resources_is_found_by_its_pod() -> None:
    claims = Claims()
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u1", "controller": True}
    special = make_claim(
        "web-extended-resources-x",
        annotations={EXTENDED_RESOURCE_ANNOTATION: "true"},
        ownerReferences=[owner],
        allocated=[result_of("d0", "a")],
    )
    claims.put(make_claim("own", ownerReferences=[owner]))
    assert claims.for_extended_resources("web", "u1") is None

    claims.put(special)
    assert claims.for_extended_resources("web", "u1") is special
    assert claims.for_extended_resources("other", "u1") is None
    assert claims.for_extended_resources("web", "u2") is None
    claims.remove("default/web-extended-resources-x")
    assert claims.for_extended_resources("web", "u1") is None
    assert claims.owners() == set()


def special(uid: str, claim_name: str = "special", **more: Any) -> ResourceClaim:
    """Returns a claim for the extended resources of the pod "web"."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": uid, "controller": True}
    metadata = {
        "annotations": {EXTENDED_RESOURCE_ANNOTATION: "true"},
        "ownerReferences": [owner],
        **more,
    }
    return make_claim(claim_name, **metadata)


def test_a_claim_for_extended_resources_follows_a_change_of_its_pod() -> None:
    claims = Claims()
    claims.put(special("u1"))
    other = special("u1", "other")
    claims.put(other)
    assert claims.owners() == {"u1"}
    claims.put(special("u2"))
    assert claims.owners() == {"u1", "u2"}
    assert claims.for_extended_resources("web", "u1") is other

    claims.remove("default/other")
    assert claims.owners() == {"u2"}
    claims.put(make_claim("special"))
    assert claims.owners() == set()


@pytest.mark.parametrize("annotation", ["false", None])
def test_only_claims_with_the_annotation_are_for_extended_resources(annotation: str | None) -> None:
    claims = Claims()
    annotations = {} if annotation is None else {EXTENDED_RESOURCE_ANNOTATION: annotation}
    claims.put(special("u1", annotations=annotations))

    assert claims.owners() == set()
    assert claims.for_extended_resources("web", "u1") is None


def test_an_owner_that_does_not_control_the_claim_is_not_its_pod() -> None:
    claims = Claims()
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u1"}
    claims.put(special("u1", ownerReferences=[owner]))

    assert claims.owners() == set()
    assert claims.for_extended_resources("web", "u1") is None


def test_a_version_between_the_reported_and_the_assumed_one_is_what_restore_returns_to() -> None:
    claims = Claims()
    changes = Changes(claims)
    claims.put(claim("5"))
    written = claim("9")
    claims.assume(written)
    claims.assume(written)  # the same object: no change
    for version in ("7", "6", "7"):
        claims.put(claim(version))
    assert changes.versions == [(None, "5"), ("5", "9")]

    claims.restore("default/c")
    claims.restore("default/unknown")
    assert changes.versions == [(None, "5"), ("5", "9"), ("9", "7")]


def test_an_equal_version_may_be_assumed_and_a_version_of_a_file_always() -> None:
    claims = Claims()
    claims.put(claim("5"))
    claims.assume(claim("5"))
    claims.assume(claim(""))
    assert _version(claims.get("default/c")) == ""
    claims.assume(claim("1"))
    assert _version(claims.get("default/c")) == "1"
    assert [entry.metadata.resource_version for entry in claims.all()] == ["1"]


@pytest.mark.parametrize(("before", "after"), [("5", ""), ("", "5"), ("x", "1"), ("9", "x")])
def test_a_version_that_is_no_number_is_newer_and_older_than_any(before: str, after: str) -> None:
    claims = Claims()
    for version in (before, after, before):
        claims.put(claim(version))

        assert _version(claims.get("default/c")) == version
    assert claims.version == 3
