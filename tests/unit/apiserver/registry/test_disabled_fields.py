"""Fields whose feature gate is off by default in v1.36.3; the facts are those of its strategies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.helpers.api import Api

_KEY = "csidrivers.storage.k8s.io"
DRIVERS = "/apis/storage.k8s.io/v1/csidrivers"
FIELD = "preventPodSchedulingIfMissing"


def driver(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "d"}, "spec": {"attachRequired": True, **spec}}


@pytest.mark.parametrize("value", [True, False])
def test_a_driver_is_stored_without_the_field_of_volume_limit_scaling(value: bool) -> None:
    api = Api()

    created = api.post(DRIVERS, driver(**{FIELD: value}))
    patched = api.patch(f"{DRIVERS}/d", {"spec": {FIELD: value, "seLinuxMount": True}})

    assert FIELD not in created["spec"]
    assert FIELD not in patched["spec"]
    assert patched["spec"]["seLinuxMount"] is True
    assert patched["metadata"]["generation"] == 1


def test_a_driver_that_has_the_field_keeps_it() -> None:
    api = Api()
    stored = api.post(DRIVERS, driver())
    stored["spec"][FIELD] = True  # by a server with the feature gate
    version = api.version
    state = {"format": "mooring-apiserver-1", "version": version, "objects": {_KEY: [stored]}}
    api.server.load(json.dumps(state).encode())

    patched = api.patch(f"{DRIVERS}/d", {"spec": {FIELD: False}})

    assert patched["spec"][FIELD] is False
