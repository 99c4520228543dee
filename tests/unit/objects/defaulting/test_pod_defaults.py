"""Pod-level resources completed from the containers' own: the rules one by one.

300 whole pods are compared with an API server's answers in ``test_admission``.
"""

from __future__ import annotations

import pytest

from mooring.objects.quantity import Quantity
from tests.helpers.admitted import admitted_pod, complete_pod, made, pod

Resources = dict[str, dict[str, str]]


def of_pod(own: Resources, *containers: Resources, init: tuple[Resources, ...] = ()) -> Resources:
    """Returns the pod-level resources after defaulting."""
    spec = {
        "resources": own,
        "containers": [{"resources": each} for each in containers],
        "initContainers": [{"resources": each} for each in init],
    }
    found = complete_pod(pod(spec)).spec.resources
    assert found is not None
    return {
        "limits": {name: str(raw) for name, raw in found.limits.items()},
        "requests": {name: str(raw) for name, raw in found.requests.items()},
    }


def asked(**requests: str) -> Resources:
    return {"requests": requests}


def test_nothing_given_stays_nothing() -> None:
    assert complete_pod(pod({"containers": [{"resources": asked(cpu="1")}]})).spec.resources is None
    assert of_pod({}, asked(cpu="1")) == {"limits": {}, "requests": {}}


def test_requests_alone_bring_no_more_requests() -> None:
    found = of_pod(asked(cpu="1"), asked(memory="1Gi"))
    assert found == {"limits": {}, "requests": {"cpu": "1"}}


def test_limits_bring_the_containers_requests() -> None:
    found = of_pod({"limits": {"cpu": "4"}}, asked(cpu="1", memory="1Gi"), asked(cpu="500m"))
    assert found == {"limits": {"cpu": "4"}, "requests": {"cpu": "1500m", "memory": "1Gi"}}


def test_limits_are_the_requests_if_no_container_asks() -> None:
    found = of_pod({"limits": {"cpu": "4", "memory": "2Gi"}}, asked(cpu="1"))
    assert found["requests"] == {"cpu": "1", "memory": "2Gi"}


def test_requests_of_the_pod_are_kept() -> None:
    own = {"limits": {"cpu": "4"}, "requests": {"cpu": "3"}}
    assert of_pod(own, asked(cpu="1"))["requests"] == {"cpu": "3"}


def test_init_containers_count_by_the_largest() -> None:
    found = of_pod({"limits": {"cpu": "9"}}, asked(cpu="1"), init=(asked(cpu="3"), asked(cpu="2")))
    assert found["requests"] == {"cpu": "3"}


def test_resources_that_a_pod_cannot_have_stay_with_the_containers() -> None:
    gpu = {"example.com/gpu": "1"}
    found = of_pod({"limits": {"cpu": "4"}}, {"requests": gpu, "limits": gpu})
    assert found["requests"] == {"cpu": "4"}


@pytest.mark.parametrize(
    ("own", "limits", "requests"),
    [
        # The containers' huge pages become the pod's limit, and from there its request.
        ({"limits": {"cpu": "1"}}, {"cpu": "1", "hugepages-2Mi": "6Mi"}, "6Mi"),
        ({"requests": {"cpu": "1"}}, {"hugepages-2Mi": "6Mi"}, "6Mi"),
        # Unless the pod has a request or a limit of its own.
        ({"limits": {"cpu": "1"}, "requests": {"hugepages-2Mi": "8Mi"}}, {"cpu": "1"}, "8Mi"),
        ({"limits": {"hugepages-2Mi": "8Mi"}}, {"hugepages-2Mi": "8Mi"}, "8Mi"),
    ],
)
def test_huge_pages(own: Resources, limits: dict[str, str], requests: str) -> None:
    box = {"limits": {"hugepages-2Mi": "2Mi"}, "requests": {"hugepages-2Mi": "2Mi"}}
    large = {"limits": {"hugepages-2Mi": "4Mi"}, "requests": {"hugepages-2Mi": "4Mi"}}
    found = of_pod(own, box, large)
    assert found["limits"] == limits
    assert found["requests"]["hugepages-2Mi"] == requests


def test_overhead_is_rounded_but_not_counted_as_a_request() -> None:
    spec = {
        "resources": {"limits": {"cpu": "4"}},
        "overhead": {"cpu": "100u"},
        "containers": [{"resources": asked(cpu="1")}],
    }
    found = complete_pod(pod(spec)).spec
    assert found.resources is not None
    assert found.resources.requests == {"cpu": "1"}
    assert Quantity.from_wire(found.overhead["cpu"]) == Quantity.parse("1m")


def test_names_and_grace_period() -> None:
    spec = complete_pod(pod({})).spec
    assert (spec.scheduler_name, spec.termination_grace_period_seconds) == ("default-scheduler", 30)
    spec = complete_pod(pod({"schedulerName": "x", "terminationGracePeriodSeconds": 0})).spec
    assert (spec.scheduler_name, spec.termination_grace_period_seconds) == ("x", 0)


def test_phase_is_pending_unless_known() -> None:
    assert admitted_pod(pod({})).status.phase == "Pending"
    running = made("Pod", status={"phase": "Running"})
    assert admitted_pod(running).status.phase == "Running"
