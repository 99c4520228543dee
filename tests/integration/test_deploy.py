"""The manifests in deploy/ on a real API server, and what a client with their rights can do."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.client import Client
from mooring.client.transport.auth import connect
from mooring.client.transport.kubeconfig import read_kubeconfig
from mooring.client.transport.transport import Request
from mooring.clock import SystemClock, seeded_random
from mooring.config import loads
from mooring.objects.files.documents import yaml_documents
from mooring.testing import make_node, make_pod
from mooring.testing.controlplane import ControlPlane, write_kubeconfig
from tests.helpers.paths import ROOT
from tests.integration.prometheus import find_prometheus
from tests.integration.schedulers import create_all, run, scheduling, transport_to, until
from tests.integration.serving_fixture import Ask, Credentials, answer, secure_server

DEPLOY = ROOT / "deploy"
SECOND = DEPLOY / "kustomize" / "overlays" / "second-scheduler"
INSTEAD = DEPLOY / "kustomize" / "overlays" / "instead-of-kube-scheduler"
ACCOUNT = "system:serviceaccount:kube-system:mooring"

READ = ("get", "list", "watch")
#: (API group, resource, namespace, name) -> verbs: what kube-scheduler v1.36.3 asked for in the
#: audit log of an API server, ``list`` for reading again, and what PreBind of volumes and devices
#: sends.
NEEDED: dict[tuple[str, str, str, str], tuple[str, ...]] = {
    ("", "pods", "default", ""): (*READ, "delete"),
    ("", "pods/binding", "default", ""): ("create",),
    ("", "pods/status", "default", ""): ("patch",),
    **{("", kind, "", ""): READ for kind in ("nodes", "namespaces", "persistentvolumes")},
    **{("", kind, "", ""): READ for kind in ("services", "replicationcontrollers")},
    ("", "persistentvolumes", "", "pv"): ("update",),
    ("", "persistentvolumeclaims", "default", ""): (*READ, "update"),
    ("", "events", "kube-system", ""): ("create",),
    ("events.k8s.io", "events", "default", ""): ("create", "patch"),
    **{("apps", kind, "", ""): READ for kind in ("replicasets", "statefulsets")},
    ("policy", "poddisruptionbudgets", "", ""): READ,
    **{
        ("storage.k8s.io", kind, "", ""): READ
        for kind in (
            *("csinodes", "csidrivers", "csistoragecapacities", "volumeattachments"),
            "storageclasses",
        )
    },
    **{("resource.k8s.io", kind, "", ""): READ for kind in ("deviceclasses", "resourceslices")},
    ("resource.k8s.io", "resourceclaims", "default", ""): (
        *READ,
        *("patch", "update", "create", "delete"),
    ),
    ("resource.k8s.io", "resourceclaims/status", "default", ""): ("patch", "update"),
    ("coordination.k8s.io", "leases", "kube-system", ""): ("create",),
    ("coordination.k8s.io", "leases", "kube-system", "mooring"): ("get", "update"),
    ("authentication.k8s.io", "tokenreviews", "", ""): ("create",),
    ("authorization.k8s.io", "subjectaccessreviews", "", ""): ("create",),
    ("", "configmaps", "kube-system", "extension-apiserver-authentication"): ("get", "watch"),
}
#: What a scheduler has no business with.
REFUSED: dict[tuple[str, str, str, str], tuple[str, ...]] = {
    ("", "secrets", "kube-system", ""): READ,
    ("", "pods", "default", ""): ("create", "update", "patch"),
    ("", "pods/exec", "default", ""): ("create",),
    ("", "nodes", "", ""): ("patch", "update", "delete", "create"),
    ("", "configmaps", "kube-system", "other"): ("get",),
    ("", "configmaps", "kube-system", ""): ("list",),
    ("coordination.k8s.io", "leases", "kube-system", "kube-scheduler"): ("get", "update"),
    ("coordination.k8s.io", "leases", "default", ""): ("create",),
    ("rbac.authorization.k8s.io", "clusterroles", "", ""): ("get", "escalate", "bind"),
    ("*", "*", "", ""): ("*",),
}


@dataclass(frozen=True)
class Deployed:
    """A control plane with the second scheduler applied, and a client with its rights."""

    plane: ControlPlane
    kubeconfig: Path


@pytest.fixture(scope="module")
def deployed(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    with ControlPlane(programs=programs) as plane:
        plane.kubectl("apply", "-k", str(SECOND))
        path = tmp_path_factory.mktemp("deployed") / "mooring.kubeconfig"
        token = plane.service_account_token("mooring")
        write_kubeconfig(path, url=plane.url, authority=plane.authority, token=token)
        yield Deployed(plane, path)


def test_the_second_scheduler_is_applied_and_stays_as_it_is(deployed: Deployed) -> None:
    said = deployed.plane.kubectl("apply", "-k", str(SECOND))
    lines = said.splitlines()
    assert len(lines) == 12
    # kubectl sends the selector of a budget each time.
    changed = [line for line in lines if not line.endswith(" unchanged")]
    assert [line for line in changed if not line.startswith("poddisruptionbudget")] == []


def test_the_deployment_mounts_the_configuration_of_its_overlay(deployed: Deployed) -> None:
    text = deployed.plane.kubectl(
        "get", "deployment", "mooring", "-n", "kube-system", "--output=json"
    )
    deployment = json.loads(text)
    name = deployment["spec"]["template"]["spec"]["volumes"][0]["configMap"]["name"]
    assert name.startswith("mooring-config-")  # with a hash: a new configuration is a new rollout
    stored = json.loads(
        deployed.plane.kubectl("get", "configmap", name, "-n", "kube-system", "--output=json")
    )
    config = loads(stored["data"]["config.yaml"])
    assert config.profiles[0].scheduler_name == "mooring"
    assert config.leader_election.resource_name == "mooring"
    assert deployment["spec"]["replicas"] == 2


def test_the_pods_pass_the_restricted_standard(deployed: Deployed) -> None:
    plane = deployed.plane
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": "strict",
            "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
        },
    }
    plane.kubectl("create", "-f", "-", stdin=json.dumps(namespace))
    text = plane.kubectl("get", "deployment", "mooring", "-n", "kube-system", "--output=json")
    spec = json.loads(text)["spec"]["template"]["spec"]
    del spec["priorityClassName"]  # for other namespaces than kube-system, quotas limit it
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec}
    arguments = ["create", "-n", "strict", "--dry-run=server", "-f", "-"]
    assert "created" in plane.kubectl(*arguments, stdin=json.dumps(pod))
    spec["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    refused = plane.kubectl_result(*arguments, stdin=json.dumps(pod))
    assert 'violates PodSecurity "restricted' in refused.stderr


@pytest.mark.parametrize("path", [INSTEAD / "static-pod.yaml", SECOND / "sample-pod.yaml"])
def test_single_pods_are_accepted(deployed: Deployed, path: Path) -> None:
    said = deployed.plane.kubectl("create", "--dry-run=server", "-f", str(path))
    assert "created (server dry run)" in said


@pytest.mark.parametrize(
    "path", [INSTEAD / "static-pod.yaml", DEPLOY / "kustomize" / "base" / "deployment.yaml"]
)
def test_flags_are_those_of_kube_scheduler(programs: Path, path: Path) -> None:
    """So that a manifest of one can be changed into one of the other."""
    command = [str(programs / "kube-scheduler"), "--help"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (entry,) = yaml_documents(path.read_bytes())
    spec = entry.value["spec"]
    spec = spec["template"]["spec"] if "template" in spec else spec
    first, *flags = spec["containers"][0]["args"]
    assert first == "run"
    for flag in flags:
        name = flag.partition("=")[0]
        assert re.search(rf"(^|\s){name}[ =\[]", text), name


def test_the_static_pod_is_kubeadms() -> None:
    """As kubeadm v1.36.3 writes it, except for the image, its user and the memory."""
    (entry,) = yaml_documents((INSTEAD / "static-pod.yaml").read_bytes())
    pod = entry.value
    assert {"component": "kube-scheduler", "tier": "control-plane"}.items() <= pod["metadata"][
        "labels"
    ].items()
    spec = pod["spec"]
    assert (spec["hostNetwork"], spec["priority"]) == (True, 2000001000)
    assert spec["priorityClassName"] == "system-node-critical"
    (container,) = spec["containers"]
    configuration = "/etc/kubernetes/scheduler.conf"
    assert container["args"][1:] == [
        f"--authentication-kubeconfig={configuration}",
        f"--authorization-kubeconfig={configuration}",
        "--bind-address=127.0.0.1",
        f"--kubeconfig={configuration}",
        "--leader-elect=true",
    ]
    probes = {name: container[f"{name}Probe"] for name in ("startup", "liveness", "readiness")}
    assert {
        name: (probe["httpGet"]["path"], probe["periodSeconds"], probe["failureThreshold"])
        for name, probe in probes.items()
    } == {
        "startup": ("/livez", 10, 24),
        "liveness": ("/livez", 10, 8),
        "readiness": ("/readyz", 1, 3),
    }
    assert {probe["timeoutSeconds"] for probe in probes.values()} == {15}


def test_the_service_for_monitoring_finds_the_static_pod(deployed: Deployed) -> None:
    deployed.plane.kubectl("apply", "-k", str(INSTEAD))
    (service,) = (entry.value for entry in yaml_documents((INSTEAD / "service.yaml").read_bytes()))
    (pod,) = (entry.value for entry in yaml_documents((INSTEAD / "static-pod.yaml").read_bytes()))
    labels = pod["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()


def test_monitoring_is_accepted(deployed: Deployed) -> None:
    """With definitions of the operator's kinds that take every field."""
    plane = deployed.plane
    plane.kubectl("create", "namespace", "monitoring")
    for kind in ("ServiceMonitor", "PrometheusRule"):
        plane.kubectl("create", "-f", "-", stdin=json.dumps(definition_of(kind)))
        name = f"crd/{kind.lower()}s.monitoring.coreos.com"
        plane.kubectl("wait", "--for=condition=Established", name, "--timeout=30s")
    said = plane.kubectl("apply", "-k", str(DEPLOY / "monitoring"))
    assert len(said.splitlines()) == 5


def definition_of(kind: str) -> dict[str, Any]:
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.monitoring.coreos.com"},
        "spec": {
            "group": "monitoring.coreos.com",
            "names": {"kind": kind, "plural": plural},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def test_prometheus_accepts_the_rules(tmp_path: Path) -> None:
    program = find_prometheus()
    promtool = program.with_name("promtool") if program else None
    if promtool is None or not promtool.exists():
        pytest.skip("there is no promtool")
    path = DEPLOY / "monitoring" / "prometheus-rule.yaml"
    (document,) = yaml_documents(path.read_bytes())
    rules = tmp_path / "rules.json"  # JSON is YAML
    rules.write_text(json.dumps(document.value["spec"]))
    command = [str(promtool), "check", "rules", str(rules)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "18 rules found" in done.stdout


async def is_allowed(client: Client, verb: str, right: tuple[str, str, str, str]) -> bool:
    """Returns whether the service account has a right, by the API server's own decision."""
    group, resource, namespace, name = right
    kind, _, subresource = resource.partition("/")
    attributes = {
        "verb": verb,
        "group": group,
        "resource": kind,
        "subresource": subresource,
        "namespace": namespace,
        "name": name,
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": ACCOUNT,
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "resourceAttributes": attributes,
        },
    }
    request = Request(
        "POST",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        deadline_s=10.0,
        body=msgspec.json.encode(review),
        headers={"content-type": "application/json", "accept": "application/json"},
    )
    response = await client.transport.request(request)
    assert response.status == 201, response.body
    return bool(msgspec.json.decode(response.body)["status"]["allowed"])


def test_the_rights_are_those_that_are_needed(deployed: Deployed) -> None:
    async def granted(questions: list[tuple[str, tuple[str, str, str, str]]]) -> list[bool]:
        access = read_kubeconfig([str(deployed.plane.kubeconfig("admin"))])
        transport = connect(access, clock=SystemClock(), environment=os.environ)
        try:
            client = Client(transport, rng=seeded_random(1))
            return [await is_allowed(client, verb, right) for verb, right in questions]
        finally:
            await transport.close()

    for rights, expected in ((NEEDED, True), (REFUSED, False)):
        questions = [(verb, right) for right, verbs in rights.items() for verb in verbs]
        answers = asyncio.run(granted(questions))
        assert [q for q, a in zip(questions, answers, strict=True) if a is not expected] == []


def test_discovery_is_allowed(deployed: Deployed) -> None:
    """kube-scheduler asks at its start for the kinds of events."""
    said = deployed.plane.kubectl(
        "auth", "can-i", "get", "/apis/events.k8s.io/v1", f"--as={ACCOUNT}"
    )
    assert said.strip() == "yes"


def test_the_rights_are_a_part_of_the_role_for_tests() -> None:
    """One list is not changed without the other."""

    def rights(path: Path) -> set[tuple[str, str, str]]:
        return {
            (group, resource, verb)
            for entry in yaml_documents(path.read_bytes())
            if entry.value["kind"] == "ClusterRole"
            for rule in entry.value["rules"]
            if "nonResourceURLs" not in rule  # for people who ask the scheduler
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }

    ours = rights(DEPLOY / "kustomize" / "base" / "rbac.yaml")
    tests = rights(ROOT / "src/mooring/testing/controlplane/mooring-rbac.yaml")
    assert ours <= tests
    # Read access to a subresource of claims is upstream's, and unused.
    unused = {resource for _, resource, _ in tests - ours}
    assert unused == {"resourceclaims/status"}


def test_pods_are_scheduled_with_exactly_these_rights(deployed: Deployed) -> None:
    config = loads((SECOND / "config.yaml").read_text())

    async def main() -> None:
        access = read_kubeconfig([str(deployed.plane.kubeconfig("admin"))])
        transport = connect(access, clock=SystemClock(), environment=os.environ)
        admin = Client(transport, rng=seeded_random(3))
        try:
            async with (
                transport_to(read_kubeconfig([str(deployed.kubeconfig)])) as way,
                scheduling(way, config=config) as service,
            ):
                await create_all(
                    admin, [make_node("node-1", allocatable={"cpu": "1", "pods": "9"})]
                )
                pods = [
                    make_pod("fits", scheduler_name="mooring", requests={"cpu": "600m"}),
                    make_pod("waits", scheduler_name="mooring", requests={"cpu": "600m"}),
                ]
                for pod in pods:
                    await admin.create(pod)
                known = service.informers["Pod"].objects
                await until(lambda: sum(bool(pod.spec.node_name) for pod in known.values()) == 1)
                # The events and the condition need rights, too.
                await until(lambda: service.is_settled)
            events = (await admin.list("Event")).items
            reasons = {e.reason for e in events if e.reporting_controller == "mooring"}
            assert reasons == {"Scheduled", "FailedScheduling"}
            waiting = [pod for pod in (await admin.list("Pod")).items if not pod.spec.node_name]
            assert waiting[0].status.conditions[0].reason == "Unschedulable"
        finally:
            await transport.close()

    run(main)


def test_endpoints_are_protected_with_exactly_these_rights(
    deployed: Deployed, tmp_path: Path
) -> None:
    """TokenReview, SubjectAccessReview and the ConfigMap of authorities are in them."""

    async def main() -> None:
        credentials = Credentials(deployed.plane, tmp_path)
        credentials.token("ours", deployed.plane.service_account_token("mooring"))
        async with secure_server(
            deployed.plane, authentication=deployed.kubeconfig, authorization=deployed.kubeconfig
        ) as port:
            for who, status in {
                "admin": 200,
                "nobody": 403,
                "ours": 403,
                "bad token": 401,
                "unknown authority": 401,
            }.items():
                found = await answer(port, Ask("/metrics", who), credentials)
                assert found.status == status, who

    asyncio.run(main())
