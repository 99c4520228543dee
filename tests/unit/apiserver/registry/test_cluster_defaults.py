"""Each cluster has the API server's service, and in each namespace its certificate."""

from __future__ import annotations

from mooring.apiserver.server import ApiServer
from mooring.clock import VirtualClock, seeded_random
from tests.helpers.api import Api

MAPS = "/api/v1/namespaces/{}/configmaps"
NAME = "kube-root-ca.crt"


def test_the_api_server_has_a_service_with_the_first_address() -> None:
    api = Api()
    service = api.get("/api/v1/namespaces/default/services/kubernetes")
    assert service["spec"]["clusterIP"] == "10.96.0.1"
    assert service["spec"]["ports"] == [
        {"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}
    ]
    assert api.names("/apis/discovery.k8s.io/v1/endpointslices") == []  # it has no selector
    body = {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}}
    other = api.post("/api/v1/namespaces/default/services", body)
    assert other["spec"]["clusterIP"] != "10.96.0.1"


def test_the_authority_is_published_in_each_namespace() -> None:
    api = Api()
    assert api.names("/api/v1/configmaps") == []
    api.server.publish_authority(b"PEM 1")
    api.post("/api/v1/namespaces", {"metadata": {"name": "shop"}})
    for namespace in ("default", "kube-system", "shop"):
        assert api.get(f"{MAPS.format(namespace)}/{NAME}")["data"] == {"ca.crt": "PEM 1"}

    api.delete(f"{MAPS.format('shop')}/{NAME}")
    api.patch(f"{MAPS.format('default')}/{NAME}", {"data": {"ca.crt": "mine", "more": "x"}})
    for namespace in ("default", "shop"):
        assert api.get(f"{MAPS.format(namespace)}/{NAME}")["data"] == {"ca.crt": "PEM 1"}
    api.delete("/api/v1/namespaces/shop")
    assert api.names(MAPS.format("shop")) == []


def test_the_authority_of_a_new_start_replaces_that_of_a_snapshot() -> None:
    api = Api()
    api.server.publish_authority(b"PEM 1")
    other = Api()
    other.server = ApiServer(VirtualClock(), seeded_random(2))
    other.server.load(api.server.snapshot())
    other.server.publish_authority(b"PEM 2")
    assert other.get(f"{MAPS.format('default')}/{NAME}")["data"] == {"ca.crt": "PEM 2"}
