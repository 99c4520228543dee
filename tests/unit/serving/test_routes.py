"""Routes: the handler that answers a path."""

from __future__ import annotations

import asyncio
import gzip
from typing import Any

from mooring.clock import VirtualClock, seeded_random
from mooring.serving.health import HealthChecks
from mooring.serving.messages import Reply
from mooring.serving.routes import Debugging, Endpoints, MetricsRoutes, Router
from mooring.serving.zpages import Versions
from tests.helpers.serving import asking

resets: list[str] = []
METRICS = MetricsRoutes(
    metrics=lambda _: (b"a 1\n" * 100, "text/plain; version=0.0.4"),
    slis=lambda _: (b"b 1\n", "text/plain; version=0.0.4"),
    resources=lambda _: (b"", ""),
    reset=lambda: resets.append("metrics"),
    reset_slis=lambda: resets.append("slis"),
)


def router(**more: Any) -> Router:
    fields: dict[str, Any] = {"flags": {"v": "0"}, "versions": Versions("p", "1"), **more}
    endpoints = Endpoints(METRICS, lambda: {"kind": "K"}, **fields)
    return Router(endpoints, HealthChecks(), clock=VirtualClock(), rng=seeded_random(1))


def get(subject: Router, path: str, method: str = "GET", **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return asyncio.run(subject.reply(asking(path, method=method, headers=named)))


def test_paths_are_exact() -> None:
    subject = router()
    for path in ("/healthz", "/livez", "/readyz", "/metrics", "/configz", "/flagz", "/statusz"):
        assert get(subject, path).status == 200
        assert get(subject, f"{path}/").status == 404
    assert get(subject, "/").status == 404


def test_pages_that_are_off_are_not_found() -> None:
    subject = router(flags=None, versions=None)
    for path in ("/flagz", "/statusz", "/debug/pprof/", "/debug/flags/v"):
        assert get(subject, path).status == 404


def test_debugging_matches_by_prefix() -> None:
    subject = router(debugging=Debugging(lambda _: None))
    assert get(subject, "/debug/pprof/heap").status == 200
    assert get(subject, "/debug/flags/anything").status == 200
    assert get(subject, "/debug/flags/v").status == 406
    assert get(subject, "/debug").status == 404


def test_metrics_are_compressed_on_request() -> None:
    plain = get(router(), "/metrics")
    packed = get(router(), "/metrics", Accept_Encoding="gzip, deflate")
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert plain.headers == {"Content-Type": "text/plain; version=0.0.4"}


def test_a_standby_has_an_empty_page_of_resources() -> None:
    assert get(router(), "/metrics/resources") == Reply(200, b"", {})


def test_delete_resets_each_registry() -> None:
    resets.clear()
    for path in ("/metrics", "/metrics/slis", "/metrics/resources"):
        assert get(router(), path, "DELETE").body == b"metrics reset\n"
    assert resets == ["metrics", "slis"]
