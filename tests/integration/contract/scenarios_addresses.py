"""Addresses and ranges of addresses in all kinds: leading zeros, mapped and special addresses."""

from __future__ import annotations

from typing import Any

from tests.integration.contract.api import Api
from tests.integration.contract.objects import node, pod
from tests.integration.contract.scenario import path, pods, scenario

ADDRESSES = (
    *("", "host", "10.0.0.1", "10.0.0.01", "010.0.0.1", "10.0.0", "10.0.0.256", "10.0.0.1/32"),
    *("::ffff:10.0.0.1", "::ffff:a00:1", "2001:db8::1", "2001:DB8::1", "2001:db8:0:0::1"),
    *("2001:0db8::01", "2001:00db8::1", "2001:db8::00001", "::10.0.0.1", "::10.0.0.01"),
    *("fe80::1%eth0", "1::2::3", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7::", "00.00.00.00"),
    *("0.0.0.0", "127.0.0.1", "127.0.0.01", "169.254.0.1", "224.0.0.1", "224.0.1.1", "::", "::1"),
    *("fe80::1", "ff02::1", "ff05::1", "::ffff:127.0.0.1", "::ffff:0.0.0.0", "0" * 60 + "1.2.3.4"),
)
CIDRS = (
    *("10.0.0.0/8", "10.0.0.0/08", "010.0.0.0/8", "10.0.0.1/8", "10.0.0.01/8", "10.0.0.0"),
    *("10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/255.0.0.0", "/8", "10.0.0.0/8/8"),
    *("2001:db8::/32", "2001:DB8::/32", "2001:db8:0::/32", "2001:db8::1/32", "2001:00db8::/32"),
    *("::ffff:10.0.0.0/104", "::ffff:10.0.0.1/104", "::ffff:10.0.0.0/8", "::/0", "0.0.0.0/0"),
    *("0.0.0.0/00", "::/129", "fe80::%a/64", "10.0.0.0/8 "),
)


def _service(namespace: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "s", "namespace": namespace}
    return {"metadata": metadata, "spec": {"ports": [{"port": 80}], **spec}}


@scenario
def addresses_of_services_are_validated(api: Api, ns: str) -> None:
    services = path("api/v1", ns, "services")
    for text in ADDRESSES:
        if text:
            # Valid ones are not in the range of the server, which each server names.
            answer = api.post(services, _service(ns, clusterIP=text), dryRun="All")
            if "failed to allocate" in answer.message or answer.code == 201:
                api.notes.pop()
        answer = api.post(
            services, _service(ns, clusterIP="None", externalIPs=[text]), dryRun="All"
        )
        assert answer.code == (201 if text in _DESTINATIONS else 422), (text, answer.message)
    families = ["IPv6", "IPv4"]
    for pair in (["10.0.0.1", "::1"], ["::ffff:10.0.0.1", "::1"], ["10.0.0.1", "::1", "::2"]):
        spec = {"clusterIP": pair[0], "clusterIPs": pair, "ipFamilies": families}
        assert api.post(services, _service(ns, **spec), dryRun="All").code == 422


#: Those that traffic can be sent to, in any form.
_DESTINATIONS = (
    *("10.0.0.1", "2001:db8::1", "2001:DB8::1", "2001:db8:0:0::1", "2001:0db8::01"),
    *("::10.0.0.1", "1:2:3:4:5:6:7::", "224.0.1.1", "ff05::1"),
)


@scenario
def ranges_of_a_load_balancer_are_validated(api: Api, ns: str) -> None:
    services = path("api/v1", ns, "services")
    headless: dict[str, Any] = {"clusterIP": "None"}
    key = "service.beta.kubernetes.io/load-balancer-source-ranges"
    for text in (*CIDRS, "", " 10.0.0.0/8 , ::/0", "10.0.0.0/8,,host"):
        ranges = {"loadBalancerSourceRanges": [text, f" {text}"]}
        # A headless service cannot be of the type: no server chooses an address for it.
        for kind in ({"type": "LoadBalancer"}, {}):
            assert api.post(services, _service(ns, **headless, **kind, **ranges)).code == 422
            annotated = _service(ns, **headless, **kind)
            annotated["metadata"]["annotations"] = {key: text}
            assert api.post(services, annotated).code == 422
    assert api.post(services, _service(ns, **headless)).code == 201
    annotations = {"metadata": {"annotations": {key: "10.0.0.01/8"}}}
    assert api.patch(f"{services}/s", annotations).code == 422


@scenario
def the_address_of_a_load_balancer_is_not_validated(api: Api, ns: str) -> None:
    services = path("api/v1", ns, "services")
    for text in ADDRESSES:
        service = _service(ns, clusterIP="None", loadBalancerIP=text)
        answer = api.post(services, service, dryRun="All")
        assert answer.code == 201, answer.message
        api.note("warning", text, answer.headers.get("warning"))
    assert "non-standard IP address" in str(api.notes)


@scenario
def addresses_of_endpoints_are_validated(api: Api, ns: str) -> None:
    endpoints = path("api/v1", ns, "endpoints")
    slices = path("apis/discovery.k8s.io/v1", ns, "endpointslices")
    for text in ADDRESSES:
        metadata = {"name": "e"}
        subsets = [{"addresses": [{"ip": text}], "notReadyAddresses": [{"ip": text}]}]
        answer = api.post(endpoints, {"metadata": metadata, "subsets": subsets}, dryRun="All")
        assert answer.code == (201 if text in _DESTINATIONS else 422), (text, answer.message)
        api.note("warning", text, answer.headers.get("warning"))
        for kind in ("IPv4", "IPv6"):
            body = {"metadata": metadata, "addressType": kind, "endpoints": [{"addresses": [text]}]}
            answer = api.post(slices, body, dryRun="All")
            api.note("warning", text, answer.headers.get("warning"))
    assert api.post(slices, {**body, "endpoints": [{"addresses": ["2001:DB8::1"]}]}).code == 422


@scenario
def addresses_of_pods_are_validated(api: Api, ns: str) -> None:
    for text in ADDRESSES:
        aliases = [{"ip": text, "hostnames": ["h"]}]
        for spec in ({"hostAliases": aliases}, {"dnsConfig": {"nameservers": [text]}}):
            answer = api.post(pods(ns), pod("p", **spec), dryRun="All")
            api.note("warning", text, answer.headers.get("warning"))
    assert "must not have leading 0s" in str(api.notes)


@scenario
def ranges_of_policies_and_nodes_are_validated(api: Api, ns: str) -> None:
    policies = path("apis/networking.k8s.io/v1", ns, "networkpolicies")
    nodes = path("api/v1", "", "nodes")
    for text in CIDRS:
        blocks = [{"cidr": text}, {"cidr": "10.0.0.0/7", "except": [text, "10.1.0.0/16"]}]
        blocks += [{"cidr": text, "except": ["10.1.0.0/16", "::ffff:10.1.0.0/112", "x"]}]
        for block in blocks:
            spec = {"podSelector": {}, "egress": [{"to": [{"ipBlock": block}]}]}
            answer = api.post(policies, {"metadata": {"name": "n"}, "spec": spec}, dryRun="All")
            api.note("warning", text, answer.headers.get("warning"))
        for ranges in ([text], [text, "::/0"], ["10.0.0.0/8", text], [text, "::/0", "1::/16"]):
            body = node(f"n-{ns}", podCIDR=ranges[0], podCIDRs=ranges)
            answer = api.post(nodes, body, dryRun="All")
            api.note("warning", text, answer.headers.get("warning"))
    assert "must not have leading 0s in IP or prefix length" in str(api.notes)


@scenario
def ranges_of_service_addresses_are_canonical(api: Api, ns: str) -> None:
    ranges = path("apis/networking.k8s.io/v1", "", "servicecidrs")
    for text in CIDRS:
        for cidrs in ([text], [text, "::/0"], ["10.9.0.0/16", text]):
            body = {"metadata": {"name": f"range-{ns}"}, "spec": {"cidrs": cidrs}}
            api.post(ranges, body, dryRun="All")
    names = path("apis/networking.k8s.io/v1", "", "ipaddresses")
    parent = {"resource": "things", "group": "example.com", "name": "x"}
    for text in ADDRESSES:
        if text and text != "10.0.0.1":  # the real server's service `kubernetes` has it
            api.post(
                names, {"metadata": {"name": text}, "spec": {"parentRef": parent}}, dryRun="All"
            )
    assert "must be in canonical form" in str(api.notes)


@scenario
def addresses_in_statuses_have_warnings(api: Api, ns: str) -> None:
    services = path("api/v1", ns, "services")
    ingresses = path("apis/networking.k8s.io/v1", ns, "ingresses")
    backend = {"service": {"name": "s", "port": {"number": 80}}}
    assert api.post(services, _service(ns, type="LoadBalancer")).code == 201
    api.notes.pop()  # its address
    ingress = {"metadata": {"name": "s"}, "spec": {"defaultBackend": backend}}
    assert api.post(ingresses, ingress).code == 201
    assert api.post(pods(ns), pod("s")).code == 201
    for text in ("10.0.0.1", "2001:DB8::1", "10.0.0.01"):
        items = [{"ip": text}]
        of_a_pod = {"hostIP": text, "hostIPs": items, "podIP": text, "podIPs": items}
        of_a_service = {"loadBalancer": {"ingress": [{"ip": text, "ipMode": "VIP"}]}}
        for url, status in (
            (services, of_a_service),
            (ingresses, {"loadBalancer": {"ingress": items}}),
            (pods(ns), of_a_pod),
        ):
            answer = api.patch(f"{url}/s/status", {"status": status})
            if url == services and answer.code == 200:
                api.notes.pop()  # its address
            api.note("warning", text, answer.headers.get("warning"))
    # A status that is not written has no warning.
    answer = api.patch(f"{ingresses}/s", {"metadata": {"labels": {"a": "b"}}})
    assert "warning" not in answer.headers
    assert "podIPs[0].ip: IPv6 address" in str(api.notes)


@scenario
def the_first_range_of_a_node_is_in_both_fields(api: Api, ns: str) -> None:
    nodes = path("api/v1", "", "nodes")
    first, other = "10.1.0.0/24", "10.2.0.0/24"
    specs: tuple[tuple[dict[str, Any], list[str]], ...] = (
        ({"podCIDRs": [first, "1::/64"]}, [first, "1::/64"]),
        ({"podCIDR": first}, [first]),
        ({"podCIDR": "", "podCIDRs": [first]}, [first]),
        ({"podCIDR": first, "podCIDRs": [other, "1::/64"]}, [first]),
    )
    for number, (spec, ranges) in enumerate(specs):
        name = f"{ns}-{number}"
        stored = api.post(nodes, {"metadata": {"name": name}, "spec": spec}).body["spec"]
        assert stored == {"podCIDR": first, "podCIDRs": ranges}
        for patch, code in (
            ({"podCIDR": other}, 422),
            ({"podCIDR": "none"}, 422),
            ({"podCIDR": None}, 200),
            ({"podCIDR": None, "podCIDRs": None}, 422),
        ):
            assert api.patch(f"{nodes}/{name}", {"spec": patch}, dryRun="All").code == code
        api.delete(f"{nodes}/{name}")
