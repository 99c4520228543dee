"""Who decides what a client may do and who answers must read a path alike."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from mooring.apiserver.auth.authentication import ANONYMOUS, IDENTITIES
from mooring.apiserver.auth.authorization import attributes_of, is_allowed
from mooring.apiserver.resources import resource_at

WORDS = ("", "api", "apis", "v1", "apps", "secrets", "pods", "namespaces", "a", "status", "binding")
PATHS = st.lists(st.sampled_from(WORDS), max_size=9).map(lambda parts: "/" + "/".join(parts))


@given(PATHS)
@example("/apis//v1/secrets")
@example("//api/v1/secrets")
@example("/api/v1/namespaces/a/secrets/")
def test_what_is_answered_is_what_was_allowed(path: str) -> None:
    found = resource_at(path)
    if found is None:
        return
    wanted = attributes_of("GET", path, [])
    assert (wanted.group, wanted.resource) == (found.resource.group, found.resource.name)
    assert wanted.subresource == found.subresource
    if found.resource.namespaced:
        assert wanted.namespace == found.namespace
    assert wanted.name == found.name


@given(PATHS)
@example("/apis//v1/secrets")
def test_nobody_reads_objects(path: str) -> None:
    if resource_at(path) is None:
        return
    for method in ("GET", "POST", "DELETE"):
        wanted = attributes_of(method, path, [])
        assert not is_allowed(IDENTITIES["nobody"], wanted)
        assert not is_allowed(ANONYMOUS, wanted)
