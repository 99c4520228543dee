"""Scenario files: what is refused, and where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from mooring.errors import ConfigError, ConfigErrors
from mooring.scenario.read import read_scenario
from mooring.scenario.schema import schema
from tests.helpers.scenario_files import Spec, deployment, node, nodes, pod, read, write

GROUP: Spec = {"name": "g", "max": 2, "template": node()}
CLUSTER = {"nodes": [nodes(1)]}
ARRIVE = {"interval": {"every": "1m", "count": 2}}


def test_a_small_scenario(tmp_path: Path) -> None:
    scenario = read(
        tmp_path,
        {"seed": 3, "cluster": CLUSTER, "workload": [{"arrive": ARRIVE, "object": pod()}]},
    )
    assert (scenario.name, scenario.seed, scenario.end_s) == ("test", 3, None)
    assert [obj.metadata.name for obj in scenario.objects] == ["node-0"]
    assert [item.name for item in scenario.items] == ["arrive-0"]


#: Spec -> path and beginning of the problem of its first error.
WRONG: list[tuple[Spec, str, str]] = [
    ({"cluster": CLUSTER, "sead": 3}, "spec.sead", "unknown field"),
    ({"cluster": CLUSTER, "seed": "x"}, "spec.seed", "must be an integer"),
    ({"cluster": {}}, "spec.cluster", "has no nodes"),
    ({"cluster": {"files": ["openb:gpus"]}}, "spec.cluster.files[0]", "unknown node list"),
    ({"cluster": {"nodes": [nodes(1), nodes(1)]}}, "spec.cluster", "has two nodes with one name"),
    (
        {"cluster": {"nodes": [{"name": "a", "count": 1, "template": {"metadata": "v1"}}]}},
        "spec.cluster.nodes[0].template.metadata",
        "must be a mapping",
    ),
    ({"cluster": {"nodes": [nodes(-1)]}}, "spec.cluster.nodes[0].count", "must be an integer from"),
    (
        {"cluster": {"groups": [{"name": "g", "min": 3, "max": 2, "template": {}}]}},
        "spec.cluster.groups[0].min",
        "must be at most max (2)",
    ),
    ({"cluster": CLUSTER, "end": {"at": "soon"}}, "spec.end.at", "is not a duration"),
    (
        {"cluster": {"nodes": [{**nodes(1), "price": -1}]}},
        "spec.cluster.nodes[0].price",
        "must be from 0 to",
    ),
    (
        {"cluster": {"groups": [{**GROUP, "price": 1e300}]}},
        "spec.cluster.groups[0].price",
        "must be from 0",
    ),
    ({"cluster": {"groups": [GROUP, GROUP]}}, "spec.cluster.groups[1].name", "is the name"),
    (
        {"cluster": {"nodes": [nodes(2, "g-")], "groups": [GROUP]}},
        "spec.cluster.groups[0].name",
        "would give a node the name of g-0",
    ),
    ({"cluster": CLUSTER, "end": {"at": "0s"}}, "spec.end.at", "must be above 0s"),
    ({"cluster": CLUSTER, "end": {"after": "lunch"}}, "spec.end.after", 'must be "settled"'),
    ({"cluster": CLUSTER, "pods": {"failure": 2}}, "spec.pods.failure", "must be a share"),
    (
        {"cluster": CLUSTER, "scheduler": {"podsPerSecond": 0}},
        "spec.scheduler.podsPerSecond",
        "must be above 0",
    ),
    (
        {"cluster": CLUSTER, "scheduler": {"podsPerSecond": 3, "attemptTime": "1s"}},
        "spec.scheduler",
        "must have one of attemptTime and podsPerSecond",
    ),
    (
        {"cluster": CLUSTER, "autoscaler": {"expander": ["least-wast"]}},
        "spec.autoscaler.expander",
        "unknown expander",
    ),
    (
        {"cluster": CLUSTER, "failures": [{"mtbf": "1h", "mttr": "1m"}]},
        "spec.end.at",
        "is required: failures go on for ever",
    ),
    ({"cluster": CLUSTER, "expect": [{"wait.p98": "< 1m"}]}, "spec.expect[0][wait.p98]", "unknown"),
    ({"cluster": CLUSTER, "expect": [{"wait.p99": "1m"}]}, "spec.expect[0][wait.p99]", "must be a"),
    (
        {"cluster": CLUSTER, "expect": [{"wait.p99": "!= nan"}]},
        "spec.expect[0][wait.p99]",
        "must be a limit",
    ),
    (
        {"cluster": CLUSTER, "expect": [{"wait.p99": "< inf"}]},
        "spec.expect[0][wait.p99]",
        "must be a limit",
    ),
]

#: Item -> path below it and beginning of the problem.
WRONG_ITEMS: list[tuple[Spec, str, str]] = [
    ({}, "", "must have one of trace, arrive and at"),
    ({"at": "1s", "arrive": ARRIVE}, "", "must have one of trace, arrive and at"),
    ({"arrive": ARRIVE}, ".object", "is required with arrive"),
    ({"arrive": {"poisson": {"rate": "1/s"}}, "object": pod()}, "", "is required: the arrivals"),
    ({"arrive": ARRIVE, "object": pod(), "stretch": 2.0}, ".stretch", "does not go with arrive"),
    ({"arrive": ARRIVE, "object": 3}, ".object", "must be a Kubernetes object"),
    ({"arrive": ARRIVE, "object": {"kind": "Pod"}}, ".object.apiVersion", "is required"),
    ({"at": "1s"}, "", "must have one of create, scale"),
    ({"at": "1s", "drain": {}}, ".drain", "must name nodes by one of node and matchLabels"),
    ({"at": "1s", "drain": {"node": "a", "duration": "1s"}}, ".drain.duration", "does not go with"),
    ({"at": "1s", "scale": {"replicas": 3}}, ".scale.name", "is required"),
    ({"at": "1s", "delete": {}}, ".delete.name", "is required"),
    ({"trace": "openb:defalt"}, ".trace", "unknown pod list"),
    ({"trace": "openb:default", "stretch": 0.0}, ".stretch", "must be above 0"),
    (
        {"at": "1s", "create": deployment("web", 1), "duration": "1m"},
        ".duration",
        "pods of a Deployment run until they are deleted",
    ),
]


@pytest.mark.parametrize(("spec", "path", "problem"), WRONG, ids=[w[1] for w in WRONG])
def test_errors_name_the_place(tmp_path: Path, spec: Spec, path: str, problem: str) -> None:
    error = first_error(tmp_path, spec)
    assert error.path == path
    assert error.problem.startswith(problem)
    assert error.line is not None


@pytest.mark.parametrize(("item", "path", "problem"), WRONG_ITEMS)
def test_errors_of_items_name_the_place(
    tmp_path: Path, item: Spec, path: str, problem: str
) -> None:
    error = first_error(tmp_path, {"cluster": CLUSTER, "workload": [item]})
    assert error.problem.startswith(problem)
    if not problem.startswith("is required: the arrivals"):
        assert error.path == f"spec.workload[0]{path}"


def test_all_errors_come_at_once(tmp_path: Path) -> None:
    spec = {
        "cluster": CLUSTER,
        "workload": [
            {"arrive": {"poisson": {"rate": "many"}}, "object": pod(), "duration": "soon"},
            {"name": "a", "at": "1s", "drain": {"node": "x"}},
            {"name": "a", "at": "1s", "drain": {"node": "x"}},
        ],
    }
    with pytest.raises(ConfigErrors) as raised:
        read(tmp_path, spec)
    assert [error.path for error in raised.value.errors] == [
        "spec.workload[0].duration",
        "spec.workload[0].arrive.poisson.rate",
        "spec.workload[2].name",
        "spec.end.at",
    ][: len(raised.value.errors)]


def test_an_object_that_an_api_server_would_refuse_has_its_line(tmp_path: Path) -> None:
    wrong = pod()
    wrong["spec"]["contaners"] = []
    error = first_error(
        tmp_path, {"cluster": CLUSTER, "workload": [{"arrive": ARRIVE, "object": wrong}]}
    )
    assert error.path == "spec.workload[0].object.spec.contaners"
    assert (error.problem, error.suggestion) == ("unknown field", "containers")
    text = (tmp_path / "test.yaml").read_text(encoding="utf-8").splitlines()
    assert error.line is not None
    assert "contaners" in text[error.line - 1]


def test_another_kind_or_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("apiVersion: mooring.dev/v2\nkind: Senario\nspec: {cluster: {}}\n", "utf-8")
    with pytest.raises(ConfigErrors) as raised:
        read_scenario(path)
    assert {str(error.path) for error in raised.value.errors} == {"apiVersion", "kind"}


@pytest.mark.parametrize(
    "content",
    [
        "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Pod\n",
        '{"apiVersion": "v1", "kind": "List", "items": []}',
        "# a.yaml\napiVersion: apps/v1\nkind: Deployment\n",
    ],
)
def test_a_file_of_a_cluster_is_told_apart(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(content, "utf-8")
    with pytest.raises(ConfigError) as raised:
        read_scenario(path)
    assert "for objects of a cluster there is --cluster" in str(raised.value)
    assert raised.value.path == "kind"


@pytest.mark.parametrize("kind", ["{}", "[Pod]", "{a: b}"])
def test_a_kind_that_is_no_string_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(f"apiVersion: mooring.dev/v1alpha1\nkind: {kind}\n")
    with pytest.raises(ConfigError) as raised:
        read_scenario(str(path))
    assert "kind: must be " in str(raised.value)


def test_priority_classes_of_files_count_for_templates(tmp_path: Path) -> None:
    klass = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 77,
    }
    (tmp_path / "classes.json").write_text(json.dumps(klass), encoding="utf-8")
    cluster = {**CLUSTER, "files": ["classes.json"]}
    item = {"arrive": ARRIVE, "object": pod(priorityClassName="high")}
    scenario = read(tmp_path, {"cluster": cluster, "workload": [item]})
    [item_read] = scenario.items
    assert item_read.template.pods[0].spec.priority == 77  # type: ignore[union-attr]
    wrong = {"arrive": ARRIVE, "object": pod(priorityClassName="higher")}
    error = first_error(tmp_path, {"cluster": cluster, "workload": [wrong]})
    assert "higher" in str(error)


# -- the schema ---------------------------------------------------------------------------------

ALL_FORMS: Spec = {
    "seed": 1,
    "end": {"at": "2h"},
    "cluster": {
        "nodes": [nodes(2)],
        "groups": [{"name": "g", "max": 2, "template": {}, "provision": {"uniform": {"max": 9}}}],
    },
    "scheduler": {"attemptTime": "2ms"},
    "autoscaler": {"expander": ["price", "random"], "scaleDownUnneededTime": "5m"},
    "pods": {"start": "2s", "duration": {"lognormal": {"median": "9m", "p99": "26h"}}},
    "workload": [
        {"trace": "openb:default", "stretch": 0.1, "limit": 5},
        {"name": "p", "arrive": {"poisson": {"rate": "12/min", "until": "1h"}}, "object": [pod()]},
        {"arrive": {"at": ["1s"]}, "object": pod(), "duration": {"choice": [{"value": "1m"}]}},
        {"at": "1m", "drain": {"node": "node-0"}},
        {"at": "2m", "fail": {"matchLabels": {"a": "b"}, "duration": {"exponential": {"mean": 5}}}},
    ],
    "failures": [{"mtbf": "720h", "mttr": {"weibull": {"shape": 1, "scale": "20m"}}}],
    "expect": [{"wait.p99": "< 10m"}],
}


def test_what_is_read_follows_the_schema(tmp_path: Path) -> None:
    path = write(tmp_path, ALL_FORMS)
    read_scenario(path)
    validator = jsonschema.Draft202012Validator(schema())
    validator.check_schema(schema())
    assert [*validator.iter_errors(json.loads(path.read_text(encoding="utf-8")))] == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("seed",), "one"),
        (("pods", "duration"), {"lognormal": {"mean": 3}}),
        (("workload", 1, "arrive"), {"poisson": {}}),
        (("workload", 0, "copes"), 3),
        (("end", "at"), 30),
        (("expect", 0), {"wait.p99": "soon"}),
    ],
)
def test_what_is_refused_breaks_the_schema(
    tmp_path: Path, path: tuple[str | int, ...], value: Any
) -> None:
    spec = json.loads(json.dumps(ALL_FORMS))
    inner = spec
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    file = write(tmp_path, spec)
    with pytest.raises(ConfigError):
        read_scenario(file)
    validator = jsonschema.Draft202012Validator(schema())
    assert [*validator.iter_errors(json.loads(file.read_text(encoding="utf-8")))]


def first_error(folder: Path, spec: Spec) -> ConfigError:
    with pytest.raises(ConfigError) as raised:
        read(folder, spec)
    error = raised.value
    return error.errors[0] if isinstance(error, ConfigErrors) else error


def test_of_very_many_errors_the_first_are_shown(tmp_path: Path) -> None:
    spec: Spec = {"cluster": CLUSTER, **{f"x{number}": 1 for number in range(2000)}}
    with pytest.raises(ConfigErrors) as caught:
        read(tmp_path, spec)
    assert (len(caught.value.errors), caught.value.is_cut) == (50, True)
    assert caught.value.errors[0].path == "spec.x0"
