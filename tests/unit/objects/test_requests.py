"""Requests of pods: tables of upstream's rules, and a scalar reference on random pods."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.objects.meta import ResourceList, ResourceRequirements
from mooring.objects.pod import (
    Container,
    ContainerPort,
    ContainerStatus,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
)
from mooring.objects.quantity import Quantity
from mooring.objects.requests import (
    HostPort,
    allocatable_units,
    balanced_scored_units,
    fit_scored_units,
    has_pod_level_requests,
    host_ports,
    is_extended_resource_name,
    is_resize_infeasible,
    is_scalar_resource_name,
    nonzero_requests,
    normalized_image_name,
    pod_requests,
    scheduler_units,
)

MIB = 1024 * 1024
RESIZE_REFUSED = PodCondition(type="PodResizePending", status="True", reason="Infeasible")
RESIZE_WAITS = PodCondition(type="PodResizePending", status="True", reason="Deferred")


def container(name: str = "c", *, sidecar: bool = False, **requests: str) -> Container:
    asked: ResourceList = {key.replace("_", "-"): value for key, value in requests.items()}
    return Container(
        name=name,
        resources=ResourceRequirements(requests=asked),
        restart_policy="Always" if sidecar else None,
    )


def held(name: str, *, in_force: ResourceList | None, granted: ResourceList) -> ContainerStatus:
    resources = None if in_force is None else ResourceRequirements(requests=in_force)
    return ContainerStatus(name=name, resources=resources, allocated_resources=granted)


def pod(*containers: Container, init: tuple[Container, ...] = (), **spec: Any) -> Pod:
    status = spec.pop("status", PodStatus())
    return Pod(spec=PodSpec(containers=containers, init_containers=init, **spec), status=status)


def units(found: Pod, *, use_status: bool = False) -> dict[str, int]:
    return scheduler_units(pod_requests(found, use_status=use_status))


def test_containers_are_summed_before_rounding() -> None:
    found = pod(container(cpu="100500u", memory="1500m"), container(cpu="100500u", memory="1500m"))
    assert units(found) == {"cpu": 201, "memory": 3}


def test_the_largest_init_container_counts_if_it_needs_more() -> None:
    starting = (container(cpu="2", memory="10Mi"), container(cpu="1", memory="90Mi"))
    found = pod(container(cpu="500m", memory="50Mi"), container(cpu="1"), init=starting)
    assert units(found) == {"cpu": 2000, "memory": 90 * MIB}


def test_a_sidecar_runs_beside_all_that_start_after_it() -> None:
    init = (
        container("first", cpu="3"),
        container("proxy", cpu="1", sidecar=True),
        container("second", cpu="3"),
        container("late", cpu="500m", sidecar=True),
    )
    # Starting: 3, then 1, then 3 + 1, then 1 + 0.5; running: 1 + 1 + 0.5.
    assert units(pod(container(cpu="1"), init=init)) == {"cpu": 4000}
    assert units(pod(container(cpu="4"), init=init)) == {"cpu": 5500}


def test_overhead_comes_on_top() -> None:
    found = pod(container(cpu="1"), overhead={"cpu": "250m", "memory": "120Mi"})
    assert units(found) == {"cpu": 1250, "memory": 120 * MIB}


def test_a_pods_own_requests_replace_the_sum_of_its_containers() -> None:
    own = ResourceRequirements(
        requests={"cpu": "3", "hugepages-2Mi": "4Mi", "example.com/gpu": "7"}
    )
    found = pod(container(cpu="9", memory="1Mi"), resources=own, overhead={"cpu": "1"})
    # Only cpu, memory and huge pages can be asked for by the pod itself.
    assert units(found) == {"cpu": 4000, "memory": MIB, "hugepages-2Mi": 4 * MIB}


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (None, False),
        (ResourceRequirements(), False),
        (ResourceRequirements(limits={"cpu": "1"}), False),
        (ResourceRequirements(requests={"example.com/gpu": "1"}), False),
        (ResourceRequirements(requests={"memory": "0"}), True),
        (ResourceRequirements(requests={"hugepages-1Gi": "1Gi"}), True),
    ],
)
def test_a_pod_has_requests_of_its_own(own: ResourceRequirements | None, *, expected: bool) -> None:
    assert has_pod_level_requests(pod(container(cpu="1"), resources=own)) is expected


def test_during_a_resize_the_most_of_wanted_granted_and_in_force_counts() -> None:
    status = PodStatus(
        container_statuses=(
            held("web", in_force={"cpu": "3", "memory": "1Mi"}, granted={"cpu": "2"}),
            held("db", in_force=None, granted={"cpu": "8"}),
        )
    )
    found = pod(container("web", cpu="1", memory="2Mi"), container("db", cpu="1"), status=status)
    assert units(found) == {"cpu": 2000, "memory": 2 * MIB}
    # "db" has no resources in its status: what it was granted does not count then.
    assert units(found, use_status=True) == {"cpu": 4000, "memory": 2 * MIB}


def test_a_resize_that_can_never_be_done_does_not_count() -> None:
    web = held("web", in_force={"cpu": "1"}, granted={"cpu": "2"})
    for condition, cpu in ((RESIZE_REFUSED, 2000), (RESIZE_WAITS, 9000)):
        status = PodStatus(container_statuses=(web,), conditions=(condition,))
        found = pod(container("web", cpu="9"), status=status)
        assert units(found, use_status=True) == {"cpu": cpu}
        assert is_resize_infeasible(found) is (condition is RESIZE_REFUSED)


def test_only_sidecars_among_the_init_containers_can_be_resized() -> None:
    status = PodStatus(
        init_container_statuses=(
            held("once", in_force={"cpu": "9"}, granted={}),
            held("proxy", in_force={"cpu": "3"}, granted={}),
        )
    )
    init = (container("once", cpu="1"), container("proxy", cpu="1", sidecar=True))
    found = pod(container(cpu="1"), init=init, status=status)
    assert units(found, use_status=True) == {"cpu": 4000}


def test_a_pods_own_requests_can_be_resized_too() -> None:
    own = ResourceRequirements(requests={"cpu": "1", "memory": "1Mi"})
    status = PodStatus(
        resources=ResourceRequirements(requests={"cpu": "2"}), allocated_resources={"cpu": "3"}
    )
    found = pod(container(cpu="7"), resources=own, status=status)
    assert units(found) == {"cpu": 1000, "memory": MIB}
    assert units(found, use_status=True) == {"cpu": 3000, "memory": MIB}


def test_what_an_infeasible_pod_resize_asks_for_anew_counts_as_nothing() -> None:
    own = ResourceRequirements(requests={"cpu": "9", "memory": "1Mi"})
    status = PodStatus(
        resources=ResourceRequirements(requests={"cpu": "2"}), conditions=(RESIZE_REFUSED,)
    )
    found = pod(container(cpu="1", memory="5Mi"), resources=own, status=status)
    assert units(found, use_status=True) == {"cpu": 2000, "memory": 0}


def test_a_container_that_asks_for_nothing_counts_in_scores() -> None:
    found = pod(container(cpu="1"), container(memory="0"))
    assert nonzero_requests(found) == (1100, 200 * MIB)
    assert nonzero_requests(pod(container(), container())) == (200, 400 * MIB)
    assert nonzero_requests(pod(container(cpu="0", memory="0"))) == (0, 0)


def test_init_containers_count_in_scores_too() -> None:
    assert nonzero_requests(pod(container(cpu="10m"), init=(container(),))) == (100, 200 * MIB)
    both = (container("s", sidecar=True), container("i"))
    assert nonzero_requests(pod(container(), init=both)) == (200, 400 * MIB)


def test_with_requests_of_its_own_only_what_nobody_asks_for_is_assumed() -> None:
    cpu_only = ResourceRequirements(requests={"cpu": "3"})
    # No container requests memory: each of the two counts with the default.
    assert nonzero_requests(pod(container(), container(), resources=cpu_only)) == (3000, 400 * MIB)
    # Memory is asked for by one container: the other one is not helped out.
    found = pod(container(memory="5Mi"), container(), resources=cpu_only)
    assert nonzero_requests(found) == (3000, 5 * MIB)


def test_fit_scores_what_is_assumed_and_balance_what_is_asked_for() -> None:
    found = pod(container(cpu="1"), container())
    assert balanced_scored_units(found, "cpu") == 1000
    assert fit_scored_units(found, "cpu") == 1100
    assert balanced_scored_units(found, "memory") == 0
    assert fit_scored_units(found, "memory") == 400 * MIB
    assert fit_scored_units(found, "example.com/gpu") == 0


def test_fit_scores_a_pod_without_its_own_requests_and_status() -> None:
    own = ResourceRequirements(requests={"cpu": "3"})
    status = PodStatus(container_statuses=(held("c", in_force={"memory": "9Mi"}, granted={}),))
    found = pod(container(cpu="1", memory="5Mi"), resources=own, status=status)
    assert (fit_scored_units(found, "cpu"), fit_scored_units(found, "memory")) == (1000, 5 * MIB)
    assert balanced_scored_units(found, "cpu") == 3000
    assert balanced_scored_units(found, "memory") == 9 * MIB


AMOUNTS = st.sampled_from(["0", "1m", "100500u", "250m", "1", "1.5", "3e0"])
RESOURCES = st.dictionaries(st.sampled_from(["cpu", "memory", "example.com/gpu"]), AMOUNTS)
FRACTIONS = {
    "0": Fraction(0), "1m": Fraction(1, 1000), "100500u": Fraction(1005, 10_000),
    "250m": Fraction(1, 4), "1": Fraction(1), "1.5": Fraction(3, 2), "3e0": Fraction(3),
}  # fmt: skip
CONTAINERS = st.lists(
    st.builds(
        lambda requests, policy: Container(
            resources=ResourceRequirements(requests=requests), restart_policy=policy
        ),
        RESOURCES,
        st.sampled_from([None, "Always"]),
    ),
    max_size=4,
)


def asked(found: Container, resource: str, default: Fraction | None) -> Fraction | None:
    raw = found.resources.requests.get(resource)
    return default if raw is None else FRACTIONS[str(raw)]


def peak(found: Pod, resource: str, default: Fraction | None = None) -> Fraction | None:
    """Returns the pod's need over its life: at every moment, what runs then is summed."""
    moments: list[list[Fraction | None]] = []
    running: list[Fraction | None] = []
    for init in found.spec.init_containers:
        need = asked(init, resource, default)
        moments.append([*running, need])
        if init.restart_policy == "Always":
            running.append(need)
    moments.append([*running, *(asked(one, resource, default) for one in found.spec.containers)])
    sums = [
        sum(filter(None, needs), Fraction(0))
        for needs in moments
        if any(n is not None for n in needs)
    ]
    return max(sums) if sums else None


@given(CONTAINERS, CONTAINERS)
def test_a_request_is_the_peak_over_a_pods_life(
    containers: list[Container], init: list[Container]
) -> None:
    found = pod(*containers, init=tuple(init))
    requests = pod_requests(found)
    for resource in ("cpu", "memory", "example.com/gpu"):
        need = peak(found, resource)
        exact = None if need is None else Quantity(int(need * 10**9))
        assert requests.get(resource) == exact


@given(CONTAINERS, CONTAINERS)
def test_what_scores_assume_is_the_peak_with_defaults(
    containers: list[Container], init: list[Container]
) -> None:
    found = pod(*containers, init=tuple(init))
    cpu = peak(found, "cpu", Fraction(1, 10)) or Fraction(0)
    memory = peak(found, "memory", Fraction(200 * MIB)) or Fraction(0)
    assert nonzero_requests(found) == (-(-cpu * 1000 // 1), -(-memory // 1))


@pytest.mark.parametrize(
    ("name", "extended", "scalar"),
    [
        ("example.com/gpu", True, True),
        ("alibabacloud.com/gpu-milli", True, True),
        ("cpu", False, False),
        ("storage", False, False),
        ("hugepages-2Mi", False, True),
        ("attachable-volumes-aws-ebs", False, True),
        ("kubernetes.io/batch", False, True),
        ("sub.kubernetes.io/x", False, True),
        ("requests.example.com/gpu", False, False),
        ("example.com/", False, False),
        ("Example.com/gpu", False, False),
        ("example.com/a/b", False, False),
        # The prefix must still fit when a quota writes "requests." before it.
        ("p" * 244 + "/x", True, True),
        ("p" * 245 + "/x", False, False),
    ],
)
def test_resource_names_are_distinguished(name: str, *, extended: bool, scalar: bool) -> None:
    assert is_extended_resource_name(name) is extended
    assert is_scalar_resource_name(name) is scalar


def test_only_what_a_scheduler_counts_becomes_units() -> None:
    amounts = {
        name: Quantity.parse("1500m")
        for name in ("cpu", "memory", "ephemeral-storage", "storage", "pods", "example.com/gpu")
    }
    assert scheduler_units(amounts) == {
        "cpu": 1500, "memory": 2, "ephemeral-storage": 2, "example.com/gpu": 2,
    }  # fmt: skip


def test_a_nodes_pods_are_counted_too() -> None:
    found = allocatable_units({"cpu": "4", "pods": "110", "memory": 1024, "odd": "1"})
    assert found == {"cpu": 4000, "memory": 1024, "pods": 110}
    assert allocatable_units({}) == {}


def test_host_ports_are_those_of_sidecars_and_containers() -> None:
    def on(port: int, **more: Any) -> ContainerPort:
        return ContainerPort(container_port=80, host_port=port, **more)

    web = Container(ports=(on(80), on(0), on(53, protocol="UDP", host_ip="10.0.0.1")))
    proxy = Container(ports=(on(90, protocol="SCTP"),), restart_policy="Always")
    once = Container(ports=(on(70),))
    assert host_ports(pod(web, init=(once, proxy))) == (
        HostPort("0.0.0.0", "SCTP", 90),
        HostPort("0.0.0.0", "TCP", 80),
        HostPort("10.0.0.1", "UDP", 53),
    )
    assert host_ports(pod(container())) == ()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("web", "web:latest"),
        ("web:1", "web:1"),
        ("host:5000/web", "host:5000/web:latest"),
        ("host:5000/web:1", "host:5000/web:1"),
        ("web@sha256:abc", "web@sha256:abc"),
        ("", ":latest"),
    ],
)
def test_an_image_without_a_tag_is_the_latest(name: str, expected: str) -> None:
    assert normalized_image_name(name) == expected
