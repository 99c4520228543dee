"""Kubernetes objects from files: lists, dumps, what is skipped, what is refused and where."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from mooring.apiserver.registry.existing_objects import ExistingObjects
from mooring.errors import ConfigError
from mooring.objects import Node, Pod
from mooring.objects.files import reader
from mooring.objects.files.reader import read_objects
from mooring.objects.files.sources import iter_documents

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\n"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def names(*paths: Path) -> list[str]:
    return [found.metadata.name for found in read_objects(paths)]


def refusal(path: Path) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        read_objects([path])
    assert caught.value.file == str(path)
    return caught.value


def test_documents_lists_and_folders_come_in_order(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", POD % "one" + "---\n" + POD % "two")
    items = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": n}} for n in ("3", "4")]
    write(tmp_path / "b.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    (tmp_path / "c.yaml.gz").write_bytes(gzip.compress((POD % "five").encode()))
    assert names(tmp_path) == ["one", "two", "3", "4", "five"]


def test_objects_are_structs_of_their_kind(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.yaml",
        "apiVersion: v1\nkind: Node\nmetadata:\n  name: node-1\n  labels: {zone: 'a'}\n"
        "status:\n  allocatable: {cpu: 4, memory: 8Gi, pods: '110'}\n",
    )
    (node,) = read_objects([path])
    assert isinstance(node, Node)
    assert node.metadata.labels == {"zone": "a"}
    assert node.status.allocatable == {"cpu": "4", "memory": "8Gi", "pods": "110"}


def test_output_of_kubectl_get(tmp_path: Path) -> None:
    path = write(
        tmp_path / "dump.yaml",
        "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata:\n"
        "    annotations: null\n    creationTimestamp: '2026-01-01T00:00:00Z'\n    name: web\n"
        "    namespace: shop\n    uid: 1-2-3\n  spec: {nodeName: n1, containers: []}\n"
        "  status: {phase: Running}\nkind: List\nmetadata: {resourceVersion: ''}\n",
    )
    (pod,) = read_objects([path])
    assert isinstance(pod, Pod)
    assert (pod.metadata.namespace, pod.spec.node_name, pod.status.phase) == (
        "shop",
        "n1",
        "Running",
    )
    assert pod.metadata.annotations == {}


def test_items_of_a_typed_list_take_its_kind(tmp_path: Path) -> None:
    raw = {"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}}]}
    assert names(write(tmp_path / "a.json", json.dumps(raw))) == ["a"]


def test_lists_may_hold_lists_or_nothing(tmp_path: Path) -> None:
    inner = {"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "a"}}]}
    outer = {"apiVersion": "v1", "kind": "List", "items": [inner]}
    empty = {"apiVersion": "v1", "kind": "List", "items": None}
    assert names(write(tmp_path / "a.json", json.dumps(outer))) == ["a"]
    assert names(write(tmp_path / "b.json", json.dumps(empty))) == []


DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}}}
"""


def test_an_export_of_kube_scheduler_simulator_has_lists_without_kinds(tmp_path: Path) -> None:
    export = {
        "pods": [{"metadata": {"name": "p", "namespace": "own"}}],
        "nodes": [{"metadata": {"name": "n"}}],
        "pvs": [],
        "pvcs": None,
        "storageClasses": [{"metadata": {"name": "s"}, "provisioner": "example.com/x"}],
        "priorityClasses": [{"metadata": {"name": "high"}, "value": 7}],
        "schedulerConfig": {"kind": "KubeSchedulerConfiguration"},
        "namespaces": [{"metadata": {"name": "own"}}],
    }
    path = write(tmp_path / "export.json", json.dumps(export))
    read = [(type(obj).__name__, obj.metadata.name) for obj in read_objects([path])]
    assert read == [
        ("Namespace", "own"),
        ("PriorityClass", "high"),
        ("StorageClass", "s"),
        ("Node", "n"),
        ("Pod", "p"),
    ]
    path = write(tmp_path / "wrong.json", json.dumps({"nodes": [{"metadata": {"name": 5}}]}))
    assert refusal(path).path == "nodes[0].metadata.name"


def test_a_mapping_with_other_keys_is_no_export(tmp_path: Path) -> None:
    path = write(tmp_path / "values.yaml", "nodes: []\nreplicas: 2\n")
    assert (refusal(path).path, refusal(path).problem) == ("kind", "must name the kind of object")


def test_other_kinds_are_skipped_and_counted(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.yaml",
        f"{DEPLOYMENT}metadata: {{name: d}}\n---\n"
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n---\n"
        f"{DEPLOYMENT}metadata: {{name: e}}\n---\n"
        # A Service, but not the one that a scheduler reads.
        "apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: k}\n---\n"
        + POD
        % "kept",
    )
    found = read_objects([path])
    assert [each.metadata.name for each in found] == ["kept", "s", "k"]
    assert [type(each).__name__ for each in found] == [
        "Pod",
        "secrets.v1.",
        "services.v1.serving.knative.dev",
    ]
    assert found.skipped == {"Secret": 1, "Service": 1}
    # No scheduler reads a Deployment, but its controller does.
    assert [raw["metadata"]["name"] for raw in found.workloads] == ["d", "e"]
    assert [raw["spec"]["replicas"] for raw in found.workloads] == [1, 1]
    assert list(found.skipped) == sorted(found.skipped)


@pytest.mark.parametrize(
    ("api_version", "kind", "served"),
    [
        ("extensions/v1beta1", "Deployment", "apps/v1"),
        ("apps/v1beta2", "StatefulSet", "apps/v1"),
        ("batch/v1beta1", "CronJob", "batch/v1"),
        ("v2", "ReplicationController", "v1"),
    ],
)
def test_workloads_of_removed_versions_are_refused_and_counted_in_dumps(
    tmp_path: Path, api_version: str, kind: str, served: str
) -> None:
    path = write(tmp_path / "a.yaml", f"apiVersion: {api_version}\nkind: {kind}\n")
    problem = f"line 1: apiVersion: {kind} is read only as {served}, got '{api_version}'"
    with pytest.raises(ConfigError, match=problem):
        read_objects([path], validator=ExistingObjects())
    assert read_objects([path]).skipped == {f"{kind} of {api_version}": 1}


def test_jobs_of_another_group_are_custom_resources(tmp_path: Path) -> None:
    text = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: j}\n"
    found = read_objects([write(tmp_path / "a.yaml", text)])
    assert (found.skipped, found.workloads) == ({"Job": 1}, [])


def test_flow_style_and_several_json_values_in_a_yaml_file(tmp_path: Path) -> None:
    one = '{apiVersion: v1, kind: Pod, metadata: {name: "a"}}'
    two = '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}}'
    assert names(write(tmp_path / "a.yaml", f"{one}\n---\n{two}\n")) == ["a", "b"]
    assert names(write(tmp_path / "b.yaml", two)) == ["b"]


@pytest.mark.parametrize(
    ("name", "text"), [("a.yaml", "# nothing\n---\n"), ("b.json", ""), ("c.yaml", "")]
)
def test_an_input_without_documents_is_refused(tmp_path: Path, name: str, text: str) -> None:
    path = write(tmp_path / "folder" / name, text)
    assert refusal(path).problem == refusal(path.parent).problem == "contains no objects"


def test_an_empty_file_beside_others_in_a_folder_is_fine(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", "# nothing\n")
    write(tmp_path / "b.yaml", POD % "b")
    assert names(tmp_path) == ["b"]


def test_generated_names_are_numbered(tmp_path: Path) -> None:
    text = "apiVersion: v1\nkind: Pod\nmetadata: {generateName: job-}\n---\n"
    found = names(write(tmp_path / "a.yaml", text * 28))
    assert found[:2] == ["job-bbbbb", "job-bbbbc"]
    assert found[27] == "job-bbbcb"
    assert len(set(found)) == 28


REFUSED: list[tuple[str, int, str | None, Any, str]] = [
    ("- a\n", 1, None, ["a"], "must be a Kubernetes object"),
    ("metadata: {name: a}\n", 1, "kind", None, "must name the kind"),
    ("kind: Pod\n", 1, "apiVersion", None, "must name the API version"),
    ("apiVersion: v1\nkind: 1\n", 2, "kind", 1, "must name the kind"),
    ("apiVersion: v1\nkind: List\nitems: {}\n", 3, "items", {}, "must be a list"),
    ("apiVersion: v1\nkind: List\nitems:\n- x\n", 4, "items[0]", "x", "must be a Kubernetes"),
    (POD % "''", 3, "metadata.name", "", "must not be empty"),
    (POD % "a" + "spec:\n  nodeSelector:\n    a.b/c: yes\n", 6, "spec.nodeSelector[a.b/c]", True,
     "must be a string; put it in quotes"),
    (POD % "a, labels: {rank: 1}", 3, "metadata.labels.rank", 1, "put it in quotes"),
    (POD % "a" + "spec:\n  containers:\n  - name: c\n    resources:\n      limits: {a.b/g: one}\n",
     8, "spec.containers[0].resources.limits[a.b/g]", "one", "is not a quantity"),
    (POD % "a" + "spec: {containers: {}}\n", 4, "spec.containers", {}, "must be a list"),
    (POD % "a" + "spec: {priority: high}\n", 4, "spec.priority", "high", "must be"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "path", "value", "problem"), REFUSED)
def test_faults_tell_where_and_what(
    tmp_path: Path, text: str, line: int, path: str | None, value: Any, problem: str
) -> None:
    # The second document, so that its number counts too.
    error = refusal(write(tmp_path / "a.yaml", POD % "before" + "---\n" + text))
    assert (error.document, error.line, error.path, error.value) == (2, line + 4, path, value)
    assert problem in error.problem


def test_a_fault_inside_a_list_has_its_whole_path(tmp_path: Path) -> None:
    item = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"x": 1}}}
    raw = {"apiVersion": "v1", "kind": "List", "items": [{**item, "metadata": {"name": "b"}}, item]}
    error = refusal(write(tmp_path / "a.json", json.dumps(raw, indent=1)))
    assert error.path == "items[1].metadata.labels.x"
    assert error.line is not None
    assert '"x": 1' in json.dumps(raw, indent=1).splitlines()[error.line - 1]


def test_the_same_object_twice_is_refused(tmp_path: Path) -> None:
    first = write(tmp_path / "a.yaml", POD % "web")
    second = write(tmp_path / "b.yaml", POD % "web, namespace: default")
    with pytest.raises(ConfigError) as caught:
        read_objects([first, second])
    assert caught.value.problem == f"duplicate Pod, first in {first}, document 1"
    assert (caught.value.file, caught.value.value) == (str(second), "web")


def test_the_same_name_in_other_namespaces_and_kinds_is_fine(tmp_path: Path) -> None:
    text = "---\n".join(
        [POD % "a", POD % "a, namespace: b", "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n"]
    )
    assert names(write(tmp_path / "a.yaml", text)) == ["a", "a", "a"]


def test_number_of_objects_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "OBJECTS_MAX", 2)
    path = write(tmp_path / "a.yaml", "---\n".join(POD % name for name in "abc"))
    with pytest.raises(ConfigError, match="more than 2 objects"):
        read_objects([path])


def test_documents_are_given_one_by_one(tmp_path: Path) -> None:
    path = write(tmp_path / "a.yaml", "a: 1\n---\n- 2\n---\n[\n")
    documents = iter_documents([path])
    assert next(documents)[1] == {"a": 1}
    source, value = next(documents)
    assert (source.document, value) == (2, [2])
    with pytest.raises(ConfigError) as caught:
        next(documents)
    assert (caught.value.file, caught.value.document) == (str(path), 3)


# ---- workloads that would never end, and what is saved by mistake ----


def workload(kind: str = "Deployment", **spec: Any) -> str:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c"}]}}
    api_version = "v1" if kind == "ReplicationController" else "apps/v1"
    api_version = "batch/v1" if kind in ("Job", "CronJob") else api_version
    selector: Any = {"matchLabels": labels}
    full = {"selector": selector, "template": template, **spec}
    full = {name: value for name, value in full.items() if value is not None}
    return json.dumps(
        {"apiVersion": api_version, "kind": kind, "metadata": {"name": "w"}, "spec": full}
    )


@pytest.mark.parametrize(
    ("text", "path", "problem"),
    [
        (workload(replicas=10**9), "spec.replicas", "is more than 500000 pods of one workload"),
        (workload("StatefulSet", replicas=10**9), "spec.replicas", "is more than 500000"),
        (workload("Job", parallelism=10**9, selector=None), "spec.parallelism", "more than 500000"),
        (workload(selector={"matchLabels": {"app": "db"}}), "spec.selector", "does not select"),
        (workload("DaemonSet", selector={"matchLabels": {"a": "b"}}), "spec.selector", "create"),
        (workload("ReplicationController", selector={"app": "db"}), "spec.selector", "for ever"),
        (workload(selector={}), "spec.selector", "must select the pods of the template"),
        (workload(selector={"matchExpressions": [{"key": "a", "operator": "Near"}]}),
         "spec.selector", "is no selector: "),
        (workload(template=None), "spec.selector", "does not select"),
        (workload("StatefulSet", volumeClaimTemplates=[{}]),
         "spec.volumeClaimTemplates[0].metadata.name", "must name the claim"),
        (workload("CronJob", jobTemplate={"spec": {"parallelism": 10**9}}, schedule="@daily"),
         "spec.jobTemplate.spec.parallelism", "is more than 500000"),
    ],
)  # fmt: skip
def test_workloads_whose_controller_would_never_end_are_refused_without_validation(
    tmp_path: Path, text: str, path: str, problem: str
) -> None:
    error = refusal(write(tmp_path / "a.yaml", text))
    assert (error.document, error.line, error.path) == (1, 1, path)
    assert problem in error.problem


def test_a_job_that_runs_few_pods_at_once_may_have_many(tmp_path: Path) -> None:
    text = workload("Job", parallelism=2, completions=10**9, selector=None)
    assert len(read_objects([write(tmp_path / "a.yaml", text)]).workloads) == 1


@pytest.mark.parametrize(
    ("raw", "path", "problem"),
    [
        (
            {"kind": "Status", "apiVersion": "v1", "message": "pods is forbidden", "code": 403},
            None,
            "is no object, but the answer Status of an API server: pods is forbidden",
        ),
        (
            {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "rows": []},
            None,
            "is no object, but the answer Table of an API server: use kubectl get -o yaml",
        ),
        ({"kind": "List", "apiVersion": "v1"}, "items", "must be a list"),
    ],
)
def test_answers_that_are_no_objects_are_refused(
    tmp_path: Path, raw: Any, path: str | None, problem: str
) -> None:
    error = refusal(write(tmp_path / "a.json", json.dumps(raw)))
    assert error.path == path
    assert problem in error.problem


def test_a_long_value_is_cut_in_the_message(tmp_path: Path) -> None:
    path = write(tmp_path / "a.yaml", POD % ("y" * 100_000))
    with pytest.raises(ConfigError) as raised:
        read_objects([path], validator=ExistingObjects())
    assert "metadata.name: Invalid value" in str(raised.value)
    assert len(str(raised.value)) < 6000


def test_the_place_of_a_byte_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"kind: \xff\xfe\n")
    assert refusal(path).problem == (
        "is not text that YAML allows: invalid leading UTF-8 octet (byte 6)"
    )


@pytest.mark.parametrize(
    "head",
    [
        "apiVersion: v1\nkind: Node",
        "apiVersion: v1\nkind: Pod",
        "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nvalue: 1",
        "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nhandler: a",
        "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nprovisioner: a",
        "apiVersion: apps/v1\nkind: Deployment",
        "apiVersion: v1\nkind: Node\nmetadata: {name: ''}",
    ],
)
@pytest.mark.parametrize("validator", [None, ExistingObjects()])
def test_an_object_without_a_name_is_refused_with_its_place(
    tmp_path: Path, head: str, validator: ExistingObjects | None
) -> None:
    file = write(tmp_path / "a.yaml", POD % "web" + "---\n" + head + "\n")

    with pytest.raises(ConfigError) as caught:
        read_objects([file], validator=validator)

    lines = [line for line in str(caught.value).splitlines() if "metadata.name" in line]
    assert len(lines) == 1
    assert lines[0].startswith(f"{file}: document 2: line ")
    problem = "Required value: name or generateName is required"
    problem = "must not be empty" if validator is None else problem
    assert f": metadata.name: {problem}" in lines[0]


def test_a_limit_range_without_a_name_is_refused_with_its_place(tmp_path: Path) -> None:
    text = "apiVersion: v1\nkind: LimitRange\nspec: {limits: [{type: Pod}]}\n"
    file = write(tmp_path / "a.yaml", POD % "web" + "---\n" + text)

    with pytest.raises(ConfigError) as caught:
        read_objects([file], validator=ExistingObjects())

    (line,) = [line for line in str(caught.value).splitlines() if "document 2" in line]
    assert line.startswith(f"{file}: document 2: line 5: metadata.name: Required value")
