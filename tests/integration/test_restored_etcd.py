"""A scheduler whose API server is set back to a backup goes on with what is stored there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from mooring.testing.controlplane import ControlPlane
from tests.integration.embedded import make_node
from tests.integration.processes import mooring, wait_until

#: Objects that are lost, so that versions of before the restart are in the future after it.
LOST = 60


def _create(plane: ControlPlane, *objects: dict[str, Any]) -> None:
    body = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    plane.kubectl("create", "-f", "-", stdin=json.dumps(body))


def _pod(name: str, node: str) -> dict[str, Any]:
    container = {"name": "c", "image": "registry.k8s.io/pause:3.10"}
    selector = {"kubernetes.io/hostname": node}
    metadata = {"name": name, "namespace": "default"}
    spec = {"containers": [container], "nodeSelector": selector}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _node(name: str) -> dict[str, Any]:
    node = make_node(name)
    node["metadata"].setdefault("labels", {})["kubernetes.io/hostname"] = name
    return node


def _wait_for(plane: ControlPlane, pod: str, path: str, value: str) -> None:
    where = ("get", "pod", pod, f"--output=jsonpath={{{path}}}")
    wait_until(lambda: plane.kubectl(*where) == value)


def _stop(plane: ControlPlane) -> None:
    plane.apiserver.kill()
    plane.etcd.kill()


def _start(plane: ControlPlane) -> None:
    plane.etcd.restart()
    plane.apiserver.restart()
    plane.apiserver.wait_until_ready()


def test_what_a_backup_has_counts(programs: Path, tmp_path: Path) -> None:
    with ControlPlane(programs=programs) as plane:
        plane.kubectl("create", "serviceaccount", "default", "-n", "default")
        _create(plane, _node("old"), _node("other"))
        data, backup = plane.folder / "data", tmp_path / "backup"
        words = ("run", f"--kubeconfig={plane.kubeconfig('mooring')}", "--leader-elect=false")
        with mooring(tmp_path, *words) as program:
            _create(plane, _pod("first", "old"))
            _wait_for(plane, "first", ".spec.nodeName", "old")
            _stop(plane)
            shutil.copytree(data, backup)
            _start(plane)
            plane.kubectl("delete", "node", "old")
            _create(plane, _node("new"), _pod("lost", "new"))
            _wait_for(plane, "lost", ".spec.nodeName", "new")
            kind = {"apiVersion": "v1", "kind": "ConfigMap"}
            _create(plane, *({**kind, "metadata": {"name": f"lost-{i}"}} for i in range(LOST)))
            _stop(plane)
            shutil.rmtree(data)
            shutil.copytree(backup, data)
            _start(plane)

            _create(plane, _pod("on-old", "old"), _pod("on-new", "new"), _pod("on-other", "other"))
            _wait_for(plane, "on-old", ".spec.nodeName", "old")
            _wait_for(plane, "on-other", ".spec.nodeName", "other")
            _wait_for(plane, "on-new", ".status.conditions[0].reason", "Unschedulable")
            assert program.process.poll() is None
