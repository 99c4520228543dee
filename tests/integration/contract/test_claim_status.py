"""Asks a real kube-apiserver what a scheduler may change in the status of a claim."""

from __future__ import annotations

import ssl

from mooring.testing.controlplane import Access
from tests.integration.contract.api import Api
from tests.unit.apiserver.auth.test_claim_status import ALLOCATED, DEVICES_TEXT, REPORTED, RESERVED

SCHEDULER = "system:kube-scheduler"


def test_a_scheduler_may_allocate_but_not_report_for_a_driver(
    plane: Access, real: Api, namespace: str
) -> None:
    context = ssl.create_default_context(cafile=str(plane.authority))
    pair = plane.certificate(SCHEDULER)
    context.load_cert_chain(pair.certificate, pair.key)
    scheduler = Api(plane.url, context)
    claims = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
    stored = real.post(claims, {**claim, "metadata": {"name": "mine"}, "spec": spec}).body

    allocated = scheduler.put(f"{claims}/mine/status", {**stored, "status": RESERVED})
    assert allocated.code == 200, allocated.body
    refused = scheduler.put(f"{claims}/mine/status", {**allocated.body, "status": REPORTED})

    assert refused.code == 422
    text = DEVICES_TEXT.replace("USER", SCHEDULER).replace('"default"', f'"{namespace}"')
    assert text in refused.body["message"]
    again = {**allocated.body, "status": ALLOCATED}
    assert scheduler.put(f"{claims}/mine/status", again).code == 200
    assert (
        scheduler.put(
            f"{claims}/mine/status", {**again, "metadata": {"name": "mine"}, "status": {}}
        ).code
        == 200
    )
