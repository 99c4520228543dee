"""Changes of a claim's status need rights of their own; the texts are kube-apiserver's.

``tests/integration/contract/test_claim_status.py`` asks a real one the same.
"""

from __future__ import annotations

from typing import Any

import pytest

from mooring.apiserver.auth.authentication import ADMIN, IDENTITIES, USER_HEADER, UserInfo
from mooring.apiserver.auth.claim_status import claim_status_errors
from tests.helpers.api import Api

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
SCHEDULER = IDENTITIES["system:kube-scheduler"]
RESULT = {"request": "gpu", "driver": "gpu.example.com", "pool": "n", "device": "gpu-0"}
ALLOCATED = {"allocation": {"devices": {"results": [RESULT]}}}
RESERVED = {**ALLOCATED, "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}
REPORTED = {
    **ALLOCATED,
    "devices": [{key: RESULT[key] for key in ("driver", "pool", "device")}],
}
BINDING_TEXT = (
    "Forbidden: changing status.allocation or status.reservedFor requires "
    'resource="resourceclaims/binding", verb="update" permission: resourceclaims.resource.k8s.io '
    'is forbidden: User "nobody" cannot update resource "resourceclaims/binding" in API group '
    '"resource.k8s.io" at the cluster scope'
)
DEVICES_TEXT = (
    'Forbidden: changing status.devices requires resource="resourceclaims/driver", '
    'verb="[arbitrary-node:update]" permission: resourceclaims.resource.k8s.io '
    '"gpu.example.com" is forbidden: User "USER" cannot arbitrary-node:update resource '
    '"resourceclaims/driver" in API group "resource.k8s.io" in the namespace "default"'
)


AUTHORIZER = Api().server.authorizer


@pytest.mark.parametrize(
    ("identity", "before", "after", "expected"),
    [
        (ADMIN, {}, REPORTED, []),
        (SCHEDULER, {}, RESERVED, []),
        (SCHEDULER, RESERVED, {}, []),
        (SCHEDULER, ALLOCATED, REPORTED, [("status.devices", DEVICES_TEXT)]),
        (SCHEDULER, REPORTED, REPORTED, []),
        # The statuses of a deallocated claim are dropped by the server.
        (SCHEDULER, REPORTED, {}, []),
        (IDENTITIES["nobody"], {}, {}, []),
        (IDENTITIES["nobody"], ALLOCATED, RESERVED, [("status.allocation", BINDING_TEXT)]),
        (
            IDENTITIES["nobody"],
            {},
            REPORTED,
            [("status.allocation", BINDING_TEXT), ("status.devices", DEVICES_TEXT)],
        ),
    ],
)
def test_each_part_of_the_status_needs_a_right(
    identity: UserInfo, before: Any, after: Any, expected: list[tuple[str, str]]
) -> None:
    new, old = {"status": after}, {"status": before}
    errors = claim_status_errors(AUTHORIZER, identity, "update", "default", new, old)
    assert [(error.field, error.body) for error in errors] == [
        (field, text.replace("USER", identity.user)) for field, text in expected
    ]


def test_the_server_asks_for_the_right() -> None:
    api = Api()
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
    stored = api.post(CLAIMS, {**claim, "metadata": {"name": "mine"}, "spec": spec})
    as_scheduler = {USER_HEADER: SCHEDULER.user}

    status, allocated = api.ask(
        "PUT", f"{CLAIMS}/mine/status", {**stored, "status": ALLOCATED}, **as_scheduler
    )
    assert status == 200
    status, refused = api.ask(
        "PUT", f"{CLAIMS}/mine/status", {**allocated, "status": REPORTED}, **as_scheduler
    )
    assert status == 422
    assert DEVICES_TEXT.replace("USER", SCHEDULER.user) in refused["message"]
