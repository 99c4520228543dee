"""One truth: an object of a file gets the spec that the embedded API server would store.

Given are all objects that the contract suite gets accepted, with the cluster that they met. That
kube-apiserver stores the same is tested where both servers run, in integration/contract.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.apiserver.server import ApiServer
from mooring.clock import VirtualClock, seeded_random
from mooring.objects.codec.decode import convert
from mooring.objects.files.reader import read_objects
from tests.helpers.contract_objects import NAMES, accepted_objects, as_in_a_file
from tests.unit.apiserver.test_contract import LocalApi

CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def without_identity(obj: Any) -> dict[str, Any]:
    """Returns the struct's fields without status and metadata, which differ for files."""
    found: dict[str, Any] = without_times(msgspec.to_builtins(obj))
    found.pop("status", None)
    labels = found.pop("metadata").get("labels")
    return {**found, "labels": labels}


def without_times(value: Any) -> Any:
    """Returns a value without the times of taints, which a server sets when it stores them."""
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key != "timeAdded"}
    return [without_times(item) for item in value] if isinstance(value, list | tuple) else value


#: Limit ranges are not applied to files: their pods have passed the admission of their cluster.
WITH_LIMIT_RANGES = {"quotas-a_limit_range_sets_defaults"}
#: A file may be of a cluster with the feature gate, which its scheduler may have, too.
WITH_GATED_FIELDS = {"customs-a_driver_is_stored_without_fields_of_disabled_gates"}


@pytest.mark.parametrize(
    "name", [name for name in NAMES if name not in WITH_LIMIT_RANGES | WITH_GATED_FIELDS]
)
def test_files_are_read_as_the_server_stores_them(name: str, tmp_path: Path) -> None:
    for number, case in enumerate(accepted_objects(name)):
        written = as_in_a_file(case)
        same = (written["kind"], written["metadata"]["name"])
        others = [
            each for each in case.surroundings if (each["kind"], each["metadata"]["name"]) != same
        ]
        path = tmp_path / f"{number}.json"
        path.write_text(
            json.dumps({"apiVersion": "v1", "kind": "List", "items": [*others, written]})
        )

        found = read_objects([path])[-1]

        expected = convert(case.stored, case.stored["kind"])
        assert without_identity(found) == without_identity(expected)


@pytest.mark.parametrize(
    "spec",
    [
        {"terminationGracePeriodSeconds": -5},
        {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM}}}]},
        {"tolerations": [{"operator": "Exists"}]},
        {"resources": {"limits": {"cpu": "1.5", "memory": "1024Mi"}}},
    ],
)
def test_odd_pods_are_read_as_the_server_stores_them(spec: dict[str, Any], tmp_path: Path) -> None:
    container = {"name": "c", "image": "x", "resources": {"limits": {"cpu": "0.5"}}}
    written = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [container], **spec},
    }
    path = tmp_path / "pod.json"
    path.write_text(json.dumps(written))
    with asyncio.Runner() as runner:
        api = LocalApi(ApiServer(VirtualClock(), seeded_random(0)), runner.get_loop())
        answer = api.post("/api/v1/namespaces/default/pods", written)
    assert answer.code == 201

    (found,) = read_objects([path])

    assert without_identity(found) == without_identity(convert(answer.body, "Pod"))


def test_the_suite_has_enough_objects_to_say_something() -> None:
    kinds = [case.stored["kind"] for name in NAMES for case in accepted_objects(name)]
    assert kinds.count("Pod") >= 100
    assert len(set(kinds)) > 8
