"""Refusals of plugins and tables: of arguments, absent objects, documents that make no sense.

Each check draws what is refused or not, and compares the error, its text and its path. The other
runs never make these mistakes, because the cache and the configuration have been asked before.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

import msgspec

from mooring.clock import Rng, VirtualClock, seeded_random
from mooring.config.types import NodeAffinityArgs, NodeResourcesFitArgs
from mooring.errors import ConfigError, InvariantViolation, PluginError
from mooring.framework import NodeView
from mooring.objects.codec.decode import convert
from mooring.objects.selectors import SelectorError
from mooring.plugins import (
    DefaultPreemption,
    InterPodAffinity,
    NodeAffinity,
    NodeResourcesFit,
    PodTopologySpread,
)
from mooring.plugins.dynamic_resources.binding_conditions import (
    failure_of,
    has_timed_out,
    readiness_of,
)
from mooring.plugins.dynamic_resources.extended_resources import resources_by_devices
from mooring.plugins.dynamic_resources.writes import require_writer
from mooring.simulation.offline import OfflineHandle
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.state.tables.pods import NOT_STARTED, PlacedPod
from mooring.testing import Harness, make_node, make_pod
from tests.plugins import volume_clusters
from tests.plugins.reference_plugins import hints

ROUNDS: Final = 10
NAMES: Final = ("a", "b", "c")
RISING: Final = ({"utilization": 0, "score": 0}, {"utilization": 100, "score": 10})
#: Rules about nodes that are refused, and why.
REFUSED: Final = (
    ({"key": "disk", "operator": "Same", "values": ["a"]}, "is not an operator of a selector"),
    ({"key": "disk", "operator": "In", "values": []}, "In needs at least one value"),
    ({"key": "disk", "operator": "Exists", "values": ["a"]}, "Exists takes no values"),
    ({"key": "disk", "operator": "Gt", "values": ["a"]}, "Gt needs an integer"),
    ({"key": "disk", "operator": "Lt", "values": ["1", "2"]}, "Lt needs exactly one value"),
    ({"key": "a key", "operator": "Exists"}, "is not a label key"),
)
SSD: Final = {"key": "disk", "operator": "In", "values": ["ssd"]}
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
RESOURCES: Final = ("a.example/gpu", "b.example/nic", "c.example/other")
DEVICES: Final = ("d0", "d1")
NEEDED: Final = ((), ("ready",), ("ready", "attached"))
START_S: Final = 1_767_225_600


def _refused(call: Callable[[], Any], kind: type[Exception]) -> Any:
    """Returns the error of a call; None = there is none."""
    try:
        call()
    except kind as error:
        return error
    return None


# -- arguments ------------------------------------------------------------------------------------


def check_added_affinity(rng: Rng) -> None:
    """Compares that an affinity of a profile is refused for a rule that cannot be compiled."""
    rule, why = rng.choice(REFUSED)
    rules = [SSD, rule] if rng.random() < 0.5 else [rule]
    is_refused = rng.random() < 0.7
    term = {"matchExpressions": rules if is_refused else [SSD]}
    is_required = rng.random() < 0.5
    body: dict[str, Any] = {PREFERRED: [{"weight": 1, "preference": term}]}
    if is_required:
        body = {REQUIRED: {"nodeSelectorTerms": [term]}}
    affinity: Any = make_pod("web", spec={"affinity": {"nodeAffinity": body}}).spec.affinity
    args = NodeAffinityArgs(added_affinity=affinity.node_affinity)
    error = _refused(lambda: NodeAffinity(args), ConfigError)
    assert (error is not None) == is_refused, f"{term}: {error}"
    if error is not None:
        assert why in str(error), f"{error}, not {why}"
        assert "addedAffinity" in str(error), f"no path: {error}"


def check_strategy(rng: Rng) -> None:
    """Compares that a strategy needs a type that there is, and points for one of them."""
    kind = rng.choice(("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio", "Best"))
    shape = rng.choice((None, [], list(RISING)))
    body: dict[str, Any] = {"type": kind, "resources": [{"name": "cpu", "weight": 1}]}
    if shape is not None:
        body["requestedToCapacityRatio"] = {"shape": shape}
    args = _fit_args(body)
    error = _refused(lambda: NodeResourcesFit(args), ConfigError)
    expected: str | None = None
    if kind == "Best":
        expected = "scoringStrategy.type"
    elif kind == "RequestedToCapacityRatio" and not shape:
        expected = "scoringStrategy.requestedToCapacityRatio.shape"
    assert (error and error.path) == expected, f"{body}: {error}"
    text = "unknown strategy" if kind == "Best" else "must have at least one point"
    assert error is None or text in str(error), f"{body}: {error}"


def _fit_args(strategy: dict[str, Any]) -> NodeResourcesFitArgs:
    return msgspec.convert({"scoringStrategy": strategy}, NodeResourcesFitArgs, strict=False)


# -- selectors of pods ----------------------------------------------------------------------------


def check_affinity_hint(rng: Rng) -> None:
    """Compares that the hint of NodeAffinity raises if a refused term decides."""
    rule, why = rng.choice(REFUSED)
    terms = [{"matchExpressions": [it]} for it in rng.choice(([rule], [SSD, rule], [rule, SSD]))]
    selector = rng.choice(({}, {"zone": "x"}))
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    spec = {"affinity": affinity, "nodeSelector": selector}
    pod = PodInfo(make_pod("web", spec=spec))
    labels = {"disk": rng.choice(("ssd", "hdd")), "zone": rng.choice("xy")}
    node = make_node("a", labels=labels)
    (hint,) = hints(NodeAffinity()).values()
    error = _refused(lambda: hint(pod, None, node), SelectorError)
    matches_selector = selector.items() <= labels.items()
    is_matched = matches_selector and len(terms) > 1 and labels["disk"] == "ssd"
    if error is None:
        expected = "QUEUE" if is_matched else "SKIP"
        assert is_matched or not matches_selector, f"{spec} is compiled"
        assert hint(pod, None, node).name == expected, f"{spec}, {labels}"
    else:
        assert matches_selector, f"{error} for {labels}"
        assert not is_matched, f"{error} for {labels}"
        assert why in str(error)


def check_affinity_filter(rng: Rng) -> None:
    """Compares that a refused term selects no node, and the others of the pod do as ever."""
    kinds = [rng.choice(("refused", "with refused", "ssd")) for _ in range(rng.randint(1, 3))]
    rule, _ = rng.choice(REFUSED)
    rules = {"refused": [rule], "with refused": [SSD, rule], "ssd": [SSD]}
    terms = [{"matchExpressions": rules[kind]} for kind in kinds]
    selector = rng.choice(({}, {"zone": "x"}))
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    pod = make_pod("web", spec={"affinity": affinity, "nodeSelector": selector})
    labels = {
        name: {"disk": rng.choice(("ssd", "hdd")), "zone": rng.choice("xy")} for name in "abc"
    }
    nodes = [make_node(name, labels=of_node) for name, of_node in labels.items()]
    for name, status in Harness(nodes, [NodeAffinity()]).statuses(pod).items():
        is_selected = "ssd" in kinds and labels[name]["disk"] == "ssd"
        is_selected &= selector.items() <= labels[name].items()
        reasons = () if status is None else status.reasons
        expected = () if is_selected else ("node(s) didn't match Pod's node affinity/selector",)
        assert reasons == expected, f"{terms} and {selector} for {labels[name]}: {status}"


def check_pod_affinity_hint(rng: Rng) -> None:
    """Compares that nodes and pods queue a pod with terms that cannot be compiled."""
    rule = rng.choice(REFUSED[:3])[0]
    is_refused = rng.random() < 0.6
    term = {
        "topologyKey": "zone",
        "labelSelector": {"matchExpressions": [rule if is_refused else SSD]},
    }
    kind = rng.choice(("podAffinity", "podAntiAffinity"))
    pod = PodInfo(make_pod("web", spec={"affinity": {kind: {REQUIRED: [term]}}}))
    # Without a handle there are no pods and no namespaces.
    plugin = InterPodAffinity()
    before = make_node("a", labels={"zone": "x", "rack": "1"})
    after = make_node("a", labels={"zone": "x", "rack": "2"})
    for (resource, _), hint in hints(plugin).items():
        if resource == "Node":
            expected = "QUEUE" if is_refused else "SKIP"
            assert hint(pod, before, after).name == expected, f"{term}"
        else:
            other = make_pod("other", node="a" if rng.random() < 0.5 else "")
            expected = "QUEUE" if is_refused and other.spec.node_name else "SKIP"
            assert hint(pod, None, other).name == expected, f"{term}"
    signature = plugin.sign(pod)
    assert (signature is None) == is_refused, f"{term} has the signature {signature}"


def check_first_of_series(rng: Rng) -> None:
    """Compares that a node without a domain any more queues a pod that may be the first one."""
    labels = {"app": rng.choice(("web", "db"))}
    apps = [rng.choice(("web", "db")) for _ in range(rng.choice((1, 1, 2)))]
    terms = [
        {"topologyKey": rng.choice(("zone", "zone", "rack")), "labelSelector": _of_app(app)}
        for app in apps
    ]
    pod = PodInfo(
        make_pod("web", labels=labels, spec={"affinity": {"podAffinity": {REQUIRED: terms}}})
    )
    old = {key: "1" for key in ("zone", "rack") if rng.random() < 0.7}
    new = {key: rng.choice("12") for key in ("zone", "rack") if rng.random() < 0.5}
    nodes = make_node("a", labels=old), make_node("a", labels=new)
    own = [term["topologyKey"] for term in terms]
    moves = any(key in new and old.get(key) != new[key] for key in own)
    leaves = any(key in old and key not in new for key in own)
    is_first = all(app == labels["app"] for app in apps)
    expected = "QUEUE" if moves or (leaves and is_first) else "SKIP"
    (hint,) = (it for (kind, _), it in hints(InterPodAffinity()).items() if kind == "Node")
    actual = hint(pod, *nodes).name
    assert actual == expected, f"{labels}, {terms}: {actual} after {old} and {new}"


def _of_app(app: str) -> dict[str, Any]:
    return {"matchLabels": {"app": app}}


def check_own_tolerations(rng: Rng) -> None:
    """Compares that new tolerations of a pod queue it if its constraints honor taints."""
    constraints = [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": rng.choice(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
            "labelSelector": _of_app("web"),
            "nodeTaintsPolicy": rng.choice(("Honor", "Ignore")),
        }
        for _ in range(rng.choice((1, 1, 2)))
    ]
    spec = {"topologySpreadConstraints": constraints}
    old = make_pod("web", uid="web", labels={"app": "db"}, spec=spec)
    tolerations = rng.choice(((), ("gpu",)))
    new = make_pod(
        "web",
        uid=rng.choice(("web", "web", "other")),
        labels={"app": rng.choice(("db", "db", "web"))},
        spec=spec,
        tolerations=tolerations,
    )
    hard = [it for it in constraints if it["whenUnsatisfiable"] == "DoNotSchedule"]
    is_own = new.metadata.uid == "web"
    is_tolerant = is_own and tolerations and any(it["nodeTaintsPolicy"] == "Honor" for it in hard)
    is_relabeled = is_own and hard and new.metadata.labels == {"app": "web"}
    expected = "QUEUE" if is_tolerant or is_relabeled else "SKIP"
    for (kind, _), hint in hints(PodTopologySpread()).items():
        if kind == "Pod":
            actual = hint(PodInfo(old), old, new).name
            assert actual == expected, f"{constraints}: {actual} for {new}"


# -- tables ---------------------------------------------------------------------------------------


def check_nodes(rng: Rng) -> None:
    """Compares that a node that is not in the table cannot be read or removed."""
    nodes, names = Cache().nodes, rng.sample(NAMES, rng.randint(0, 3))
    for name in names:
        nodes.put(make_node(name))
    rows = {name: nodes.row(name) for name in names}
    name = rng.choice(NAMES)
    error = _refused(lambda: nodes.remove(name), InvariantViolation)
    expected = None if name in names else f"cannot remove node {name}: no such node"
    assert (error and str(error)) == expected, f"{names}: {error}"
    for other, row in rows.items():
        error = _refused(partial(nodes.node, row), InvariantViolation)
        expected = f"row {row} has no node" if other == name else None
        assert (error and str(error)) == expected, f"{names} without {name}: {error}"


def check_pods(rng: Rng) -> None:
    """Compares that a pod is placed once, and removed once; and its text and start."""
    cache = Cache()
    cache.put_node(make_node("a"))
    pods = cache.pods
    info = PodInfo(make_pod("web", uid="web", node="a"))
    assert repr(info) == "PodInfo(default/web, uid='web', node='a')", repr(info)
    placed = PlacedPod(info, cache.nodes.row("a"))
    is_there = rng.random() < 0.5
    if is_there:
        cache.put_pod(info.pod)
    add = _refused(lambda: pods.add(placed), InvariantViolation) if is_there else None
    expected = "pod default/web (web) is placed twice" if is_there else None
    assert (add and str(add)) == expected, f"{add}"
    remove = _refused(lambda: pods.remove("other"), InvariantViolation)
    assert remove is not None
    assert str(remove) == "pod with UID other is not placed", f"{remove}"
    text = rng.choice(("soon", "2026-01-01T00:00:00", "2026-01-01T00:00:07.9Z", None))
    status = {} if text is None else {"startTime": text}
    start_s = PodInfo(make_pod("late", status=status)).start_s
    assert start_s == (START_S + 7 if text is not None and "Z" in text else NOT_STARTED), text


def check_storage(rng: Rng) -> None:
    """Compares that nothing is assumed of an object that does not exist."""
    storage = Cache().storage
    volume = volume_clusters.volume(rng, "v")
    claim = volume_clusters.claim(rng, "c", "default")
    calls: tuple[tuple[Callable[[], Any], str], ...] = (
        (lambda: storage.assume_volume(volume), "cannot assume volume v: no such volume"),
        (lambda: storage.assume_claim(claim), "cannot assume claim default/c: no such claim"),
    )
    for call, text in calls:
        error = _refused(call, InvariantViolation)
        assert error is not None
        assert str(error) == text, f"{error}"


def check_amounts(rng: Rng) -> None:
    """Compares amounts: of a pod up to the largest int64, sums of a node wrapped to it."""
    cache = Cache()
    cache.put_node(make_node("a"))
    total = 0
    for number in range(rng.randint(1, 3)):
        amount = rng.choice((2**63 - 1, 2**62, 7))
        times = rng.randint(1, 3)
        total += min(amount * times, 2**63 - 1)
        containers = [
            {"name": f"c{it}", "resources": {"requests": {"example.com/x": str(amount)}}}
            for it in range(times)
        ]
        pod = make_pod(f"p{number}", uid=f"p{number}", node="a", spec={"containers": containers})
        cache.put_pod(pod)
    view = NodeView(cache.snapshot())
    requested = int(view.requested("example.com/x")[0])
    assert requested == (total + 2**63) % 2**64 - 2**63, f"{requested}, not {total}"


def check_resized_amounts(rng: Rng) -> None:
    """Compares what a pod uses while some of its containers are resized: the largest amount."""
    containers: dict[str, list[dict[str, Any]]] = {"initContainers": [], "containers": []}
    statuses: dict[str, list[dict[str, Any]]] = {}
    requested = used = 0
    for kind, more in (("initContainers", {"restartPolicy": "Always"}), ("containers", {})):
        for number in range(rng.choice((1, 1, 2))):
            name = f"{kind.lower()}-{number}"
            amounts = [rng.choice((1, 2, 3)) for _ in range(3)]
            own = {"requests": {"cpu": str(amounts[0])}}
            containers[kind].append({"name": name, "resources": own, **more})
            requested += amounts[0]
            if rng.random() < 0.6:
                used += amounts[0]
                continue
            used += max(amounts)
            statuses.setdefault(kind.replace("ainers", "ainerStatuses"), []).append(
                {
                    "name": name,
                    "resources": {"requests": {"cpu": str(amounts[1])}},
                    "allocatedResources": {"cpu": str(amounts[2])},
                }
            )
    pod = PodInfo(make_pod("web", spec=containers, status=statuses))
    actual = pod.requests["cpu"], pod.usage["cpu"], pod.nonzero_usage[0]
    expected = 1000 * requested, 1000 * used, 1000 * used
    assert actual == expected, f"{containers}, {statuses}: {actual}, not {expected}"


# -- devices --------------------------------------------------------------------------------------


def check_conditions(rng: Rng) -> None:
    """Compares the state of a claim's devices, its failure and its timeout."""
    is_allocated, is_timed = rng.random() < 0.85, rng.random() < 0.85
    needed = [rng.choice(NEEDED) for _ in range(rng.choice((0, 1, 2)))]
    reported = [
        {it: rng.choice(("True", "False")) for it in ("broken", "ready", "attached", "other")}
        for _ in needed
    ]
    has_status = [rng.random() < 0.8 for _ in needed]
    results = [
        {"request": "r", "driver": "d", "pool": "p", "device": DEVICES[number]}
        | ({"bindingConditions": list(it), "bindingFailureConditions": ["broken"]} if it else {})
        for number, it in enumerate(needed)
    ]
    statuses = [
        {"driver": "d", "pool": "p", "device": DEVICES[number], "conditions": _conditions(it)}
        for number, it in enumerate(reported)
        if has_status[number]
    ]
    allocation: dict[str, Any] = {"devices": {"results": results}}
    allocated_s = START_S + rng.choice((0, 30))
    if is_timed:
        at = datetime.fromtimestamp(allocated_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        allocation["allocationTimestamp"] = at
    status = {"devices": statuses} | ({"allocation": allocation} if is_allocated else {})
    claim = convert({"metadata": {"name": "c"}, "spec": {}, "status": status}, "ResourceClaim")
    state = "ready" if is_allocated else "waiting"
    failure = 'reason=, message=""'
    for number, names in enumerate(needed if is_allocated else ()):
        conditions = reported[number]
        if not names or state != "ready":
            continue
        if not has_status[number]:
            state = "waiting"
        elif conditions["broken"] == "True":
            state = "failed"
        elif any(conditions[name] != "True" for name in names):
            state = "waiting"
    for number, names in enumerate(needed if is_allocated else ()):
        if names and has_status[number] and reported[number]["broken"] == "True":
            failure = 'reason=why-broken, message="it is \\"broken\\""'
            break
    assert readiness_of(claim).value == state, f"{status} is {readiness_of(claim)}, not {state}"
    assert failure_of(claim) == failure, f"{status}: {failure_of(claim)}"
    now_s, timeout_s = START_S + rng.choice((20, 40, 60)), rng.choice((10.0, 20.0, 40.0))
    is_late = is_allocated and is_timed and any(needed) and now_s - allocated_s > timeout_s
    assert has_timed_out(claim, now_s, timeout_s) == is_late, f"{status} at {now_s}"


def _conditions(statuses: dict[str, str]) -> list[dict[str, str]]:
    at = "2026-01-01T00:00:00Z"
    return [
        {
            "type": name,
            "status": status,
            "reason": f"why-{name}",
            "message": f'it is "{name}"',
            "lastTransitionTime": at,
        }
        for name, status in statuses.items()
    ]


def check_extended(rng: Rng) -> None:
    """Compares which extended resources a node has by devices, and whether it lacks others."""
    allocatable = {
        name: rng.choice(("0", "3", "500m", "0m")) for name in RESOURCES if rng.random() < 0.6
    }
    of_resource = {name: "class" for name in RESOURCES if rng.random() < 0.5}
    requested = sorted(rng.sample(RESOURCES, rng.randint(0, 3)))
    node = make_node("a", allocatable={"cpu": "1", **allocatable})
    classes: Any = SimpleNamespace(class_of=of_resource.get)
    expected: list[str] | None = []
    for name in requested:
        has_none = allocatable.get(name, "0") in ("0", "0m")
        if has_none and name in of_resource:
            assert expected is not None
            expected.append(name)
        elif name not in allocatable:
            expected = None
            break
    actual = resources_by_devices(node, requested, classes)
    assert actual == (None if expected is None else tuple(expected)), (
        f"{requested} of {allocatable}, {of_resource}: {actual}, not {expected}"
    )


def check_writer(rng: Rng) -> None:
    """Compares that claims are written by the writer of a handle, and by nothing else."""
    writer = object() if rng.random() < 0.5 else None
    handle: Any = SimpleNamespace(claim_writer=writer) if rng.random() < 0.7 else None
    error = _refused(lambda: require_writer(handle), PluginError)
    if handle is not None and writer is not None:
        assert require_writer(handle) is writer
        return
    assert error is not None, f"{handle} has no writer"
    text = "allocations of resource claims cannot be written"
    assert (error.plugin, error.problem) == ("DynamicResources", text)


# -- preemption -----------------------------------------------------------------------------------


def check_preemption_events(rng: Rng) -> None:
    """Compares that deletions of pods are registered if victims are evicted in background."""
    is_async = rng.random() < 0.5
    handle = OfflineHandle(Cache(), VirtualClock(), seeded_random(1))
    gates = {"SchedulerAsyncPreemption": is_async}
    plugin = DefaultPreemption(None, handle, gates)
    events = [(it.event.resource.value, it.event.action.name) for it in plugin.events()]
    assert events == ([("Pod", "DELETE")] if is_async else []), f"{events} with {is_async}"
    assert plugin.sign(PodInfo(make_pod("a"))) == plugin.sign(PodInfo(make_pod("b", priority=5)))


CHECKS: Final[tuple[Callable[[Rng], None], ...]] = (
    check_added_affinity,
    check_strategy,
    check_affinity_hint,
    check_pod_affinity_hint,
    check_first_of_series,
    check_own_tolerations,
    check_nodes,
    check_pods,
    check_storage,
    check_amounts,
    check_resized_amounts,
    check_conditions,
    check_extended,
    check_writer,
    check_preemption_events,
)


def run_refusals(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: something else is refused, or with another text.
    """
    rng = seeded_random(seed)
    for _ in range(ROUNDS):
        for check in CHECKS:
            check(rng)
    further = seeded_random(10**6 + seed)
    for _ in range(ROUNDS):
        check_affinity_filter(further)
