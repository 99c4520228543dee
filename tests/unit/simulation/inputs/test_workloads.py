"""Workloads of an input: replaced, and with other replicas."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.errors import ConfigError
from mooring.simulation.inputs.workloads import merged, scaled


def workload(name: str, replicas: int, kind: str = "Deployment", **metadata: Any) -> Any:
    metadata = {"name": name, "namespace": "shop", **metadata}
    return {"kind": kind, "metadata": metadata, "spec": {"replicas": replicas}}


def test_a_file_replaces_the_spec_and_not_the_identity() -> None:
    live, other = workload("web", 2, uid="u"), workload("db", 1, uid="v")
    new = [workload("web", 5), workload("new", 1)]

    assert merged([live, other], new) == [
        workload("web", 5, uid="u"),
        other,
        workload("new", 1),
    ]


@pytest.mark.parametrize("name", ["deployment/web", "Deployment/shop/web"])
def test_a_workload_gets_other_replicas(name: str) -> None:
    web, stateful = workload("web", 2), workload("web", 1, "StatefulSet")

    assert scaled([web, stateful], name, 0) == [workload("web", 0), stateful]
    assert web["spec"]["replicas"] == 2


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("web", "must be KIND/NAME"),
        ("daemonset/web", "must be KIND/NAME"),
        ("deployment/", "must be KIND/NAME"),
        ("deployment/other/web", "no such workload"),
        ("deployment/shop/wed", r"did you mean 'deployment/shop/web'\?"),
        ("statefulset/db", "several workloads have this name"),
    ],
)
def test_a_name_that_is_no_workload_is_an_error(name: str, problem: str) -> None:
    sets = [workload("db", 1, "StatefulSet", namespace=space) for space in ("a", "b")]

    with pytest.raises(ConfigError, match=problem):
        scaled([workload("web", 2), *sets], name, 1)
