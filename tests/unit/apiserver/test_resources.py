"""Authorization and routing must parse a path alike."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from mooring.apiserver.auth.authentication import ANONYMOUS, IDENTITIES
from mooring.apiserver.auth.authorization import attributes_of
from mooring.apiserver.resources import resource_at
from mooring.apiserver.server import ApiServer
from mooring.clock import VirtualClock, seeded_random

AUTHORIZER = ApiServer(VirtualClock(), seeded_random(0)).authorizer
WORDS = ("", "api", "apis", "v1", "apps", "secrets", "pods", "namespaces", "a", "status", "binding")
PATHS = st.lists(st.sampled_from(WORDS), max_size=9).map(lambda parts: "/" + "/".join(parts))


@given(PATHS)
@example("/apis//v1/secrets")
@example("//api/v1/secrets")
@example("/api/v1/namespaces/a/secrets/")
def test_what_is_answered_is_what_was_allowed(path: str) -> None:
    result = resource_at(path)
    if result is None:
        return
    attributes = attributes_of("GET", path, [])
    assert (attributes.group, attributes.resource) == (result.resource.group, result.resource.name)
    assert attributes.subresource == result.subresource
    if result.resource.namespaced:
        assert attributes.namespace == result.namespace
    assert attributes.name == result.name


@given(PATHS)
@example("/apis//v1/secrets")
def test_nobody_reads_objects(path: str) -> None:
    if resource_at(path) is None:
        return
    for method in ("GET", "POST", "DELETE"):
        attributes = attributes_of(method, path, [])
        assert not AUTHORIZER.is_allowed(IDENTITIES["nobody"], attributes)
        assert not AUTHORIZER.is_allowed(ANONYMOUS, attributes)
