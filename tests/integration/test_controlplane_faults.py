"""A control plane of one's own: killed, frozen, compacted, with and without the other parts."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mooring.testing.controlplane import ControlPlane, ControlPlaneFailed
from mooring.testing.controlplane.ports import listening

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "one"},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
}


def pod(name: str, scheduler: str) -> str:
    spec = {"schedulerName": scheduler, "containers": [{"name": "main", "image": "some"}]}
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    return json.dumps(document)


@pytest.fixture(scope="module")
def own(programs: Path) -> Iterator[ControlPlane]:
    """One for this module; every test leaves it running."""
    configuration = {"profiles": [{"schedulerName": "renamed"}]}
    with ControlPlane(scheduler=True, scheduler_configuration=configuration) as plane:
        plane.kubectl("create", "--filename=-", stdin=json.dumps(NODE))
        yield plane


def page(plane: ControlPlane, query: str) -> Any:
    return json.loads(plane.kubectl("get", "--raw", f"/api/v1/namespaces?{query}"))


def test_kube_scheduler_binds_with_the_configuration_it_was_given(own: ControlPlane) -> None:
    own.kubectl("create", "--filename=-", stdin=pod("ours", "renamed"))
    own.kubectl("create", "--filename=-", stdin=pod("others", "default-scheduler"))
    scheduled = ("--for=condition=PodScheduled", "--timeout=30s")
    own.kubectl("wait", "pod/ours", *scheduled)
    found = own.kubectl("get", "pods", "--output=jsonpath={.items[*].spec.nodeName}")
    assert found == "one"


def test_a_killed_server_refuses_and_comes_back_as_it_was(own: ControlPlane) -> None:
    own.kubectl("create", "namespace", "kept")
    pid, url = own.apiserver.pid, own.url

    own.apiserver.kill()

    assert not own.apiserver.is_running
    assert not Path(f"/proc/{pid}").exists()
    refused = own.kubectl_result("get", "namespace", "kept")
    assert "was refused" in refused.stderr
    own.apiserver.restart()
    assert own.apiserver.pid != pid
    assert own.url == url
    assert own.kubectl("get", "namespace", "kept", "--output=name") == "namespace/kept\n"


def test_a_killed_etcd_comes_back_with_its_data(own: ControlPlane) -> None:
    own.kubectl("create", "namespace", "deep")
    own.etcd.kill()
    own.etcd.restart()
    own.apiserver.wait_until_ready()
    assert own.kubectl("get", "namespace", "deep", "--output=name") == "namespace/deep\n"


def test_a_restart_of_what_runs_is_a_kill_and_a_start(own: ControlPlane) -> None:
    pid = own.scheduler.pid
    own.scheduler.restart()
    assert own.scheduler.pid != pid
    assert not Path(f"/proc/{pid}").exists()


def test_a_server_that_is_asked_to_end_says_goodbye(own: ControlPlane) -> None:
    own.scheduler.kill()  # its watches would keep the server for a minute
    own.apiserver.terminate()
    assert not own.apiserver.is_running
    assert "shutdown" in own.apiserver.log.read_text().lower()
    own.apiserver.restart()
    own.scheduler.restart()


def test_a_frozen_server_does_not_answer_until_it_goes_on(own: ControlPlane) -> None:
    own.apiserver.pause()
    frozen = own.kubectl_result("get", "--raw", "/livez", "--request-timeout=300ms")
    assert frozen.returncode == 1
    own.apiserver.resume()
    assert own.kubectl("get", "--raw", "/livez") == "ok"


def test_after_a_compaction_the_rest_of_an_old_list_is_gone(own: ControlPlane) -> None:
    old = page(own, "limit=1")["metadata"]["continue"]
    own.kubectl("create", "namespace", "newer")
    # The watch cache keeps recent lists of its own; and nothing may be written in between.
    own.apiserver.kill()

    revision = own.compact()
    with pytest.raises(ControlPlaneFailed, match=r"etcd: .*compacted"):
        own.compact()
    own.apiserver.restart()
    gone = own.kubectl_result("get", "--raw", f"/api/v1/namespaces?limit=1&continue={old}")

    assert "too old" in gone.stderr
    assert revision > 1
    assert {"default", "newer"} <= {item["metadata"]["name"] for item in page(own, "")["items"]}


def test_controllers_work_and_a_named_folder_stays(programs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "plane"
    with ControlPlane(controller_manager=True, folder=folder) as plane:
        plane.kubectl("create", "deployment", "web", "--image=some", "--replicas=2")
        made = ("--for=create", "--timeout=30s", "--selector=app=web")
        plane.kubectl("wait", "pods", *made)
        assert [part.name for part in plane.parts][2:] == ["kube-controller-manager"]
        ports = {int(part.readiness.url.rpartition(":")[2]) for part in plane.parts}
        assert ports <= listening()
    # A folder that the caller named stays, for those who look into logs.
    assert (folder / "logs" / "kube-controller-manager.log").stat().st_size > 0
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not ports & listening()
    with pytest.raises(ControlPlaneFailed, match=r"plane is not empty"):
        ControlPlane(folder=folder).__enter__()


def test_a_start_that_fails_shows_the_end_of_the_log_and_leaves_no_key(programs: Path) -> None:
    with pytest.raises(ControlPlaneFailed) as raised:
        ControlPlane(apiserver_arguments=["--no-such-flag"]).__enter__()

    first, *tail = str(raised.value).splitlines()
    assert first.startswith("kube-apiserver: ended while starting (exit code 1); log: /")
    assert "unknown flag: --no-such-flag" in "\n".join(tail)
    log = Path(first.rpartition("log: ")[2])
    folder = log.parents[1]
    assert "unknown flag" in log.read_text()
    assert [path.name for path in folder.iterdir()] == ["logs"]
    for path in log.parent.iterdir():
        path.unlink()
    log.parent.rmdir()
    folder.rmdir()


def test_a_start_that_takes_too_long_is_given_up(programs: Path, tmp_path: Path) -> None:
    with pytest.raises(ControlPlaneFailed, match=r"(?s)not ready after 0.01 s: .*; log: "):
        ControlPlane(folder=tmp_path / "plane", start_s_max=0.01).__enter__()
