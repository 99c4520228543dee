"""Files are checked as an API server would check what exists: errors with places, dumps pass."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from mooring.apiserver.registry.existing_objects import ExistingObjects
from mooring.errors import ConfigError, ConfigErrors
from mooring.objects.files.limits import ERRORS_MAX
from mooring.objects.files.reader import Objects, read_objects
from mooring.objects.kinds import KINDS
from mooring.objects.schema.checks import find_problems
from mooring.objects.schema.types import struct_of
from tests.helpers.contract_objects import NAMES, accepted_objects, as_in_a_file
from tests.helpers.paths import UNIT_DATA
from tests.integration.contract.scenarios_pods import BAD, GOOD

#: What real servers stored.
RECORDINGS = UNIT_DATA

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  containers:
  - name: c
    image: x
    resources:
      requests:
        cpu: "%s"
"""
IDENTITY = {
    "uid": "11111111-2222-4333-8444-555555555555",
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "resourceVersion": "7",
}


def read(path: Path, text: str) -> Objects:
    path.write_text(text, encoding="utf-8")
    return read_objects([path], validator=ExistingObjects())


def refusal(path: Path, text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        read(path, text)
    return caught.value


def lines(path: Path, error: ConfigError) -> list[str]:
    """Returns the lines of the message, without the name of the file."""
    return [line.removeprefix(f"{path}: ") for line in str(error).splitlines()]


def a_list(*objects: dict[str, Any]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, indent=1)


def pod(spec: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "x"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", **metadata},
        "spec": {"containers": [container], **(spec or {})},
    }


# ---------------------------------------------------------------- what is refused


def test_a_negative_request_is_refused_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    error = refusal(path, POD % ("a", "1") + "---\n" + POD % ("b", "-1"))
    assert (error.document, error.line) == (2, 21)
    assert lines(path, error) == [
        "document 2: line 21: spec.containers[0].resources.requests[cpu]: "
        'Invalid value: "-1": must be greater than or equal to 0'
    ]


def test_an_unknown_field_is_refused_with_the_name_that_was_meant(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    error = refusal(path, (POD % ("a", "1")).replace("containers", "contaners"))
    assert lines(path, error) == [
        "document 1: line 5: spec.contaners: unknown field (did you mean 'containers'?)"
    ]


def test_all_errors_are_reported_in_the_order_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    documents = [
        POD % ("a", "-1"),
        (POD % ("b", "1")).replace("image", "imgae"),
        POD % ("c", "one"),
        POD % ("d", "1"),
        POD % ("d", "1"),
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: e}\nspec: {replicsa: 2}\n",
    ]
    error = refusal(path, "---\n".join(documents))
    assert isinstance(error, ConfigErrors)
    assert [(each.document, each.line, each.path) for each in error.errors] == [
        (1, 10, "spec.containers[0].resources.requests[cpu]"),
        (2, 18, "spec.containers[0].imgae"),
        (3, 32, "spec.containers[0].resources.requests.cpu"),
        (5, 47, "metadata.name"),
        (6, 59, "spec.replicsa"),
    ]
    assert len(lines(path, error)) == 5


def test_many_errors_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    texts = [POD % (f"p{number}", "-1") for number in range(ERRORS_MAX + 5)]
    shown = lines(path, refusal(path, "---\n".join(texts)))
    assert len(shown) == ERRORS_MAX + 1
    assert shown[-1] == f"only the first {ERRORS_MAX} errors are listed"


def test_errors_inside_lists_and_of_other_files_have_their_places(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(a_list(pod(), pod({"restartPolicy": "Maybe"}, name="q")))
    (tmp_path / "b.yaml").write_text(POD % ("r", "-1"))
    with pytest.raises(ConfigErrors) as caught:
        read_objects([tmp_path], validator=ExistingObjects())
    first, second = caught.value.errors
    assert (Path(first.file or "").name, first.path) == ("a.json", "items[1].spec.restartPolicy")
    written = (tmp_path / "a.json").read_text().splitlines()
    assert '"restartPolicy"' in written[(first.line or 0) - 1]
    assert (Path(second.file or "").name, second.line) == ("b.yaml", 10)


def test_a_class_that_cannot_be_read_is_one_error_and_its_pods_are_none(tmp_path: Path) -> None:
    priority = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\n"
    path = tmp_path / "a.yaml"
    text = POD % ("a", "1") + "  priorityClassName: high\n---\n" + priority + "value: ten\n"
    error = refusal(path, text)
    assert lines(path, error) == ["document 2: line 16: value: must be an integer, got 'ten'"]


def test_a_missing_class_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    error = refusal(path, POD % ("a", "1") + "  priorityClassName: system-node-crital\n")
    assert (error.line, error.path) == (11, "spec.priorityClassName")
    assert error.suggestion == "system-node-critical"


#: Taken from files though a create is refused: there are no runtime classes that would add an
#: overhead, and files for trying things out say a priority without a class.
TAKEN_FROM_FILES = {"overhead", "priority_of_its_own"}


@pytest.mark.parametrize("name", [name for name in BAD if name not in TAKEN_FROM_FILES])
def test_what_a_create_refuses_is_refused(name: str, tmp_path: Path) -> None:
    refusal(tmp_path / "a.json", json.dumps(pod(BAD[name])))


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("hostNetwork", "yes", "must be true or false"),
        ("volumes", {}, "must be a list"),
        ("securityContext", [], "must be a mapping"),
        ("nodeSelector", {"a": 1}, "must be a string; put it in quotes"),
        ("activeDeadlineSeconds", 1.5, "must be an integer"),
        ("activeDeadlineSeconds", 2**63, "must fit into 64 bits"),
    ],
)
def test_wrong_types_are_refused_though_no_scheduler_reads_them(
    field: str, value: Any, problem: str, tmp_path: Path
) -> None:
    error = refusal(tmp_path / "a.json", json.dumps(pod({field: value})))
    assert error.problem == problem
    assert (error.path or "").startswith(f"spec.{field}")


def test_an_old_version_of_a_kind_is_one_error_of_several(tmp_path: Path) -> None:
    old = {"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}}
    error = refusal(tmp_path / "a.json", a_list(old, pod({"restartPolicy": "Maybe"})))
    assert isinstance(error, ConfigErrors)
    assert [each.path for each in error.errors] == [
        "items[0].apiVersion",
        "items[1].spec.restartPolicy",
    ]


def test_half_a_character_in_json_is_no_accident(tmp_path: Path) -> None:
    error = refusal(tmp_path / "a.json", json.dumps(pod({"nodeSelector": {"disk": "\ud800"}})))
    assert error.path == "spec.nodeSelector"


# ---------------------------------------------------------------- what passes


def test_without_a_validator_all_of_it_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    broken = pod({"contaners": [], "securityContext": [], "restartPolicy": "Maybe"})
    path.write_text(json.dumps(broken))
    (result,) = read_objects([path])
    assert result.metadata.name == "p"


@pytest.mark.parametrize("name", GOOD)
def test_what_a_create_takes_passes(name: str, tmp_path: Path) -> None:
    assert len(read(tmp_path / "a.json", json.dumps(pod(GOOD[name])))) == 1


@pytest.mark.parametrize("name", NAMES)
def test_dumps_of_what_a_server_accepted_pass(name: str, tmp_path: Path) -> None:
    for number, case in enumerate(accepted_objects(name)):
        same = (case.stored["kind"], case.stored["metadata"]["name"])
        others = [
            each for each in case.surroundings if (each["kind"], each["metadata"]["name"]) != same
        ]
        dump = a_list(*others, case.stored)
        assert read(tmp_path / f"{number}.json", dump)[-1].metadata.name == same[1]
        written = as_in_a_file(case)
        kind = KINDS[written["kind"]]
        if any(find_problems(struct_of(kind.group, kind.name), written)):
            continue  # a request is only warned of unknown fields, unless it says otherwise
        assert read(tmp_path / f"{number}-written.json", a_list(*others, written))


def test_what_only_a_running_pod_has_is_fine(tmp_path: Path) -> None:
    managed = {
        "manager": "kubelet",
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:status": {}},
        "subresource": "status",
    }
    spec = {
        "nodeName": "n",
        "priority": 7,
        "priorityClassName": "gone",
        "ephemeralContainers": [
            {
                "name": "debug",
                "image": "x",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "Always",
            }
        ],
    }
    status = {
        "phase": "Running",
        "qosClass": "BestEffort",
        "conditions": [{"type": "Ready", "status": "True", "lastProbeTime": None}],
        "containerStatuses": [
            {
                "name": "c",
                "image": "x",
                "imageID": "",
                "ready": True,
                "restartCount": 1,
                "started": True,
                "state": {"running": {"startedAt": "2026-01-01T00:00:01Z"}},
                "lastState": {},
            }
        ],
    }
    running = pod(spec, **IDENTITY, managedFields=[managed], generation=2)
    going = pod(
        spec,
        **{**IDENTITY, "name": "q", "uid": "2"},
        deletionTimestamp="2026-01-01T00:01:00Z",
        deletionGracePeriodSeconds=30,
        finalizers=["example.com/wait"],
    )
    pods = read(tmp_path / "a.json", a_list({**running, "status": status}, going))
    assert [pod.metadata.name for pod in pods] == ["p", "q"]
    assert pods[1].metadata.deletion_timestamp == "2026-01-01T00:01:00Z"


def test_kinds_that_the_server_does_not_know_are_counted(tmp_path: Path) -> None:
    own = {"apiVersion": "apps.example.com/v1", "kind": "Deployment", "metadata": {}, "any": 1}
    old = {"apiVersion": "extensions/v1beta1", "kind": "Ingress", "metadata": {}, "any": 1}
    obj = read(tmp_path / "a.json", a_list(own, old))
    assert obj.skipped == {"Deployment": 1, "Ingress": 1}


@pytest.mark.parametrize("file", sorted(RECORDINGS.glob("*.json.gz")), ids=lambda file: file.stem)
def test_the_objects_of_recordings_pass(file: Path, tmp_path: Path) -> None:
    objects = json.loads(gzip.decompress(file.read_bytes()))["objects"]
    assert len(read(tmp_path / "a.json", a_list(*objects))) == len(objects)


def test_an_old_api_version_is_an_error_but_for_dumps_of_other_versions(tmp_path: Path) -> None:
    file = tmp_path / "old.yaml"
    file.write_text(
        "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: b}\n---\n"
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"
    )

    with pytest.raises(ConfigError, match="is read only as policy/v1, got 'policy/v1beta1'"):
        read_objects([file], validator=ExistingObjects())
    objects = read_objects([file])

    assert [obj.metadata.name for obj in objects] == ["shop"]
    assert objects.skipped == {"PodDisruptionBudget of policy/v1beta1": 1}
