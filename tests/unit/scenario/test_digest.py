"""The digest of a small scenario is the same in every Python, process and port.

Each Python of the CI runs this test: the constant was computed once. ``python -m bench
python_versions`` compares larger scenarios. A change that is meant to change results replaces it.
"""

from __future__ import annotations

from typing import Any, Final

from mooring.study.scenario import Scenario

DIGEST: Final = "e1ec3b791f686b4632d39a617d0d076cc29c48a86e04adc0e29f14f3a88dd7f7"


def pod(cpu: str) -> dict[str, Any]:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    return {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}}


def test_a_scenario_has_its_recorded_digest() -> None:
    amounts = {"cpu": "8", "memory": "64Gi", "pods": "110"}
    template = {"status": {"allocatable": amounts}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {
            "parallelism": 2,
            "completions": 3,
            "template": {"spec": {**pod("1")["spec"], "restartPolicy": "Never"}},
        },
    }
    scenario = Scenario(
        seed=7,
        end={"at": "1h"},
        cluster={
            "nodes": [{"count": 3, "name": "n-", "template": template}],
            "groups": [{"name": "g", "max": 2, "price": 1.0, "template": template}],
        },
        pods={"start": "1s", "duration": {"exponential": {"mean": "8m"}}, "failure": 0.05},
        workload=[
            {
                "name": "a",
                "arrive": {"poisson": {"rate": "2/min", "until": "50m"}},
                "object": pod("1500m"),
            },
            {
                "name": "j",
                "arrive": {"interval": {"every": "10m", "until": "50m"}},
                "object": job,
            },
            {"name": "d", "at": "30m", "drain": {"node": "n-1"}},
        ],
        failures=[{"mtbf": "1h", "mttr": "10m"}],
    )

    assert scenario.run().digest == DIGEST
