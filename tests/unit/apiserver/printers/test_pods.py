"""The table of pods, held against the cases of upstream's own test.

Source of every expectation: TestPrintPod, TestPrintPodwide and TestPrintPodConditions in
k8s.io/kubernetes v1.36.3 pkg/printers/internalversion/printers_test.go.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mooring.apiserver.printers.tables import as_table, columns
from mooring.apiserver.resources import resource_named

PODS = resource_named("", "pods")
NOW = datetime(2026, 1, 10, tzinfo=UTC)
MINUTE, DAY = 60, 24 * 3600


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def container(
    state: str = "",
    reason: str = "",
    *,
    ready: bool = False,
    restarts: int = 0,
    ended_s_ago: float | None = None,
    name: str = "",
    **more: Any,
) -> dict[str, Any]:
    obj: dict[str, Any] = {"name": name, "ready": ready, "restartCount": restarts, "state": {}}
    if state:
        inside = {key: value for key, value in more.items() if key in ("exitCode", "signal")}
        obj["state"] = {state: {**({"reason": reason} if reason else {}), **inside}}
    if ended_s_ago is not None:
        obj["lastState"] = {"terminated": {"finishedAt": ago(ended_s_ago)}}
    return {**obj, **{key: value for key, value in more.items() if key == "started"}}


def running(**more: Any) -> dict[str, Any]:
    return container("running", **more)


def pod(
    *containers: dict[str, Any],
    phase: str = "podPhase",
    init: list[dict[str, Any]] | None = None,
    sidecars: tuple[str, ...] = (),
    count: int | None = None,
    metadata: dict[str, Any] | None = None,
    **status: Any,
) -> dict[str, Any]:
    init = init or []
    init_spec = [
        {"name": one["name"], **({"restartPolicy": "Always"} if one["name"] in sidecars else {})}
        for one in init
    ]
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "web", **(metadata or {})},
        "spec": {
            "containers": [{}] * (len(containers) if count is None else count),
            "initContainers": init_spec,
        },
        "status": {
            "phase": phase,
            "containerStatuses": list(containers),
            "initContainerStatuses": init,
            **status,
        },
    }


def row(obj: dict[str, Any]) -> Any:
    table = as_table(PODS, [obj], None, "None", now_s=NOW.timestamp())
    return table["rows"][0]


READY: dict[str, Any] = {"conditions": [{"type": "Ready", "status": "True"}]}
GATED: dict[str, Any] = {
    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]
}
DELETED = {"deletionTimestamp": ago(1)}
UP = running(ready=True, restarts=3)
CRASHED = container("terminated", "podCrash", exitCode=1)
DONE = container("terminated", "Completed", exitCode=0, ready=True, restarts=3)
AGAIN = running(restarts=3, ended_s_ago=10, name="a")


@pytest.mark.parametrize(
    ("obj", "ready", "status", "restarts"),
    [
        (pod(UP, container(restarts=3)), "1/2", "podPhase", "6"),
        (
            pod(UP, container("waiting", "ContainerWaitingReason", restarts=3)),
            "1/2",
            "ContainerWaitingReason",
            "6",
        ),
        (
            pod(
                container("waiting", "ContainerWaitingReason", restarts=3),
                container("terminated", "ContainerTerminatedReason", restarts=3),
            ),
            "0/2",
            "ContainerWaitingReason",
            "6",
        ),
        (pod(UP, container(ready=True, restarts=3)), "1/2", "podPhase", "6"),
        (pod(UP, container(ready=True, restarts=3), reason="podReason"), "1/2", "podReason", "6"),
        (pod(DONE, UP, phase="Running"), "1/2", "NotReady", "6"),
        (pod(DONE, UP, phase="Running", **READY), "1/2", "Running", "6"),
        (pod(container("waiting"), init=[AGAIN]), "0/1", "Init:0/1", "3 (10s ago)"),
        (
            pod(container("waiting"), init=[AGAIN, container("waiting", name="b")]),
            "0/1",
            "Init:0/2",
            "3 (10s ago)",
        ),
        (
            pod(
                container("waiting"),
                init=[container("terminated", name="b"), AGAIN],
            ),
            "0/1",
            "Init:1/2",
            "3 (10s ago)",
        ),
        (
            pod(
                container("waiting"),
                init=[
                    container("terminated", restarts=2, ended_s_ago=2 * MINUTE, name="b"),
                    AGAIN,
                ],
            ),
            "0/1",
            "Init:1/2",
            "5 (10s ago)",
        ),
        (
            pod(
                running(restarts=4, ended_s_ago=20),
                phase="Running",
                init=[container("terminated", restarts=2, ended_s_ago=2 * MINUTE, name="b")],
            ),
            "0/1",
            "Running",
            "4 (20s ago)",
        ),
        (
            pod(running(ready=True, restarts=3, ended_s_ago=5 * DAY), phase="Running"),
            "1/1",
            "Running",
            "3 (5d ago)",
        ),
        (
            pod(
                running(ready=True, restarts=6, ended_s_ago=5 * DAY),
                running(ready=True, restarts=3, ended_s_ago=20 * DAY),
                phase="Running",
            ),
            "2/2",
            "Running",
            "9 (5d ago)",
        ),
        (pod(count=2, **GATED), "0/2", "SchedulingGated", "0"),
        (pod(container("terminated", "Completed"), phase="Succeeded"), "0/1", "Completed", "0"),
        (
            pod(container("terminated", "Error", exitCode=1), phase="Failed"),
            "0/1",
            "Error",
            "0",
        ),
        (
            pod(container("terminated", "Completed"), phase="Succeeded", metadata=DELETED),
            "0/1",
            "Completed",
            "0",
        ),
        (pod(running(), phase="Running", metadata=DELETED), "0/1", "Terminating", "0"),
        (pod(count=1, phase="Pending", metadata=DELETED), "0/1", "Terminating", "0"),
        (
            pod(running(), phase="Running", metadata=DELETED, reason="NodeLost"),
            "0/1",
            "Unknown",
            "0",
        ),
        (pod(CRASHED, running(ready=True), phase="Failed"), "1/2", "podCrash", "0"),
        (pod(running(ready=True), CRASHED, phase="Failed"), "1/2", "podCrash", "0"),
        (
            pod(running(ready=True), CRASHED, DONE | {"restartCount": 0}, phase="Failed"),
            "1/3",
            "podCrash",
            "0",
        ),
        # A sidecar counts as a container once it has started.
        (
            pod(
                running(ready=True),
                phase="Running",
                init=[running(name="proxy", ready=True, started=True, restarts=1)],
                sidecars=("proxy",),
            ),
            "2/2",
            "Running",
            "1",
        ),
        (
            pod(
                container("waiting", "PodInitializing"),
                phase="Pending",
                init=[running(name="proxy", started=False)],
                sidecars=("proxy",),
            ),
            "0/2",
            "Init:0/1",
            "0",
        ),
        # How an init container ended, where it does not say why.
        (
            pod(container(), init=[container("terminated", name="a", signal=9, exitCode=137)]),
            "0/1",
            "Init:Signal:9",
            "0",
        ),
        (
            pod(container(), init=[container("terminated", name="a", exitCode=2)]),
            "0/1",
            "Init:ExitCode:2",
            "0",
        ),
        (
            pod(container(), init=[container("waiting", "CrashLoopBackOff", name="a")]),
            "0/1",
            "Init:CrashLoopBackOff",
            "0",
        ),
        (pod(container("terminated", exitCode=2)), "0/1", "ExitCode:2", "0"),
        (pod(container("terminated", signal=15, exitCode=143)), "0/1", "Signal:15", "0"),
    ],
)
def test_the_words_for_a_pod_are_upstreams(
    obj: dict[str, Any], ready: str, status: str, restarts: str
) -> None:
    assert row(obj)["cells"][:5] == ["web", ready, status, restarts, "<unknown>"]


def test_a_pod_that_is_over_says_so_beside_its_cells() -> None:
    over = row(pod(phase="Succeeded"))["conditions"]
    failed = row(pod(phase="Failed"))["conditions"]

    assert over == [
        {
            "type": "Completed",
            "status": "True",
            "reason": "Succeeded",
            "message": "The pod has completed successfully.",
        }
    ]
    assert (failed[0]["reason"], failed[0]["message"]) == ("Failed", "The pod failed.")
    assert "conditions" not in row(pod(phase="Running"))


def test_wide_cells_say_none_where_there_is_nothing() -> None:
    assert row(pod())["cells"][5:] == ["<none>"] * 4


def test_wide_cells_say_where_the_pod_is_and_will_be() -> None:
    obj = pod(
        phase="Pending",
        podIPs=[{"ip": "10.1.1.1"}, {"ip": "fd00::1"}],
        nominatedNodeName="n-2",
        conditions=[{"type": "a", "status": "True"}, {"type": "b", "status": "False"}],
        metadata={"creationTimestamp": ago(125)},
    )
    obj["spec"]["nodeName"] = "n-1"
    obj["spec"]["readinessGates"] = [{"conditionType": one} for one in ("a", "b", "c")]

    assert row(obj)["cells"][4:] == ["2m5s", "10.1.1.1", "n-1", "n-2", "1/3"]


def test_the_columns_are_kubectls() -> None:
    items = [(one["name"], one["type"], one["format"], one["priority"]) for one in columns("Pod")]

    assert items == [
        ("Name", "string", "name", 0),
        ("Ready", "string", "", 0),
        ("Status", "string", "", 0),
        ("Restarts", "string", "", 0),
        ("Age", "string", "", 0),
        ("IP", "string", "", 1),
        ("Node", "string", "", 1),
        ("Nominated Node", "string", "", 1),
        ("Readiness Gates", "string", "", 1),
    ]
    assert columns("Pod")[2]["description"] == (
        "The aggregate status of the containers in this pod."
    )
