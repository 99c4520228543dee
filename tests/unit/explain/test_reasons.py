"""The causes of rejections, with the exact text: the cluster is read by the real plugins."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.clock import VirtualClock, seeded_random
from mooring.config import default_configuration, from_document
from mooring.explain.explain import explain
from mooring.objects.codec.decode import convert
from mooring.objects.node import Taint
from mooring.objects.pod import Pod, Toleration
from mooring.objects.tolerations import tolerates
from mooring.simulation.driver import Driver
from mooring.simulation.utilization import Utilization
from mooring.testing import make_node, make_pod
from tests.helpers.volume_objects import claim, storage_class, volume

ZONE = "topology.kubernetes.io/zone"
GROUP = "of 4 cpu, 32Gi memory:"


def explained(new: Pod, *cluster: Any, config: dict[str, Any] | None = None) -> str:
    """Returns the explanation without the counts by plugin, and without the message."""
    configuration = default_configuration() if config is None else from_document(config)
    driver = Driver(cluster, config=configuration, rng=seeded_random(1), clock=VirtualClock())
    decision = driver.attempt(new, explain=True).decision()
    text = explain(
        new,
        decision,
        Utilization(cluster),
        snapshot=driver.cache.snapshot(),
        framework=driver.frameworks[new.spec.scheduler_name],
    )
    text = text.partition("\n\nMessage:")[0]
    for start in ("What is missing, by group of nodes:\n", "rejected the pod before any node"):
        if start in text:
            return (
                text.partition(start)[2].partition(" was filtered:\n")[2]
                or text.partition(start)[2]
            )
    return text


def lines(text: str) -> str:
    """Returns the text of a test without its first line and its indentation."""
    return "\n".join(line[4:] for line in text.strip("\n").splitlines()).rstrip()


def anti_affinity(value: str) -> dict[str, Any]:
    return {"podAntiAffinity": _required(value)}


def affinity(value: str) -> dict[str, Any]:
    return {"podAffinity": _required(value)}


def _required(value: str) -> dict[str, Any]:
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": value}}}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def node_affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def spread(**fields: Any) -> dict[str, Any]:
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
        **fields,
    }
    return {"topologySpreadConstraints": [constraint]}


def with_claims(*names: str) -> dict[str, Any]:
    return {
        "volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    }


def web(name: str, node: str, **fields: Any) -> Pod:
    return make_pod(name, node=node, labels={"app": "web"}, **fields)


# ---- plugins that read a node alone ----


def test_each_taint_is_named_with_the_toleration_that_would_do() -> None:
    cluster = [
        make_node("a", taints=["team=db:NoSchedule", "x:NoExecute"]),
        make_node("b", taints=["team=db:NoSchedule", "soft:PreferNoSchedule"]),
        make_node("c", unschedulable=True),
    ]
    assert explained(make_pod("new", tolerations=["x:NoSchedule"]), *cluster) == lines(
        """
      3 nodes of 4 cpu, 32Gi memory:
        2: taint team=db:NoSchedule is not tolerated (a, b)
        1: taint x:NoExecute is not tolerated (a)
        1: the node is cordoned (spec.unschedulable is true) (c)

    TaintToleration:
      tolerations that the pod lacks (spec.tolerations):
        - {key: team, operator: Equal, value: db, effect: NoSchedule}  # 2 nodes
        - {key: x, operator: Exists, effect: NoExecute}  # 1 node
    """
    )


@pytest.mark.parametrize("value", ["db", "", "true", "1", "1e3", "no"])
def test_the_toleration_in_yaml_tolerates_the_taint(value: str) -> None:
    import yaml

    from mooring.explain.reasons.nodes import toleration_yaml

    taint = Taint(key="team.io/x", value=value, effect="NoExecute")
    (document,) = yaml.safe_load(toleration_yaml(taint))
    toleration = Toleration(**{"value": "", **document})
    assert tolerates(toleration, taint)


def test_the_pod_that_uses_a_host_port_is_named() -> None:
    cluster = [
        make_node("a"),
        make_node("b"),
        make_pod("hp", node="a", host_ports=[8080]),
        make_pod("hp2", node="b", host_ports=[8080, 9090]),
    ]
    preempts = make_pod("new", host_ports=[8080], priority=5)
    assert explained(preempts, cluster[0], cluster[2]) == lines(
        f"""
      1 node {GROUP}
        all: host port 8080/TCP is in use by pod default/hp (a)

    Preemption on a evicts: default/hp.
    """
    )
    assert explained(make_pod("new", host_ports=[8080]), *cluster) == lines(
        f"""
      2 nodes {GROUP}
        1: host port 8080/TCP is in use by pod default/hp (a)
        1: host port 8080/TCP is in use by pod default/hp2 (b)

    Preemption was tried: it makes no node feasible.
      On 2 nodes no pod has a lower priority than 0: a, b.
    """
    )


def test_the_feature_that_a_node_does_not_declare_is_named() -> None:
    new = make_pod("new", spec={"hostNetwork": True, "hostUsers": False})
    assert explained(new, make_node("a")) == lines(
        f"""
      1 node {GROUP}
        all: the node does not declare the feature UserNamespacesHostNetworkSupport (a)
    """
    )


# ---- labels ----

DISKS = [make_node("a", labels={"disk": "ssd"}), make_node("b", labels={"disk": "hdd"})]


def test_a_similar_value_of_the_label_is_suggested() -> None:
    new = make_pod("new", node_selector={"disk": "ssdd"})
    assert explained(new, *DISKS, make_node("c")) == lines(
        f"""
      3 nodes {GROUP}
        1: nodeSelector disk=ssdd: the value is 'ssd' (a)
        1: nodeSelector disk=ssdd: the value is 'hdd' (b)
        1: nodeSelector disk=ssdd: the label is missing (c)

    NodeAffinity:
      disk=ssdd: no node; did you mean disk=ssd (a)?
    """
    )


@pytest.mark.parametrize(
    ("selector", "note"),
    [
        ({"disc": "ssd"}, "disc=ssd: no node has the label disc; did you mean disk=ssd (a)?"),
        ({"disc": "nvme"}, "disc=nvme: no node has the label disc; did you mean disk?"),
        ({"disk": "nvme"}, "disk=nvme: no node; values of disk: hdd, ssd"),
        ({"gpu": "yes"}, "gpu=yes: no node has the label gpu"),
    ],
)
def test_near_misses_of_keys_and_values(selector: dict[str, str], note: str) -> None:
    text = explained(make_pod("new", node_selector=selector), *DISKS)
    assert text.endswith(f"\n\nNodeAffinity:\n  {note}")


@pytest.mark.parametrize(
    ("operator", "bound", "note"),
    [
        ("Gt", "4", "gen>4: no node; the largest value of gen is 4 (b)"),
        ("Lt", "2", "gen<2: no node; the smallest value of gen is 2 (a)"),
    ],
)
def test_the_number_nearest_to_a_bound_is_named(operator: str, bound: str, note: str) -> None:
    nodes = [make_node(name, labels={"gen": gen}) for name, gen in (("a", "2"), ("b", "4"))]
    term = {"matchExpressions": [{"key": "gen", "operator": operator, "values": [bound]}]}
    new = make_pod("new", affinity=node_affinity(term))
    assert explained(new, *nodes, make_node("c", labels={"gen": "x"})).endswith(f"\n  {note}")
    text = explained(new, make_node("c", labels={"gen": "x"}))
    sign = {"Gt": ">", "Lt": "<"}[operator]
    assert text.endswith(f"\n  gen{sign}{bound}: no node; no value is an integer: gen=x (c)")


def test_every_term_of_node_affinity_is_explained() -> None:
    terms = (
        {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd", "nvme"]}]},
        {"matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["3"]}]},
    )
    node = make_node("b", labels={"disk": "hdd", "gen": "2"})
    assert explained(make_pod("new", affinity=node_affinity(*terms)), node) == lines(
        f"""
      1 node {GROUP}
        all: node affinity, term 1: disk in (nvme,ssd): the value is 'hdd' (b)
        all: node affinity, term 2: gen>3: the value is '2' (b)

    NodeAffinity:
      disk in (nvme,ssd): no node; values of disk: hdd
      gen>3: no node; the largest value of gen is 2 (b)
    """
    )


def test_a_node_that_is_named_by_match_fields() -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["w11"]}]}
    new = make_pod("new", affinity=node_affinity(term))
    assert explained(new, make_node("w1"), make_node("w2")) == lines(
        f"""
      2 nodes {GROUP}
        all: node affinity: metadata.name=w11 is another node (w1, w2)

    NodeAffinity:
      metadata.name=w11: there is no such node; did you mean w1?
    """
    )


def test_the_added_affinity_of_a_profile_is_named() -> None:
    term = {"matchExpressions": [{"key": "pool", "operator": "Exists"}]}
    added = node_affinity(term)["nodeAffinity"]
    arguments = {"name": "NodeAffinity", "args": {"addedAffinity": added}}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [arguments]}],
    }
    assert explained(make_pod("new"), make_node("a"), config=config) == lines(
        f"""
      1 node {GROUP}
        all: the profile's added affinity: pool: the label is missing (a)
    """
    )


# ---- resources ----


@pytest.mark.parametrize(
    ("resource", "note"),
    [
        ("nvidia.com/gpus", "no node has nvidia.com/gpus; did you mean nvidia.com/gpu (a, b)?"),
        ("example.org/licences", "no node has example.org/licences"),
    ],
)
def test_a_resource_that_no_node_has(resource: str, note: str) -> None:
    nodes = [make_node(name, allocatable={"nvidia.com/gpu": "1"}) for name in ("a", "b")]
    text = explained(make_pod("new", requests={resource: "1"}), *nodes, make_node("c"))
    assert text.endswith(f"\n\nNodeResourcesFit:\n  {note}")
    known = explained(make_pod("new", requests={"nvidia.com/gpu": "2"}), *nodes)
    assert "no node has" not in known


# ---- other pods ----


SKEW = "has 1 matching pod, the smallest domain 0: with this pod the skew would be 2, maxSkew is 1"


def test_the_domains_of_a_spread_constraint_are_counted() -> None:
    new = make_pod("new", labels={"app": "web"}, spec=spread(), requests={"cpu": "3"})
    cluster = [
        make_node("a", zone="z1"),
        make_node("b", zone="z2"),
        make_node("c"),
        make_node("d", zone="z3", labels={"pool": "x"}),
        web("p1", "a"),
        make_pod("p2", node="b", requests={"cpu": "2"}),
        web("p3", "d"),
    ]
    assert explained(new, *cluster) == lines(
        f"""
      4 nodes {GROUP}
        1: {ZONE}=z1 {SKEW} (a)
        1: cpu short by 1 at best (b has 2 free of 4)
        1: the label {ZONE}, by which pods are spread, is missing (c)
        1: {ZONE}=z3 {SKEW} (d)

    PodTopologySpread:
      maxSkew 1 over {ZONE}, pods with app=web in namespace default:
        z2: 0 pods
        z1: 1 pod
        z3: 1 pod
        without the label {ZONE}: 1 node: c

    Preemption was tried: it makes no node feasible.
      On 1 node no eviction can resolve the rejection.
      On 3 nodes no pod has a lower priority than 0: a, b, d.
    """
    )


@pytest.mark.parametrize(
    ("label", "note"),
    [
        ("rak", "no node has the label rack; did you mean rak (b)?"),
        ("pool", "no node has the label rack"),
        ("rack", "without the label rack: 1 node: a"),
    ],
)
def test_the_nodes_without_the_topology_key_are_named(label: str, note: str) -> None:
    (constraint,) = spread()["topologySpreadConstraints"]
    spec = {"topologySpreadConstraints": [{**constraint, "topologyKey": "rack"}]}
    new = make_pod("new", labels={"app": "web"}, spec=spec, requests={"cpu": "1"})
    full = make_pod("full", node="b", requests={"cpu": "4"})
    text = explained(new, make_node("a"), make_node("b", labels={label: "r1"}), full)
    of_plugin = text.partition("PodTopologySpread:\n")[2].partition("\n\n")[0].splitlines()
    assert of_plugin[-1] == f"    {note}"
    assert not any("minDomains" in line for line in of_plugin)


def test_nodes_and_domains_that_do_not_count_are_named() -> None:
    new = make_pod(
        "new",
        labels={"app": "web"},
        node_selector={"pool": "x"},
        spec=spread(minDomains=2),
    )
    cluster = [
        make_node("a", zone="z1", labels={"pool": "x"}),
        make_node("b", zone="z2"),
        web("p1", "a"),
    ]
    text = explained(new, *cluster)
    assert text.partition("PodTopologySpread:\n")[2].partition("\n\n")[0] == lines(
        f"""
      maxSkew 1 over {ZONE}, pods with app=web in namespace default:
        z1: 1 pod
        fewer domains than minDomains 2: the minimum is 0
        not counted: 1 node, by nodeAffinityPolicy, nodeTaintsPolicy or a missing topology key: b
    """
    )


def test_the_pods_that_anti_affinity_matches_are_named_with_their_nodes() -> None:
    new = make_pod("new", affinity=anti_affinity("web"))
    both = "has default/p1 (on a), default/p2 (on b)"
    cluster = [make_node("a", zone="z1"), make_node("b", zone="z1"), web("p1", "a"), web("p2", "b")]
    assert explained(new, *cluster) == lines(
        f"""
      2 nodes {GROUP}
        all: anti-affinity to pods with app=web: {ZONE}=z1 {both} (a, b)

    Preemption was tried: it makes no node feasible.
      On 2 nodes no pod has a lower priority than 0: a, b.
    """
    )


def test_the_pods_whose_anti_affinity_rejects_the_pod_are_named() -> None:
    cluster = [
        make_node("a", zone="z1"),
        make_node("b", zone="z1"),
        make_pod("lonely", node="a", affinity=anti_affinity("web")),
    ]
    text = explained(make_pod("new", labels={"app": "web"}), *cluster)
    cause = f"pod default/lonely on a has anti-affinity to pods with app=web in {ZONE}=z1"
    assert text.splitlines()[1] == f"    all: {cause} (a, b)"


def test_affinity_that_selects_no_pod_gets_a_similar_label() -> None:
    cluster = [make_node("a", zone="z1"), make_node("b"), web("p1", "a")]
    assert explained(make_pod("new", affinity=affinity("wbe")), *cluster) == lines(
        f"""
      2 nodes {GROUP}
        1: affinity to pods with app=wbe: no matching pod in {ZONE}=z1 (a)
        1: affinity to pods with app=wbe: the label {ZONE} is missing (b)

    InterPodAffinity:
      affinity to pods with app=wbe selects no pod; did you mean app=web, as default/p1 has?
    """
    )


def test_affinity_to_a_pod_of_another_namespace_or_zone() -> None:
    cluster = [
        make_node("a", zone="z1"),
        make_node("b", zone="z2", unschedulable=True),
        web("p1", "b"),
    ]
    new = make_pod("new", affinity=affinity("web"))
    assert explained(new, *cluster).partition("InterPodAffinity:\n")[2] == (
        f"  affinity to pods with app=web selects default/p1 (on b, {ZONE}=z2)"
    )
    elsewhere = make_pod("new", namespace="other", affinity=affinity("web"))
    assert explained(elsewhere, *cluster).partition("InterPodAffinity:\n")[2] == (
        "  affinity to pods with app=web selects no pod;"
        " the term does not select the namespace of default/p1 (on b)"
    )


# ---- volumes ----


def test_a_claim_that_waits_for_its_provisioner() -> None:
    of_class = storage_class("imm", provisioner="example.com/x", mode="Immediate")
    new = make_pod("new", spec=with_claims("immc"))
    pvc = claim("immc", storage_class="imm")
    assert explained(new, make_node("a"), pvc, of_class) == lines(
        """
      pod has unbound immediate PersistentVolumeClaims
      claim default/immc is unbound; its class imm (provisioner example.com/x) is Immediate
        it waits for the provisioner example.com/x to make a volume
    """
    )


def test_a_claim_or_class_that_does_not_exist_gets_a_similar_name() -> None:
    of_class = storage_class("fast", provisioner="example.com/x", mode="Immediate")
    new = make_pod("new", spec=with_claims("dta"))
    assert explained(new, make_node("a"), claim("data"), of_class) == lines(
        """
      persistentvolumeclaim "dta" not found
      claim default/dta does not exist (did you mean data?)
    """
    )
    new = make_pod("new", spec=with_claims("data"))
    assert explained(new, make_node("a"), claim("data", storage_class="fasst"), of_class) == lines(
        """
      pod has unbound immediate PersistentVolumeClaims
      claim default/data waits for class fasst, which does not exist (did you mean fast?)
    """
    )


def test_a_volume_that_would_do_but_for_its_node() -> None:
    of_class = storage_class("local", provisioner="kubernetes.io/no-provisioner")
    host = "kubernetes.io/hostname"
    cluster = [
        make_node("w1"),
        make_node("w4", unschedulable=True),
        of_class,
        claim("data", storage_class="local"),
        volume("there", near={host: "w4"}),
        volume("tiny", near={host: "w1"}, size="500Mi"),
        volume("taken", near={host: "w1"}, claim="default/other"),
    ]
    label = "claim default/data of class local (provisioner kubernetes.io/no-provisioner)"
    assert explained(make_pod("new", spec=with_claims("data")), *cluster) == lines(
        f"""
      2 nodes {GROUP}
        1: {label}: volume there is only for nodes with {host}=w4 (w1)
        1: {label}: volume tiny is too small: 500Mi of 1Gi (w1)
        1: {label}: volume taken belongs to claim default/other (w1)
        1: the node is cordoned (spec.unschedulable is true) (w4)
    """
    )


def test_a_bound_volume_of_another_node_or_zone() -> None:
    cluster = [
        make_node("a", zone="z1"),
        claim("data", volume_name="pv1"),
        claim("zoned", volume_name="pv2"),
        volume("pv1", near={"kubernetes.io/hostname": "b"}, claim="default/data"),
        volume("pv2", labels={ZONE: "z2__z3"}, claim="default/zoned"),
    ]
    text = explained(make_pod("new", spec=with_claims("data")), *cluster)
    assert text == lines(
        f"""
      1 node {GROUP}
        all: claim default/data: volume pv1 is only for nodes with kubernetes.io/hostname=b (a)
    """
    )
    text = explained(make_pod("new", spec=with_claims("zoned")), *cluster)
    assert text == lines(
        f"""
      1 node {GROUP}
        all: claim default/zoned: volume pv2 is in {ZONE}=z2 or z3, the node has z1 (a)
    """
    )


def test_the_limit_of_a_driver_is_named() -> None:
    node = {"name": "disk.csi.test", "nodeID": "a", "allocatable": {"count": 1}}
    source = {"driver": "disk.csi.test", "volumeHandle": "h1"}
    other = {"driver": "disk.csi.test", "volumeHandle": "h2"}
    cluster = [
        make_node("a"),
        convert({"metadata": {"name": "a"}, "spec": {"drivers": [node]}}, "CSINode"),
        claim("one", volume_name="pv1"),
        claim("two", volume_name="pv2"),
        volume("pv1", claim="default/one", csi=source),
        volume("pv2", claim="default/two", csi=other),
        make_pod("p", node="a", spec=with_claims("one")),
    ]
    text = explained(make_pod("new", spec=with_claims("two")), *cluster)
    assert text.splitlines()[1] == (
        "    all: driver disk.csi.test: 1 of 1 volume attached, the pod needs 1 more (a)"
    )


def test_the_pod_that_uses_a_claim_for_one_pod_is_named() -> None:
    cluster = [
        make_node("a"),
        claim("once", volume_name="pv1", accessModes=["ReadWriteOncePod"]),
        volume("pv1", claim="default/once"),
        make_pod("p", node="a", spec=with_claims("once")),
    ]
    text = explained(make_pod("new", spec=with_claims("once")), *cluster)
    assert text.splitlines()[1] == (
        "    all: claim default/once (ReadWriteOncePod) is used by pod default/p on a (a)"
    )


def test_a_nominated_pod_that_counts_as_placed_is_named() -> None:
    first = make_pod("first", priority=5, host_ports=[80], nominated_node="a")
    assert explained(make_pod("new", host_ports=[80]), make_node("a"), first).splitlines()[1] == (
        "    all: node(s) didn't have free ports for the requested pod ports, because of nominated"
        " pods: default/first (a)"
    )


# ---- preemption ----


def budget(name: str, allowed: int) -> Any:
    document = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": allowed},
    }
    return convert(document, "PodDisruptionBudget")


def test_the_budget_of_a_victim_is_named() -> None:
    cluster = [make_node("a"), web("p1", "a", requests={"cpu": "3"}), budget("keep", 0)]
    new = make_pod("new", priority=10, requests={"cpu": "3"})
    assert explained(new, *cluster).partition("\n\n")[2] == lines(
        """
    Preemption on a evicts: default/p1.
      The eviction of default/p1 violates budget default/keep, which allows 0 disruptions now.
    """
    )


def test_a_pod_that_must_not_preempt_says_so() -> None:
    cluster = [make_node("a"), web("p1", "a", requests={"cpu": "3"})]
    new = make_pod("new", priority=10, requests={"cpu": "3"}, spec={"preemptionPolicy": "Never"})
    assert explained(new, *cluster).endswith(
        "\n\nPreemption was not tried: preemptionPolicy of the pod is Never."
    )


def test_evictions_that_do_not_help_are_explained() -> None:
    cluster = [
        make_node("a"),
        make_node("b", unschedulable=True),
        make_node("c"),
        web("low", "a", requests={"cpu": "1"}),
        web("high", "a", requests={"cpu": "3"}, priority=20),
        web("equal", "c", requests={"cpu": "3"}, priority=10),
    ]
    new = make_pod("new", priority=10, requests={"cpu": "3"})
    assert explained(new, *cluster).partition("\n\n")[2] == lines(
        """
    Preemption was tried: it makes no node feasible.
      On 1 node no eviction can resolve the rejection.
      On 1 node no pod has a lower priority than 10: c.
      On a not even the eviction of all pods of lower priority helps: default/low.
    """
    )
