"""Requests for certificates: who asks, who approves and signs them, and what they may become."""

from __future__ import annotations

import base64
from typing import Any

from tests.integration.contract.api import APPLY, Api
from tests.integration.contract.scenario import scenario
from tests.integration.contract.scenarios_roles import binding, bindings, role, roles, rule, user

_GROUP = "certificates.k8s.io"
_REQUESTS = f"/apis/{_GROUP}/v1/certificatesigningrequests"
_SIGNER = "kubernetes.io/kube-apiserver-client"
_OF_JOE = """\
-----BEGIN CERTIFICATE REQUEST-----
MIHXMH8CAQAwHTENMAsGA1UECgwEZGV2czEMMAoGA1UEAwwDam9lMFkwEwYHKoZI
zj0CAQYIKoZIzj0DAQcDQgAE/T9iQGZ98zReGLYR7HoliM2nuMbYAwdFFAXx2Czd
09Xu1DMRHkAMQjIeMUtUXjarwnhk3Kv2oNE13NGNDHprQaAAMAoGCCqGSM49BAMC
A0gAMEUCID8nu/DvZZQOPXantebUaqM15mBbtzEqIkS97kG02mOAAiEAogJszzNE
GaQM2q0SF/dcCRMaV7l9dAXYTCpxZ3dEp4o=
-----END CERTIFICATE REQUEST-----
"""
_OF_A_MASTER = """\
-----BEGIN CERTIFICATE REQUEST-----
MIHiMIGJAgEAMCcxFzAVBgNVBAoMDnN5c3RlbTptYXN0ZXJzMQwwCgYDVQQDDANl
dmUwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARgGweO/CuitmXluV63dxWOpHsL
+iDiFpGIA8x3O8G6lW7TYM8sizlx+2PDrIRyIGaEMmFj9dqo5eCR6Q+U79KqoAAw
CgYIKoZIzj0EAwIDSAAwRQIhAI9ci/q4SjvRtuuESeo5QDRWs+ZjnmX01hcDHsFp
7bm9AiAR/ifhLXNpBlVCrSNmjFRLGSa42twkgSMhQFznvja5UQ==
-----END CERTIFICATE REQUEST-----
"""
_CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBcjCCARegAwIBAgIUaHF6rClmDmXvAFhv3oX0Acgjs7swCgYIKoZIzj0EAwIw
DjEMMAoGA1UEAwwDam9lMB4XDTI2MTEzMDA0NDgzNFoXDTM2MTEyNzA0NDgzNFow
DjEMMAoGA1UEAwwDam9lMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEYBsHjvwr
orZl5blet3cVjqR7C/og4haRiAPMdzvBupVu02DPLIs5cftjw6yEciBmhDJhY/Xa
qOXgkekPlO/SqqNTMFEwHQYDVR0OBBYEFI1Yh0vZUtPTnrzODi6vyXQorWQ2MB8G
A1UdIwQYMBaAFI1Yh0vZUtPTnrzODi6vyXQorWQ2MA8GA1UdEwEB/wQFMAMBAf8w
CgYIKoZIzj0EAwIDSQAwRgIhAMMp11LvMPIJsvLIeuDvy5ZxOsQvxmqOGO3xq3FY
KNUAAiEA7yY/1bfh4G0nPa04bYld/NNu3WdCHVhUJFvYSclNSKc=
-----END CERTIFICATE-----
"""


def encoded(text: str) -> str:
    """Returns text as the value of a field of bytes."""
    return base64.b64encode(text.encode()).decode()


def request(name: str, pem: str = _OF_JOE, **spec: Any) -> dict[str, Any]:
    """Returns a request for a certificate."""
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "request": encoded(pem),
            "signerName": "example.com/signer",
            "usages": ["client auth"],
            **spec,
        },
    }


def condition(kind: str, **more: Any) -> dict[str, Any]:
    """Returns a condition of a request."""
    return {"type": kind, "status": "True", "reason": "Because", "message": "so", **more}


def conditions(*items: dict[str, Any]) -> dict[str, Any]:
    """Returns a patch of the conditions."""
    return {"status": {"conditions": list(items)}}


def certificate(text: str) -> dict[str, Any]:
    """Returns a patch of the certificate."""
    return {"status": {"certificate": encoded(text)}}


def path_of(name: str, subresource: str) -> str:
    """Returns the path of a subresource."""
    return f"{_REQUESTS}/{name}/{subresource}"


def _requester(api: Api) -> Api:
    """Returns a client whose identity is the same on both servers."""
    return api.acting_as("jane", "system:masters")


@scenario
def the_requester_of_a_certificate_is_the_client(api: Api, ns: str) -> None:
    allowed = rule("create get update patch", "certificatesigningrequests", _GROUP)
    api.post(roles(""), role(f"{ns}-ask", allowed, kind="ClusterRole"))
    bound = binding(
        f"{ns}-ask", f"{ns}-ask", user(f"{ns}-joe"), of="ClusterRole", kind="ClusterRoleBinding"
    )
    assert api.post(bindings(""), bound).code == 201
    joe = api.acting_as(f"{ns}-joe", "devs")
    forged: dict[str, Any] = {
        "username": "root",
        "groups": ["system:masters"],
        "uid": "u",
        "extra": {"a": ["b"]},
    }
    name = f"{ns}-forged"
    found = joe.eventually(lambda: joe.post(_REQUESTS, request(name, **forged)), 201)
    assert found.body["spec"]["username"] == f"{ns}-joe"
    assert found.body["spec"]["groups"] == ["devs", "system:authenticated"]
    changed = joe.put(f"{_REQUESTS}/{name}", request(name, username="root"))
    assert changed.body["spec"]["username"] == f"{ns}-joe"
    applied = joe.patch(
        f"{_REQUESTS}/{ns}-applied", request(f"{ns}-applied", **forged), APPLY, fieldManager="me"
    )
    assert applied.body["spec"]["username"] == f"{ns}-joe"
    for pem, code in ((_OF_JOE, 201), (_OF_A_MASTER, 403)):
        body = request(f"{ns}-{code}", pem, signerName=_SIGNER)
        assert joe.post(_REQUESTS, body).code == code
    for each in ("forged", "applied", "201"):
        assert api.delete(f"{_REQUESTS}/{ns}-{each}").code == 200


@scenario
def approving_and_signing_need_the_permission_for_the_signer(api: Api, ns: str) -> None:
    subresources = "certificatesigningrequests/approval certificatesigningrequests/status"
    write = rule("update patch", subresources, _GROUP)
    approve = rule("approve", "signers", _GROUP, resourceNames=["example.com/*"])
    sign = rule("sign", "signers", _GROUP, resourceNames=["example.com/signer"])
    for name, rules in (("write", [write]), ("approve", [write, approve]), ("sign", [write, sign])):
        api.post(roles(""), role(f"{ns}-{name}", *rules, kind="ClusterRole"))
        subject = user(f"{ns}-{name}")
        bound = binding(
            f"{ns}-{name}", f"{ns}-{name}", subject, of="ClusterRole", kind="ClusterRoleBinding"
        )
        assert api.post(bindings(""), bound).code == 201
    joe = f"{ns}-joe"
    assert _requester(api).post(_REQUESTS, request(joe)).code == 201
    approval, status = path_of(joe, "approval"), path_of(joe, "status")
    approved = conditions(condition("Approved"))
    clients = {name: api.acting_as(f"{ns}-{name}") for name in ("write", "approve", "sign")}
    found = clients["approve"].eventually(lambda: clients["approve"].patch(approval, approved), 200)
    (stored,) = found.body["status"]["conditions"]
    assert stored["lastUpdateTime"] == stored["lastTransitionTime"]
    for name in ("write", "sign"):
        assert clients[name].patch(approval, approved).code == 403
    for name in ("write", "approve"):
        assert clients[name].patch(status, certificate(_CERTIFICATE)).code == 403
        assert clients[name].patch(status, {"metadata": {"labels": {"a": name}}}).code == 200
        assert clients[name].patch(status, certificate("foo")).code == 422
    assert clients["sign"].patch(status, certificate(_CERTIFICATE)).code == 200
    assert api.delete(f"{_REQUESTS}/{joe}").code == 200


@scenario
def decisions_about_a_certificate_are_final(api: Api, ns: str) -> None:
    joe = f"{ns}-joe"
    approval, status = path_of(joe, "approval"), path_of(joe, "status")
    assert _requester(api).post(_REQUESTS, request(joe)).code == 201
    approved, denied = condition("Approved"), condition("Denied")
    wrong = (
        [approved, denied],
        [denied, approved],
        [approved, approved],
        [condition("Approved", status="False")],
        [condition("Other", status="Maybe")],
        [condition("")],
        [condition("Failed", status="Unknown"), condition("Failed")],
    )
    for items in wrong:
        assert api.patch(approval, conditions(*items)).code == 422
    assert api.patch(status, conditions(approved)).code == 422
    assert api.patch(approval, conditions(approved)).code == 200
    for items in ([], [denied], [approved, denied], [condition("Other")]):
        assert api.patch(approval, conditions(*items)).code == 422
    assert api.patch(status, conditions()).code == 422
    kept = condition("Approved", reason="Another")
    found = api.patch(status, conditions(kept, condition("Failed")))
    assert found.body["status"]["conditions"][0]["reason"] == "Because"
    assert api.patch(status, conditions(kept)).code == 422
    again = condition("Approved", reason="Third")
    assert api.patch(approval, conditions(again, condition("Failed"))).code == 200
    assert api.delete(f"{_REQUESTS}/{joe}").code == 200


@scenario
def certificates_of_requests_are_validated(api: Api, ns: str) -> None:
    joe = f"{ns}-joe"
    status = path_of(joe, "status")
    assert _requester(api).post(_REQUESTS, request(joe)).code == 201
    with_header = _CERTIFICATE.replace("CATE-----\n", "CATE-----\nA: b\n\n", 1)
    for text in ("foo", _OF_JOE, _CERTIFICATE + _OF_JOE, with_header):
        assert api.patch(status, certificate(text)).code == 422
    both = "a comment\n" + _CERTIFICATE + "\nanother one\n" + _CERTIFICATE
    assert api.patch(path_of(joe, "approval"), certificate(both)).code == 200
    assert api.patch(status, certificate(both)).code == 200
    assert api.patch(status, certificate(_CERTIFICATE)).code == 422
    assert api.patch(status, {"status": {"certificate": None}}).code == 422
    assert api.delete(f"{_REQUESTS}/{joe}").code == 200


@scenario
def requests_without_a_request_are_refused(api: Api, ns: str) -> None:
    for text in ("", "foo", _CERTIFICATE):
        assert api.post(_REQUESTS, request(f"{ns}-joe", text)).code == 422
