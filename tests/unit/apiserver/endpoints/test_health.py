"""Health of the server, as k8s.io/apiserver pkg/server/healthz writes it."""

from __future__ import annotations

import pytest

from mooring.apiserver.endpoints.health import health_of


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz/etcd", "/livez/ping"])
def test_health_is_one_word_of_text(path: str) -> None:
    assert health_of(path, []) == b"ok"


@pytest.mark.parametrize("path", ["/readyz/", "/readyz/none", "/readyz/etcd/", "/healthy", "/", ""])
def test_other_paths_have_no_health(path: str) -> None:
    assert health_of(path, []) is None


def test_verbose_lists_the_checks_and_says_which_are_unknown() -> None:
    query = [("verbose", ""), ("exclude", "z"), ("exclude", "etcd"), ("exclude", "a")]

    assert health_of("/readyz", query) == (
        b"[+]ping ok\n[+]log ok\n[+]etcd excluded: ok\n"
        b'warn: some health checks cannot be excluded: no matches for "a", "z"\n'
        b"readyz check passed\n"
    )
