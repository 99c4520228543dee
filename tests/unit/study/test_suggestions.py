"""Tests the suggestions of changes: each one, applied, gives the pod a node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mooring import Cluster, ConfigError, Reject, per_node
from mooring.cli.explain import command as explain_command
from mooring.objects.codec.decode import convert
from mooring.testing import make_node, make_pod
from tests.helpers.devices import exactly, make_claim, make_class, make_device, make_slice


def pod(name: str, cpu: str = "1", **more: Any) -> Any:
    return make_pod(name, requests={"cpu": cpu}, **more)


TAINTED = make_node("a", taints=["team=db:NoSchedule"], allocatable={"cpu": "4"})
SMALL = make_node("b", allocatable={"cpu": "2"})
GATES = {"schedulingGates": [{"name": "x.io/later"}]}


@pytest.mark.parametrize(
    ("objects", "text", "node", "change"),
    [
        (
            [TAINTED, pod("web")],
            "add a toleration of team=db:NoSchedule to the pod",
            "a",
            ("edit", "Pod", "default/web"),
        ),
        (
            [make_node("a", unschedulable=True), pod("web")],
            "uncordon node a",
            "a",
            ("edit", "Node", "a"),
        ),
        (
            [SMALL, pod("old", "2", node="b"), pod("web")],
            "remove pod default/old from node b",
            "b",
            ("remove", "Pod", "default/old"),
        ),
        (
            [SMALL, pod("old", "2", node="b"), pod("web")],
            "add a node like b (2 cpu, 32Gi memory)",
            "new-node",
            ("add", "Node", "new-node"),
        ),
        (
            [SMALL, pod("web", spec=GATES)],
            "remove the scheduling gate x.io/later from the pod",
            "b",
            ("edit", "Pod", "default/web"),
        ),
        (
            [SMALL, make_pod("web", spec={"volumes": [
                {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
            ]})],
            "create claim default/data, bound to a volume that all nodes reach",
            "b",
            ("add", "PersistentVolumeClaim", "default/data"),
        ),
    ],
)  # fmt: skip
def test_an_applied_suggestion_places_the_pod(
    objects: list[Any], text: str, node: str, change: tuple[str, str, str]
) -> None:
    cluster = Cluster(objects)
    assert cluster.simulate()["web"].node == ""

    suggestions = cluster.what_would_help("web")

    assert suggestions.node == ""
    suggestion = next(one for one in suggestions if one.text == text)
    assert suggestion.node == node
    assert change in suggestion.changes
    assert suggestion.apply().simulate()["web"].node == node
    assert cluster.simulate()["web"].node == "", "the cluster itself stays as it is"


def test_every_suggestion_names_the_node_that_the_simulation_gives() -> None:
    cluster = Cluster([TAINTED, SMALL, pod("old", "2", node="b"), pod("web", "3")])
    suggestions = cluster.what_would_help("default/web")
    assert len(suggestions) >= 2
    assert [one.apply().simulate()["web"].node for one in suggestions] == [
        one.node for one in suggestions
    ]


def test_a_change_that_another_pod_takes_is_not_suggested() -> None:
    # "first" arrives before "web" and takes the new node: one more node helps only one of them.
    objects = [SMALL, pod("old", "2", node="b"), pod("first", "2"), pod("web", "2")]
    texts = [one.text for one in Cluster(objects).what_would_help("web")]
    assert not any("add a node" in text for text in texts)
    alone = [one.text for one in Cluster([*objects[:2], objects[3]]).what_would_help("web")]
    assert any("add a node" in text for text in alone)


def test_two_changes_are_suggested_together_if_one_is_not_enough() -> None:
    node = make_node("a", taints=["team=db:NoSchedule"], unschedulable=True)
    suggestion = Cluster([node, pod("web")]).what_would_help("web")[0]
    assert (
        suggestion.text == "uncordon node a and add a toleration of team=db:NoSchedule to the pod"
    )
    assert {(change.action, change.kind) for change in suggestion.changes} == {
        ("edit", "Node"),
        ("edit", "Pod"),
    }
    assert suggestion.apply().simulate()["web"].node == "a"


def test_pods_configuration_and_plugins_are_those_of_simulate() -> None:
    class NotA:
        name = "NotA"

        @per_node
        def filter(self, pod: Any, node: Any) -> Reject | None:
            return Reject("not a") if node.name == "a" else None

    cluster = Cluster([make_node("a"), make_node("b", unschedulable=True)])
    assert cluster.what_would_help("web", [pod("web")]).node == "a"
    suggestions = cluster.what_would_help("web", [pod("web")], plugins=[NotA()])
    assert [one.text for one in suggestions][:1] == ["uncordon node b"]
    assert suggestions[0].apply().pods["default/web"].spec.node_name == "", "the pod is pending"


def test_a_pod_that_gets_a_node_needs_no_change() -> None:
    cluster = Cluster([SMALL, pod("web"), pod("old", node="b"), pod("vip", "2", priority=9)])
    for name in ("vip", "old"):
        suggestions = cluster.what_would_help(name)
        assert not suggestions
        assert suggestions.node == "b"
        assert repr(suggestions) == f"Pod default/{name} gets node b without a change."


def test_text_html_and_dictionary_say_the_same() -> None:
    node = make_node("a", taints=["team=<db>:NoSchedule"])
    suggestions = Cluster([node, pod("web")]).what_would_help("web")
    assert repr(suggestions).splitlines()[:2] == [
        "The smallest changes that help pod default/web (each was simulated):",
        "  - add a toleration of team=<db>:NoSchedule to the pod: the pod goes to a",
    ]
    page = suggestions._repr_html_()
    assert "<li>add a toleration of team=&lt;db&gt;:NoSchedule to the pod &rarr; <b>a</b>" in page
    assert suggestions.as_dict()["suggestions"][0] == {
        "pod": "default/web",
        "text": "add a toleration of team=<db>:NoSchedule to the pod",
        "node": "a",
        "changes": [{"action": "edit", "kind": "Pod", "name": "default/web"}],
    }


def test_a_pod_of_another_scheduler_has_no_suggestions() -> None:
    other = make_pod("web", scheduler_name="other")
    suggestions = Cluster([TAINTED, other]).what_would_help("web")
    assert (list(suggestions), suggestions.node) == ([], "")


def test_a_pod_without_help_says_so() -> None:
    class Never:
        name = "Never"

        @per_node
        def filter(self, pod: Any, node: Any) -> Reject | None:
            return Reject("never")

    suggestions = Cluster([SMALL, pod("web")]).what_would_help("web", plugins=[Never()])
    assert list(suggestions) == []
    assert "No change was found that helps pod" in repr(suggestions)
    assert "No change was found" in suggestions._repr_html_()
    with pytest.raises(ConfigError, match="no node or pod 'none'"):
        Cluster([SMALL]).what_would_help("none")


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelector: {disk: ssd}
      containers: [{name: web, image: web, env: [{name: A, value: b}],
                    resources: {requests: {cpu: "1"}}}]
---
apiVersion: v1
kind: Node
metadata: {name: a, labels: {disk: hdd}}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}
---
apiVersion: v1
kind: Node
metadata: {name: b, labels: {disk: ssd}}
spec: {taints: [{key: team, value: db, effect: NoSchedule}]}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}
"""


def created_names(cluster: Cluster) -> list[str]:
    return [own.pod for own in cluster.simulate()]


def test_a_pod_that_a_controller_creates_is_helped_as_explain_says(tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(DEPLOYMENT)
    cluster = Cluster.read(file)
    names = created_names(cluster)
    assert len(names) == 3
    suggestions = cluster.what_would_help(names[2])
    texts = [suggestion.text for suggestion in suggestions]
    explained = CliRunner().invoke(explain_command, [names[2], "--cluster", str(file)]).output
    assert texts
    for text in texts:
        assert f"- {text}" in " ".join(explained.split())
    toleration = suggestions[texts.index("add a toleration of team=db:NoSchedule to the pod")]
    assert toleration.changes == [("edit", "Deployment", "default/web")]
    changed = toleration.apply()
    template = changed.workloads[0]["spec"]["template"]["spec"]
    assert template["tolerations"][-1]["key"] == "team"
    assert template["containers"][0]["env"] == [{"name": "A", "value": "b"}]
    # All pods of the template have the toleration then.
    assert [own.node for own in changed.simulate()] == ["b", "b", "b"]
    # The cluster itself stays as it is.
    assert created_names(cluster) == names
    label = suggestions[texts.index("set the label disk=ssd on node a")]
    assert label.changes == [("edit", "Node", "a")]
    assert label.apply().simulate()[names[2]].node == "a"


def test_a_pod_that_a_controller_creates_and_that_has_a_node_needs_no_help(tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(DEPLOYMENT.replace("disk: hdd", "disk: ssd"))
    cluster = Cluster.read(file)
    assert cluster.what_would_help(created_names(cluster)[0]).node == "a"


def test_an_unknown_pod_beside_controllers_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(DEPLOYMENT)
    with pytest.raises(ConfigError, match="no node or pod 'web-abcde'"):
        Cluster.read(file).what_would_help("web-abcde")


def test_fewer_devices_of_a_claim_and_of_a_template() -> None:
    cluster = [
        make_node("a"),
        make_class("gpu", 'device.driver == "gpu.test"'),
        make_slice("a", [make_device("d")], node="a"),
    ]
    claim = make_claim("c", exactly(count=2))
    entry = {"resourceClaims": [{"name": "e", "resourceClaimName": "c"}]}
    (first,) = Cluster([*cluster, claim, pod("web", spec=entry)]).what_would_help("web")
    assert (first.node, first.changes) == ("a", [("replace", "ResourceClaim", "default/c")])
    assert first.apply().simulate()["web"].node == "a"

    head = {"metadata": {"name": "t", "namespace": "default"}}
    spec = {"spec": {"devices": {"requests": [exactly(count=2)]}}}
    template = convert({**head, "spec": spec}, "ResourceClaimTemplate")
    entry = {"resourceClaims": [{"name": "e", "resourceClaimTemplateName": "t"}]}
    (first,) = Cluster([*cluster, template, pod("web", spec=entry)]).what_would_help("web")
    assert first.text == (
        "request 1 device in request r of resource claim template default/t (instead of 2);"
        " the template, and then the pod, must be deleted and created again"
    )
    assert first.node == "a"
    assert first.changes == [("replace", "ResourceClaimTemplate", "default/t")]
    assert first.apply().simulate()["web"].node == "a"
