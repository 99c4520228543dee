"""Beside kube-scheduler on a real control plane: bindings that a webhook fails, and evictions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mooring.testing.controlplane import ControlPlane
from tests.integration.embedded import make_list, make_node
from tests.integration.processes import mooring, wait_until

pytestmark = pytest.mark.slow

SCHEDULERS = ("default-scheduler", "mooring")
NODES = 60
URGENT = 30

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: mooring}]
leaderElection: {leaderElect: false}
"""

#: Every binding in namespaces with the label "broken" asks a service that does not exist.
WEBHOOK = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "broken"},
    "webhooks": [
        {
            "name": "binding.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "namespaceSelector": {"matchLabels": {"webhook": "broken"}},
            "rules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["pods/binding"],
                }
            ],
        }
    ],
}


@pytest.fixture(scope="module")
def plane(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Yields a control plane with kube-scheduler and mooring, half of the nodes for each."""
    folder = tmp_path_factory.mktemp("mooring")
    (folder / "config.yaml").write_text(CONFIG)
    with ControlPlane(scheduler=True) as found:
        nodes = [make_node(f"node-{number:03}", cpu="1") for number in range(2 * NODES)]
        for number, node in enumerate(nodes):
            node["metadata"]["labels"] = {"for": SCHEDULERS[number % 2]}
        create(found, *nodes)
        words = ("run", f"--kubeconfig={found.kubeconfig('mooring')}", "--config=config.yaml")
        with mooring(folder, *words) as program:
            program.wait_for("caches synced")
            yield found


def create(plane: ControlPlane, *objects: dict[str, Any]) -> None:
    plane.kubectl("create", "--filename=-", stdin=json.dumps(make_list(*objects)))


def pod(name: str, scheduler: str, namespace: str = "default", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "some", "resources": {"requests": {"cpu": "1"}}}]
    whole = {
        "schedulerName": scheduler,
        "nodeSelector": {"for": scheduler},
        "containers": containers,
        **spec,
    }
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": whole}


def items(plane: ControlPlane, kind: str, namespace: str = "default") -> list[Any]:
    text = plane.kubectl("get", kind, f"--namespace={namespace}", "--output=json")
    found: list[Any] = json.loads(text)["items"]
    return found


def condition(plane: ControlPlane, name: str, namespace: str) -> dict[str, str]:
    """Returns reason, status and message of the pod's PodScheduled condition."""
    text = plane.kubectl("get", "pod", name, f"--namespace={namespace}", "--output=json")
    for found in json.loads(text)["status"].get("conditions", []):
        if found["type"] == "PodScheduled":
            return {key: found[key] for key in ("reason", "status", "message")}
    return {}


def test_a_binding_that_a_webhook_fails_is_reported_as_kube_scheduler_does(
    plane: ControlPlane,
) -> None:
    labels = {"webhook": "broken"}
    metadata = {"name": "broken", "labels": labels}
    create(plane, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}, WEBHOOK)
    create(plane, *(pod(f"{scheduler}-pod", scheduler, "broken") for scheduler in SCHEDULERS))
    try:
        for scheduler in SCHEDULERS:
            wait_until(lambda: condition(plane, f"{scheduler}-pod", "broken"))  # noqa: B023
        theirs, ours = (condition(plane, f"{scheduler}-pod", "broken") for scheduler in SCHEDULERS)
        assert "failed calling webhook" in theirs["message"]
        assert ours == theirs

        def notes() -> dict[str, set[str]]:
            found: dict[str, set[str]] = {}
            for event in items(plane, "events", "broken"):
                if event["reason"] == "FailedScheduling":
                    name = event["involvedObject"]["name"]
                    found.setdefault(name, set()).add(event["message"])
            return found

        wait_until(lambda: len(notes()) == 2)
        assert notes()["mooring-pod"] == notes()["default-scheduler-pod"]
        # Its room is free for others.
        create(plane, *(pod(f"good-{number}", "mooring") for number in range(NODES)))
        wait_until(
            lambda: all("nodeName" in each["spec"] for each in items(plane, "pods", "default"))
        )
    finally:
        plane.kubectl("delete", "validatingwebhookconfiguration", "broken")
        plane.kubectl("delete", "namespace", "broken", "--wait=false")
        for namespace in ("default", "broken"):
            plane.kubectl(
                "delete", "pods", "--all", "--force", "--grace-period=0", "--wait=false",
                f"--namespace={namespace}",
            )  # fmt: skip
    wait_until(lambda: not items(plane, "pods"))


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_each_preemptor_has_one_victim(plane: ControlPlane, scheduler: str) -> None:
    suffix = scheduler[:3]
    priority = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": f"urgent-{suffix}"},
        "value": 1000,
    }
    create(plane, priority)
    create(plane, *(pod(f"old-{suffix}-{number}", scheduler) for number in range(NODES)))
    mine = f"old-{suffix}-"

    def old_pods() -> list[Any]:
        return [each for each in items(plane, "pods") if each["metadata"]["name"].startswith(mine)]

    wait_until(lambda: all("nodeName" in each["spec"] for each in old_pods()))
    urgent = {"priorityClassName": f"urgent-{suffix}"}
    create(plane, *(pod(f"new-{suffix}-{n}", scheduler, **urgent) for n in range(URGENT)))

    def is_victim(each: Any) -> bool:
        return "deletionTimestamp" in each["metadata"]

    # No kubelet ends the victims. Others end meanwhile, which wakes the preemptors.
    wait_until(lambda: any(map(is_victim, old_pods())))
    spared = [each["metadata"]["name"] for each in old_pods() if not is_victim(each)][-3:]
    plane.kubectl("delete", "pods", "--force", "--grace-period=0", *spared)
    wait_until(
        lambda: (
            sum(
                each["metadata"]["name"].startswith(f"new-{suffix}-")
                and ("nodeName" in each["spec"] or "nominatedNodeName" in each["status"])
                for each in items(plane, "pods")
            )
            == URGENT
        )
    )
    victims = sum(map(is_victim, old_pods()))
    print(f"{scheduler}: {URGENT} preemptors, {victims} victims")
    assert victims <= URGENT
