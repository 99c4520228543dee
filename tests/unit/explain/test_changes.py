"""The smallest change that helps: the exact text; each change is repeated by hand elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.clock import VirtualClock, seeded_random
from mooring.config import default_configuration
from mooring.explain.changes.search import REMEDIES_MAX
from mooring.explain.explain import Explained
from mooring.objects.codec.decode import convert, to_builtins
from mooring.objects.pod import Pod
from mooring.simulation.driver import Driver
from mooring.simulation.utilization import Utilization
from mooring.state.audit import audit
from mooring.testing import make_node, make_pod
from tests.helpers.devices import (
    exactly,
    make_claim,
    make_class,
    make_device,
    make_slice,
    result_of,
)
from tests.helpers.volume_objects import claim, csi, csi_node, storage_class, volume
from tests.unit.explain.test_reasons import anti_affinity, spread, web, with_claims

HELP = "The smallest changes that help (each was decided again):"
TOGETHER = "No single change and no pair helps. Together these do (each set was decided again):"
NOTHING = "No change was found that helps: no single one, no pair, no set for one node."
PAIRS = "No single change helps. Pairs that do (each was decided again):"


def driver_of(*cluster: Any) -> Driver:
    config = default_configuration()
    return Driver(cluster, config=config, rng=seeded_random(1), clock=VirtualClock())


def node_for(new: Pod, *cluster: Any) -> str | None:
    """Returns the decision of a new scheduler."""
    return driver_of(*cluster).attempt(new).node


def remedies(new: Pod, *cluster: Any) -> list[str]:
    """Returns the lines about changes; checks that the cluster is as before."""
    driver = driver_of(*cluster)
    decision = driver.attempt(new, explain=True).decision()
    explained = Explained(
        new,
        decision,
        Utilization(cluster, pending=[new]),
        snapshot=driver.cache.snapshot(),
        framework=driver.frameworks["default-scheduler"],
        driver=driver,
    )
    assert explained.remedies is not None
    assert audit(driver.cache) == []
    assert driver.attempt(new, explain=True).decision() == decision
    lines = list(explained.lines())
    starts = [index for index, line in enumerate(lines) if "change" in line and line[0] != " "]
    return lines[starts[-1] :]


def without(pod: Pod, cluster: list[Any]) -> list[Any]:
    return [obj for obj in cluster if obj is not pod]


def edited(obj: Any, **parts: Any) -> Any:
    """Returns a copy of an object with changed fields of its spec or metadata."""
    document = to_builtins(obj)
    for part, fields in parts.items():
        document[part] = {**document.get(part, {}), **fields}
    return convert(document, type(obj).__name__)


def test_a_toleration_an_uncordoned_node_and_one_more_node() -> None:
    cluster = [make_node("a", taints=["team=db:NoSchedule"]), make_node("b", unschedulable=True)]
    new = make_pod("new")
    assert remedies(new, *cluster) == [
        HELP,
        "  - add a toleration of team=db:NoSchedule to the pod: the pod goes to a",
        "  - uncordon node b: the pod goes to b",
        "  - add a node like b (4 cpu, 32Gi memory): the pod goes to the new node",
    ]
    assert node_for(make_pod("new", tolerations=["team=db:NoSchedule"]), *cluster) == "a"
    assert node_for(new, cluster[0], make_node("b")) == "b"
    assert node_for(new, *cluster, make_node("c")) == "c"


def test_a_corrected_selector_comes_before_a_label() -> None:
    cluster = [make_node("a", labels={"disk": "ssd"}), make_node("b")]
    new = make_pod("new", node_selector={"disk": "ssdd"})
    assert remedies(new, *cluster) == [
        HELP,
        "  - set nodeSelector disk=ssd in the pod (instead of ssdd): the pod goes to a",
        "  - set the label disk=ssdd on node a: the pod goes to a",
    ]
    assert node_for(make_pod("new", node_selector={"disk": "ssd"}), *cluster) == "a"
    assert node_for(new, make_node("a", labels={"disk": "ssdd"}), cluster[1]) == "a"


def test_the_least_shortage_in_the_units_of_people() -> None:
    small = make_pod("small", node="a", requests={"cpu": "500m"})
    large = make_pod("large", node="b", requests={"cpu": "3"})
    cluster = [make_node("a"), make_node("b"), small, large]
    new = make_pod("new", requests={"cpu": "3600m"})
    assert remedies(new, *cluster) == [
        HELP,
        "  - request 0.1 cpu less in the pod (3.5 instead of 3.6): the pod goes to a",
        "  - give node a 0.1 cpu more: the pod goes to a",
        "  - remove pod default/small from node a: the pod goes to a",
        "  - remove pod default/large from node b: the pod goes to b",
        "  - add a node like a (4 cpu, 32Gi memory): the pod goes to the new node",
    ]
    assert node_for(make_pod("new", requests={"cpu": "3500m"}), *cluster) == "a"
    assert node_for(make_pod("new", requests={"cpu": "3501m"}), *cluster) is None
    assert node_for(new, *without(small, cluster)) == "a"
    assert node_for(new, *without(large, cluster)) == "b"


def test_the_pod_that_has_the_port_or_the_anti_affinity() -> None:
    user = make_pod("user", node="a", host_ports=[80])
    cluster = [make_node("a"), user]
    new = make_pod("new", host_ports=[80])
    assert remedies(new, *cluster)[1] == (
        "  - remove pod default/user from node a: the pod goes to a"
    )
    assert node_for(new, cluster[0]) == "a"
    lonely = make_pod("lonely", node="a", affinity=anti_affinity("web"))
    assert remedies(web("new", ""), make_node("a", zone="z"), lonely) == [
        HELP,
        "  - remove pod default/lonely from node a: the pod goes to a",
    ]


def test_a_label_of_affinity_that_is_nearly_that_of_a_pod() -> None:
    term = {
        "labelSelector": {"matchLabels": {"app": "databse"}},
        "topologyKey": "topology.kubernetes.io/zone",
    }
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    new = make_pod("new", affinity={"podAffinity": {required: [term]}})
    cluster = [make_node("a", zone="z"), make_pod("db", node="a", labels={"app": "database"})]

    assert remedies(new, *cluster) == [
        HELP,
        "  - require pods with app=database in the pod's affinity (instead of app=databse):"
        " the pod goes to a",
        "  - prefer instead of require the affinity to pods with app=databse by"
        " topology.kubernetes.io/zone in the pod: the pod goes to a",
    ]
    other = make_pod("db", node="a", labels={"app": "queue"})
    assert not any("require pods" in line for line in remedies(new, cluster[0], other))


def test_a_missing_claim_and_a_similar_one() -> None:
    cluster = [
        make_node("a"),
        claim("data", volume_name="pv1"),
        volume("pv1", claim="default/data"),
    ]
    new = make_pod("new", spec=with_claims("dta"))
    assert remedies(new, *cluster) == [
        HELP,
        "  - name claim data in the pod (instead of dta): the pod goes to a",
        "  - create claim default/dta, bound to a volume that all nodes reach: the pod goes to a",
    ]
    assert node_for(make_pod("new", spec=with_claims("data")), *cluster) == "a"


def test_a_missing_class_and_a_volume() -> None:
    pvc = claim("data", storage_class="fast")
    new = make_pod("new", spec=with_claims("data"))
    assert remedies(new, make_node("a"), pvc) == [
        HELP,
        "  - create class fast with a provisioner and WaitForFirstConsumer: the pod goes to a",
        "  - bind claim default/data to a volume of 1Gi of class fast that all nodes reach:"
        " the pod goes to a",
    ]
    assert node_for(new, make_node("a"), pvc, storage_class("fast", provisioner="p")) == "a"


def test_a_cordoned_node_with_the_only_local_volume() -> None:
    there = volume("there", near={"kubernetes.io/hostname": "w4"})
    cluster = [
        make_node("w1"),
        make_node("w4", unschedulable=True),
        storage_class(),
        claim("data"),
        there,
    ]
    new = make_pod("new", spec=with_claims("data"))
    assert remedies(new, *cluster)[1] == "  - uncordon node w4: the pod goes to w4"


def test_a_spread_constraint_that_rejects_all_domains() -> None:
    cluster = [make_node("a", zone="z1"), make_node("b", zone="z2", unschedulable=True)]
    new = make_pod("new", labels={"app": "web"}, spec=spread())
    assert remedies(new, *cluster, web("p", "a"))[1:] == [
        "  - uncordon node b: the pod goes to b",
        "  - set whenUnsatisfiable: ScheduleAnyway for the spread over topology.kubernetes.io/zone"
        " in the pod: the pod goes to a",
        "  - add a node like b (4 cpu, 32Gi memory): the pod goes to the new node",
    ]


def over(key: str) -> dict[str, Any]:
    """Returns the spec of a pod that is spread over the domains of a label."""
    (constraint,) = spread()["topologySpreadConstraints"]
    return {"topologySpreadConstraints": [{**constraint, "topologyKey": key}]}


def test_a_topology_key_that_no_node_has() -> None:
    cluster = [make_node("a"), make_node("b", labels={"rak": "r1"})]
    new = make_pod("new", labels={"app": "web"}, spec=over("rack"))
    assert remedies(new, *cluster) == [
        HELP,
        "  - spread over rak in the pod (instead of rack): the pod goes to b",
        "  - set the label rack=a on node a: the pod goes to a",
        "  - set whenUnsatisfiable: ScheduleAnyway for the spread over rack in the pod:"
        " the pod goes to a",
    ]
    assert node_for(make_pod("new", labels={"app": "web"}, spec=over("rak")), *cluster) == "b"
    assert node_for(new, make_node("a", labels={"rack": "a"}), cluster[1]) == "a"


def test_a_topology_key_that_some_nodes_lack() -> None:
    full = make_pod("full", node="b", requests={"cpu": "4"})
    cluster = [make_node("a"), make_node("b", labels={"rack": "r1"}), full]
    new = make_pod("new", labels={"app": "web"}, spec=over("rack"), requests={"cpu": "1"})
    assert remedies(new, *cluster)[1] == ("  - set the label rack=r1 on node a: the pod goes to a")
    assert node_for(new, make_node("a", labels={"rack": "r1"}), *cluster[1:]) == "a"


def test_scheduling_gates_are_removed() -> None:
    assert remedies(make_pod("new", gates=["wait"]), make_node("a")) == [
        HELP,
        "  - remove the scheduling gate wait from the pod: the pod goes to a",
    ]


def test_pairs_if_no_single_change_helps() -> None:
    tainted = make_node("a", taints=["team=db:NoSchedule"], unschedulable=True)
    new = make_pod("new", node_selector={"disk": "ssd"})
    cluster = [edited(tainted, spec={"unschedulable": False})]
    assert remedies(new, *cluster) == [
        PAIRS,
        "  - add a toleration of team=db:NoSchedule to the pod and set the label disk=ssd on"
        " node a: the pod goes to a",
    ]


def test_more_than_two_changes_of_one_node_are_combined() -> None:
    tainted = make_node(
        "a", labels={"disk": "hdd"}, taints=["team=db:NoSchedule"], unschedulable=True
    )
    new = make_pod("new", node_selector={"disk": "ssd"})
    assert remedies(new, tainted) == [
        TOGETHER,
        "  - uncordon node a, add a toleration of team=db:NoSchedule to the pod and set the label"
        " disk=ssd on node a: the pod goes to a",
    ]
    tolerant = make_pod("new", node_selector={"disk": "ssd"}, tolerations=["team=db:NoSchedule"])
    repaired = make_node("a", labels={"disk": "ssd"}, taints=["team=db:NoSchedule"])
    assert node_for(tolerant, repaired) == "a"
    assert node_for(new, repaired) is None
    assert node_for(tolerant, tainted) is None


def test_the_nearest_node_is_named_if_no_change_helps() -> None:
    taken = [make_pod(f"p{index}", node="a", affinity=anti_affinity("web")) for index in range(3)]
    cluster = [
        make_node("a", zone="z", unschedulable=True),
        make_node("b", zone="z", taints=["team=db:NoSchedule"], unschedulable=True),
        *taken,
    ]
    lines = remedies(web("new", ""), *cluster)
    assert lines[0] == NOTHING
    assert lines[1] == "The fewest rejections are those of node a. All of them must end:"
    assert lines[2] == ("  - NodeUnschedulable: the node is cordoned (spec.unschedulable is true)")
    assert len(lines) == 6
    assert all(
        line.startswith(f"  - InterPodAffinity: pod default/p{index} on a has anti-affinity to ")
        for index, line in enumerate(lines[3:])
    )


def test_a_resource_that_is_nearly_that_of_a_node() -> None:
    cluster = [make_node("a", allocatable={"nvidia.com/gpu": "2"}), make_node("b")]
    new = make_pod("new", requests={"nvidia.com/gpus": "1"})
    assert remedies(new, *cluster)[:2] == [
        HELP,
        "  - request nvidia.com/gpu in the pod (instead of nvidia.com/gpus): the pod goes to a",
    ]
    assert node_for(make_pod("new", requests={"nvidia.com/gpu": "1"}), *cluster) == "a"
    full = make_pod("full", node="a", requests={"nvidia.com/gpu": "2"})
    assert not any("instead of" in line for line in remedies(new, *cluster, full))


def affinity(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns required node affinity with these terms."""
    required = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("operator", "bound", "nearest", "label"), [("Gt", "4", "3", "5"), ("Lt", "2", "3", "1")]
)
def test_the_bound_that_the_nearest_node_meets(
    operator: str, bound: str, nearest: str, label: str
) -> None:
    values = {"Gt": ("4", "2"), "Lt": ("2", "4")}[operator]
    cluster = [
        make_node("far", labels={"gen": values[1]}),
        make_node("near", labels={"gen": values[0]}),
        make_node("word", labels={"gen": "x"}),
    ]
    new = make_pod("new", affinity=affinity([expression("gen", operator, bound)]))
    sign = {"Gt": ">", "Lt": "<"}[operator]
    assert remedies(new, *cluster) == [
        HELP,
        f"  - require gen{sign}{nearest} in the pod's node affinity (instead of gen{sign}{bound}):"
        " the pod goes to near",
        f"  - set the label gen={label} on node far: the pod goes to far",
    ]
    corrected = affinity([expression("gen", operator, nearest)])
    assert node_for(make_pod("new", affinity=corrected), *cluster) == "near"
    assert node_for(new, make_node("far", labels={"gen": label}), *cluster[1:]) == "far"
    assert node_for(new, make_node("far", labels={"gen": bound}), *cluster[1:]) is None


def test_a_bound_at_the_end_of_the_integers_is_not_passed() -> None:
    new = make_pod("new", affinity=affinity([expression("gen", "Gt", str(2**63 - 1))]))
    lines = remedies(new, make_node("a", labels={"gen": str(-(2**63))}))
    assert lines[0] == NOTHING


def test_a_value_and_a_key_of_node_affinity_that_are_nearly_right() -> None:
    cluster = [make_node("a", labels={"disk": "ssd", "zone": "z1"}), make_node("b")]
    terms = [expression("disk", "In", "ssdd", "nvme"), expression("zones", "In", "z1", "z2")]
    new = make_pod("new", affinity=affinity([expression("other", "Exists"), *terms], terms))
    assert remedies(new, *cluster)[:2] == [
        PAIRS,
        "  - require disk=ssd in the pod's node affinity (instead of disk in (nvme,ssdd)) and"
        " require zone in (z1,z2) in the pod's node affinity (instead of zones in (z1,z2)):"
        " the pod goes to a",
    ]
    corrected = [expression("disk", "In", "ssd"), expression("zone", "In", "z1", "z2")]
    assert node_for(make_pod("new", affinity=affinity(terms, corrected)), *cluster) == "a"


def test_two_edits_of_the_pod_are_as_small_as_one_of_a_node() -> None:
    cluster = [
        make_node("a", labels={"disk": "ssd"}, taints=["team=db:NoSchedule"]),
        make_node("b", labels={"disk": "hdd"}),
    ]
    new = make_pod("new", node_selector={"disk": "ssdd"})
    assert remedies(new, *cluster) == [
        HELP,
        "  - set the label disk=ssdd on node b: the pod goes to b",
        "  - add a toleration of team=db:NoSchedule to the pod and set nodeSelector disk=ssd in"
        " the pod (instead of ssdd): the pod goes to a",
    ]
    tolerations = ["team=db:NoSchedule"]
    corrected = make_pod("new", node_selector={"disk": "ssd"}, tolerations=tolerations)
    assert node_for(corrected, *cluster) == "a"


def test_a_key_of_a_node_selector_that_is_nearly_right() -> None:
    cluster = [make_node("a", labels={"disk": "ssd"}), make_node("b", labels={"disk": "hdd"})]
    new = make_pod("new", node_selector={"diks": "ssd"})
    assert remedies(new, *cluster)[1] == (
        "  - set nodeSelector disk=ssd in the pod (instead of diks=ssd): the pod goes to a"
    )
    assert node_for(make_pod("new", node_selector={"disk": "ssd"}), *cluster) == "a"


def test_three_pods_are_not_removed_together() -> None:
    lonely = [
        make_pod(f"lonely-{index}", node="a", affinity=anti_affinity("web")) for index in range(3)
    ]
    for count, line in ((2, PAIRS), (3, NOTHING)):
        lines = remedies(web("new", ""), make_node("a", zone="z"), *lonely[:count])
        assert lines[0].startswith(line)


def test_a_gate_and_a_rejection_are_a_pair() -> None:
    new = make_pod("new", gates=["wait"])
    assert remedies(new, make_node("a", unschedulable=True)) == [
        PAIRS,
        "  - remove the scheduling gate wait from the pod and uncordon node a: the pod goes to a",
        "  - remove the scheduling gate wait from the pod and add a node like a"
        " (4 cpu, 32Gi memory): the pod goes to the new node",
    ]


def test_there_are_at_most_five_lines() -> None:
    nodes = [make_node(f"n{index}", taints=[f"t{index}:NoSchedule"]) for index in range(9)]
    assert len(remedies(make_pod("new"), *nodes)) == 1 + REMEDIES_MAX


def test_a_pod_that_preempts_needs_no_change() -> None:
    cluster: list[Any] = [make_node("a"), make_pod("low", node="a", requests={"cpu": "3"})]
    new = make_pod("new", priority=5, requests={"cpu": "3"})
    driver = driver_of(*cluster)
    explained = Explained(
        new,
        driver.attempt(new, explain=True).decision(),
        Utilization(cluster),
        snapshot=driver.cache.snapshot(),
        framework=driver.frameworks["default-scheduler"],
        driver=driver,
    )
    assert explained.remedies is None


@pytest.mark.parametrize("seed", range(30))
def test_changes_on_random_clusters_leave_the_cluster_as_it_was(seed: int) -> None:
    rng = seeded_random(seed)
    nodes = [
        make_node(
            f"n{index}",
            zone=f"z{rng.randrange(3)}",
            labels={"disk": rng.choice(["ssd", "hdd"])},
            taints=rng.choice([[], ["team=db:NoSchedule"]]),
            unschedulable=rng.random() < 0.3,
        )
        for index in range(6)
    ]
    pods = [
        web(f"p{index}", f"n{rng.randrange(6)}", requests={"cpu": rng.choice(["1", "2"])})
        for index in range(8)
    ]
    new = make_pod(
        "new",
        labels={"app": "web"},
        node_selector=rng.choice([{}, {"disk": "nvme"}]),
        spec=spread() if rng.random() < 0.5 else {},
        requests={"cpu": rng.choice(["3", "4"])},
        host_ports=[80],
    )
    if node_for(new, *nodes, *pods) is None:
        remedies(new, *nodes, *pods)


# ---- devices, volumes of other pods, affinity ----


def gpus(node: str, *names: str, **more: Any) -> Any:
    return make_slice(node, [make_device(name, **more) for name in names], node=node)


def with_devices(*claims: str) -> dict[str, Any]:
    return {"resourceClaims": [{"name": name, "resourceClaimName": name} for name in claims]}


def taken(name: str, node: str) -> list[Any]:
    """Returns a pod and its claim, which has the device "d" of the node."""
    user = {"resource": "pods", "name": name, "uid": f"pod-default-{name}"}
    return [
        make_claim(
            f"of-{name}",
            exactly(),
            allocated=[result_of("d", node)],
            on=node,
            status={"reservedFor": [user]},
            finalizers=["resource.kubernetes.io/delete-protection"],
        ),
        make_pod(name, node=node, spec=with_devices(f"of-{name}")),
    ]


GPU = make_class("gpu", 'device.driver == "gpu.test"')


def test_a_pod_that_has_the_devices_is_removed_with_its_allocation() -> None:
    cluster = [make_node("a"), GPU, gpus("a", "d"), *taken("user", "a"), make_claim("c", exactly())]
    new = make_pod("new", spec=with_devices("c"))
    assert remedies(new, *cluster) == [
        HELP,
        "  - remove pod default/user from node a: the pod goes to a",
    ]
    assert node_for(new, *cluster[:3], cluster[-1]) == "a"


def test_fewer_devices_and_a_toleration_of_a_device() -> None:
    broken = [{"key": "broken", "effect": "NoSchedule"}]
    cluster = [make_node("a"), make_node("b"), GPU, gpus("a", "d"), gpus("b", "e", "f")]
    new = make_pod("new", spec=with_devices("c"))
    assert remedies(new, *cluster, make_claim("c", exactly(count=4))) == [
        HELP,
        "  - request 2 devices in request r of resource claim default/c (instead of 4);"
        " the claim must be deleted and created again: the pod goes to b",
    ]
    tainted = [make_node("a"), GPU, gpus("a", "d", taints=broken)]
    assert remedies(new, *tainted, make_claim("c", exactly())) == [
        HELP,
        "  - tolerate broken:NoSchedule in request r of resource claim default/c;"
        " the claim must be deleted and created again: the pod goes to a",
    ]


def test_a_resource_claim_and_a_class_that_are_nearly_right() -> None:
    cluster = [make_node("a"), GPU, gpus("a", "d")]
    new = make_pod("new", spec=with_devices("c"))
    assert remedies(new, *cluster, make_claim("cc", exactly())) == [
        HELP,
        "  - name resource claim cc in the pod (instead of c): the pod goes to a",
    ]
    assert remedies(new, *cluster, make_claim("c", exactly(device_class="gpuu"))) == [
        HELP,
        "  - request class gpu in resource claim default/c (instead of gpuu);"
        " the claim must be deleted and created again: the pod goes to a",
    ]


def test_the_user_of_an_attached_volume_and_of_a_disk() -> None:
    def own(name: str) -> list[Any]:
        bound = volume(f"pv-{name}", csi=csi(name), phase="Bound", claim=f"default/{name}")
        return [bound, claim(name, volume_name=f"pv-{name}")]

    user = make_pod("user", node="a", spec=with_claims("x"))
    limit = csi_node("a", disk_csi_test=1)
    cluster = [make_node("a"), limit, *own("x"), *own("y"), user]
    new = make_pod("new", spec=with_claims("y"))
    remove = "  - remove pod default/user from node a: the pod goes to a"
    assert remedies(new, *cluster) == [
        HELP,
        remove,
        "  - add a node like a (4 cpu, 32Gi memory): the pod goes to the new node",
    ]
    disk = {"volumes": [{"name": "v", "gcePersistentDisk": {"pdName": "disk"}}]}
    cluster = [make_node("a"), make_pod("user", node="a", spec=disk)]
    assert remedies(make_pod("new", spec=disk), *cluster)[1] == remove


def test_a_node_with_the_zone_of_the_volume() -> None:
    near = {"topology.kubernetes.io/zone": "y"}
    cluster = [
        make_node("a", zone="x"),
        volume("pv", near=near, phase="Bound", claim="default/data"),
        claim("data", volume_name="pv"),
    ]
    new = make_pod("new", spec=with_claims("data"))
    assert remedies(new, *cluster) == [
        HELP,
        "  - add a node like a (4 cpu, 32Gi memory) with topology.kubernetes.io/zone=y:"
        " the pod goes to the new node",
    ]
    assert node_for(new, *cluster, make_node("b", zone="y")) == "b"


def test_affinity_is_preferred_and_a_label_is_set() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "rack"}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    new = make_pod("new", affinity={"podAffinity": {required: [term]}})
    db = make_pod("db", node="a", labels={"app": "db"})
    cluster = [make_node("a", labels={"rack": "r1"}, unschedulable=True), make_node("b"), db]
    assert remedies(new, *cluster)[1:4] == [
        "  - uncordon node a: the pod goes to a",
        "  - set the label rack=r1 on node b: the pod goes to b",
        "  - prefer instead of require the affinity to pods with app=db by rack in the pod:"
        " the pod goes to b",
    ]
    assert node_for(new, cluster[0], make_node("b", labels={"rack": "r1"}), db) == "b"


def test_two_claims_and_a_taint_are_repaired_together() -> None:
    cluster = [make_node("a", taints=["team=db:NoSchedule"])]
    new = make_pod("new", spec=with_claims("x", "y"))
    assert remedies(new, *cluster) == [
        TOGETHER,
        "  - create claim default/x, bound to a volume that all nodes reach, create claim"
        " default/y, bound to a volume that all nodes reach and add a toleration of"
        " team=db:NoSchedule to the pod: the pod goes to a",
    ]
