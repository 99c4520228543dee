"""Delegates by the options: warnings, errors and tolerance."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from mooring.clock import VirtualClock, seeded_random
from mooring.errors import ConfigError
from mooring.serving.delegates import Delegates, delegated_transport
from mooring.serving.observer import ServingObserver
from mooring.serving.options import ServingOptions
from tests.helpers.certificates import authority
from tests.helpers.serving import CannedTransport, status

FORBIDDEN = status(403, 'configmaps "extension-apiserver-authentication" is forbidden', "Forbidden")


def delegates(transport: CannedTransport | None = None, **options: Any) -> Delegates:
    return Delegates(
        ServingOptions(**options),
        authentication=transport,
        authorization=transport,
        clock=VirtualClock(),
        rng=seeded_random(1),
        observer=ServingObserver(),
    )


def test_without_clients_there_are_three_warnings(caplog: pytest.LogCaptureFixture) -> None:
    assert delegates().cluster is None
    first, second, third = caplog.messages
    assert first == (
        "No authentication-kubeconfig provided in order to lookup client-ca-file in "
        "configmap/extension-apiserver-authentication in kube-system, "
        "so client certificate authentication won't work."
    )
    assert "lookup requestheader-client-ca-file in" in second
    assert third == (
        "No authorization-kubeconfig provided, "
        "so SubjectAccessReview of authorization tokens won't work."
    )


def test_skipped_lookups_are_silent(caplog: pytest.LogCaptureFixture) -> None:
    subject = delegates(CannedTransport(FORBIDDEN), authentication_skip_lookup=True)
    asyncio.run(subject.look_up())
    assert subject.cluster is None
    assert caplog.messages == []


def test_with_both_files_the_cluster_is_not_asked(tmp_path: Path) -> None:
    path = tmp_path / "ca.crt"
    path.write_bytes(authority().pem)
    files = {"client_ca_file": str(path), "requestheader_client_ca_file": str(path)}
    assert delegates(CannedTransport(FORBIDDEN), **files).cluster is None


def test_a_failed_lookup_is_tolerated_with_four_warnings(caplog: pytest.LogCaptureFixture) -> None:
    asyncio.run(delegates(CannedTransport(FORBIDDEN)).look_up())
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 4
    assert caplog.messages[1].startswith(
        "Error looking up in-cluster authentication configuration: configmaps "
    )


def test_or_not() -> None:
    subject = delegates(CannedTransport(FORBIDDEN), authentication_tolerate_lookup_failure=False)
    text = "^unable to load configmap based request-header-client-ca-file: configmaps "
    with pytest.raises(ConfigError, match=text):
        asyncio.run(subject.look_up())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"client_ca_file": "/no"},
            "^unable to load client CA provider: open /no: no such file or directory$",
        ),
        (
            {"requestheader_client_ca_file": "/no"},
            "^unable to create request header authentication config: open /no: ",
        ),
        ({"always_allow_paths": ("/a*b",)}, r'^only trailing \* allowed in "a\*b"$'),
    ],
)
def test_errors_have_upstreams_texts(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        delegates(**options)


def test_a_kubeconfig_that_is_missing() -> None:
    text = "^(failed to get delegated authentication kubeconfig: ){2}stat /no: no such file "
    with pytest.raises(ConfigError, match=text):
        delegated_transport("/no", "authentication", clock=VirtualClock(), environment={})


def test_outside_of_a_pod_there_is_no_client() -> None:
    assert delegated_transport("", "authorization", clock=VirtualClock(), environment={}) is None
