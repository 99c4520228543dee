"""The nodes as plugins see them, in columns and one by one, real and hypothetical ones.

Nodes and pods come, change and go. Views of all nodes or some, in any order, also twice, get pods
added and removed, and parts of them are taken. Each column and each attribute of a single node are
those of plain dicts: amounts, pods, ports, images, labels, taints, sums over added and removed
pods. Statuses of nodes are stored and read in both forms, and the message of a diagnosis, its nodes
by code and the status of each node are those of a loop.

Source: docs/reference/plugin-contract.md (``nodes``, ``node``, ``diagnosis``);
pkg/scheduler/framework/types.go (NodeInfo, FitError).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from mooring.clock import Rng, seeded_random
from mooring.errors import PluginError
from mooring.framework import Diagnosis, FilterStatuses, NodeView, Pending, Reject
from mooring.framework.status import Code, NodeError
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import make_node, make_pod
from tests.faults.parts.limits import first_rows

STEPS: Final = 16
NODES: Final = ("a", "b", "c", "d", "e")
RESOURCES: Final = ("cpu", "memory", "example.com/gpu", "example.com/none")
#: What pods without a request of it count for: millicores, and bytes.
DEFAULTS: Final = {"cpu": 100, "memory": 200 << 20}
#: With so many more resources a table has a value in its last line, or grows.
MORE_RESOURCES: Final = (0, 0, 4, 5, 12, 13)
#: The rows that a table of nodes begins with.
FIRST_ROWS: Final = (1, 2, 5, 64)
IMAGES: Final = {"one:1": 5 << 20, "two:1": 70 << 20, "three:1": 1 << 30}
KEYS: Final = ("rack", "disk", "absent")
PORTS: Final = (80, 443, 8080)
CODES: Final = (
    None, None, "Unschedulable", "Unschedulable", "UnschedulableAndUnresolvable", "Pending",
    "Error",
)  # fmt: skip


@dataclass
class Machine:
    """A node in plain numbers, with its pods."""

    amounts: dict[str, int]
    room: int
    labels: dict[str, str]
    annotations: dict[str, str]
    taints: list[str]
    unschedulable: bool
    images: list[str]
    pods: list[str] = field(default_factory=list)


@dataclass
class PodFacts:
    """A pod: what it requests, and its host ports."""

    info: PodInfo
    requests: dict[str, int]
    ports: list[int]

    def counted(self, resource: str) -> int:
        """Returns the request, with the default if there is none."""
        return self.requests.get(resource, DEFAULTS.get(resource, 0))


def new_statuses() -> tuple[Any, ...]:
    """Returns one status of each kind, made by the classes of this moment."""
    reject = Reject("one"), Reject("two", "three"), Reject("one", resolvable=False)
    return None, None, *reject, Pending("four"), NodeError("five")


class ViewsCluster:
    """A cluster that changes.

    Attributes:
        problems: Differences to the plain nodes.
        paths: What was compared, and how often.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self.paths: Counter[str] = Counter()
        self._rng = seeded_random(seed)
        #: Draws how full the tables are, and the amounts of more resources.
        self._more = seeded_random(seed + 1_000_000)
        count = self._more.choice(MORE_RESOURCES)
        self._resources = [f"example.com/r{number}" for number in range(count)]
        with first_rows(self._more.choice(FIRST_ROWS)):
            self._cache = Cache()
        self._machines: dict[str, Machine] = {}
        self._pods: dict[str, PodFacts] = {}
        self._count = 0
        for name in NODES[: self._rng.choice((1, 3, 5))]:
            self._put(name)

    # -- the cluster ------------------------------------------------------------------------------

    def _put(self, name: str) -> None:
        rng, old = self._rng, self._machines.get(name)
        new = Machine(
            amounts={it: rng.choice((0, 1, 5, 1000)) for it in RESOURCES[: rng.choice((2, 3))]},
            room=rng.choice((1, 3, 110)),
            labels={key: rng.choice("xy") for key in KEYS[:2] if rng.random() < 0.6},
            annotations={"note": rng.choice("xy")} if rng.random() < 0.5 else {},
            taints=[f"{key}:NoSchedule" for key in "pq" if rng.random() < 0.3],
            unschedulable=rng.random() < 0.3,
            images=[it for it in IMAGES if rng.random() < 0.5],
            pods=old.pods if old is not None else [],
        )
        new.amounts.update({it: self._more.choice((1, 5, 1000)) for it in self._resources})
        self._machines[name] = new
        node = make_node(
            name,
            allocatable={**_written(new.amounts), "pods": str(new.room)},
            labels=new.labels,
            annotations=new.annotations,
            taints=new.taints,
            unschedulable=new.unschedulable,
            images={it: IMAGES[it] for it in new.images},
        )
        self._cache.put_node(node)

    def _change(self) -> None:
        rng, name = self._rng, self._rng.choice(NODES)
        machine = self._machines.get(name)
        draw = rng.random()
        if machine is None or draw < 0.2:
            self._put(name)
        elif draw < 0.7:
            facts = self._new_pod(name)
            machine.pods.append(facts.info.uid)
            self._cache.put_pod(facts.info.pod)
        elif machine.pods:
            uid = rng.choice(machine.pods)
            machine.pods.remove(uid)
            self._cache.remove_pod(uid)
        elif len(self._machines) > 1:
            del self._machines[name]
            self._cache.remove_node(name)

    def _new_pod(self, node: str = "") -> PodFacts:
        """Returns a pod; those of a node have different ports."""
        rng = self._rng
        self._count += 1
        name = f"pod-{self._count}"
        requests = {it: rng.choice((0, 1, 7)) for it in RESOURCES[:3] if rng.random() < 0.5}
        more = [it for it in self._resources if self._more.random() < 0.2]
        requests.update({it: self._more.choice((1, 7)) for it in more})
        taken = (
            {it for uid in self._machines[node].pods for it in self._pods[uid].ports}
            if node
            else ()
        )
        ports = [it for it in PORTS if it not in taken and rng.random() < 0.2]
        pod = make_pod(name, uid=name, requests=_written(requests), host_ports=ports, node=node)
        self._pods[name] = PodFacts(PodInfo(pod), requests, ports)
        return self._pods[name]


class ViewsRun(ViewsCluster):
    """One run."""

    def run(self) -> None:
        """Makes all changes, and compares a view after each of them."""
        for _ in range(STEPS):
            for _ in range(self._rng.choice((0, 1, 2))):
                self._change()
            self._compare_view()
            _compare_statuses(self._rng, self.problems)
            self._compare_diagnosis()
            if self.problems:
                return

    # -- views ------------------------------------------------------------------------------------

    def _compare_view(self) -> None:
        """Draws a view, and compares it with the nodes in it and their pods."""
        rng, snapshot = self._rng, self._cache.snapshot()
        if rng.random() < 0.4:
            view = NodeView.all_nodes(snapshot)
        else:
            names = [rng.choice(list(self._machines)) for _ in range(rng.randint(1, 6))]
            rows = [snapshot.nodes.row(name) for name in names]
            view = NodeView(snapshot, np.array(rows, dtype=np.intp))
        pods = [(name, tuple(self._machines[name].pods), ()) for name in view.names]
        self._note("all", sorted(set(NodeView.all_nodes(snapshot).names)), sorted(self._machines))
        everything = NodeView.all_nodes(snapshot)
        first = everything.subset(np.array([0], dtype=np.intp)).names
        self._note("first", first, everything.names[:1])
        worlds: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = list(pods)
        view, worlds = self._drawn_deltas(view, worlds)
        if rng.random() < 0.4:
            chosen = [at for at in range(len(worlds)) if rng.random() < 0.6]
            is_chosen = np.isin(np.arange(len(worlds)), chosen)
            part = is_chosen if rng.random() < 0.5 else np.array(chosen, dtype=np.intp)
            view, worlds = view.subset(part), [worlds[at] for at in chosen]
            view, worlds = self._drawn_deltas(view, worlds)
        self._compare_columns(view, worlds)
        for at, (name, uids, _) in enumerate(worlds):
            self._compare_node(view.info(at), name, uids)

    def _drawn_deltas(self, view: NodeView, worlds: list[Any]) -> tuple[NodeView, list[Any]]:
        """Adds pods to the nodes, or removes some of theirs."""
        rng = self._rng
        if rng.random() < 0.5:
            more = [[self._new_pod() for _ in range(rng.choice((0, 1, 2)))] for _ in worlds]
            view = view.plus([tuple(it.info for it in of_node) for of_node in more])
            worlds = [
                (name, (*uids, *(it.info.uid for it in of_node)), removed)
                for (name, uids, removed), of_node in zip(worlds, more, strict=True)
            ]
        if rng.random() < 0.5:
            fewer = []
            for name, uids, _ in worlds:
                there = [uid for uid in uids if uid in self._machines[name].pods]
                fewer.append(tuple(rng.sample(there, rng.randint(0, len(there)))))
            view = view.without([tuple(self._pods[it].info for it in uids) for uids in fewer])
            worlds = [
                (name, tuple(it for it in uids if it not in fewer_of), (*removed, *fewer_of))
                for (name, uids, removed), fewer_of in zip(worlds, fewer, strict=True)
            ]
        return view, worlds

    def _compare_columns(self, view: NodeView, worlds: list[Any]) -> None:
        machines = [self._machines[name] for name, _, _ in worlds]
        note = self._note
        note("names", (view.names, len(view)), ([name for name, _, _ in worlds], len(worlds)))
        for name in (*RESOURCES, *self._resources[-2:]):
            allocatable = [it.amounts.get(name, 0) for it in machines]
            note(f"allocatable {name}", view.allocatable(name).tolist(), allocatable)
            note(f"requested {name}", view.requested(name).tolist(), self._used(worlds, name))
        some = self._rng.sample(RESOURCES, self._rng.randint(0, len(RESOURCES)))
        amounts = [[it.amounts.get(name, 0) for it in machines] for name in some]
        note("allocatables", view.allocatables(some).tolist(), amounts)
        used = [self._used(worlds, name) for name in some]
        note("requesteds", view.requesteds(some).tolist(), used)
        for order in (("cpu", "memory"), tuple(some)):
            counted = [self._used(worlds, name, is_counted=True) for name in order]
            note(f"nonzero {order}", view.nonzero_requesteds(order).tolist(), counted)
        note("pods", view.pod_count.tolist(), [len(uids) for _, uids, _ in worlds])
        note("room", view.allowed_pods.tolist(), [it.room for it in machines])
        note("cordoned", view.unschedulable.tolist(), [it.unschedulable for it in machines])
        taints = [view.taint_sets[number] or () for number in view.taint_ids.tolist()]
        keys = [[f"{it.key}:{it.effect}" for it in of_node] for of_node in taints]
        note("taints", keys, [it.taints for it in machines])
        for key in KEYS:
            codes, column = view.label(key)
            values = [None if it < 0 else column.values.values()[it] for it in codes.tolist()]
            note(f"label {key}", values, [it.labels.get(key) for it in machines])
        columns: tuple[Any, ...] = (
            view.pod_count,
            view.allowed_pods,
            view.taint_ids,
            view.allocatables(some),
        )
        columns += (view.allocatable("cpu"), view.label("rack")[0])
        is_writeable = [it.flags.writeable for it in columns if not view.has_deltas]
        note("columns can be written", any(is_writeable), False)
        self._compare_shared(view, worlds, machines)

    def _compare_shared(self, view: NodeView, worlds: list[Any], machines: list[Machine]) -> None:
        """Compares ports, images, and sums over added and removed pods."""
        requested_ports = self._rng.sample(PORTS, self._rng.randint(1, 2))
        pod = make_pod("ports", host_ports=requested_ports)
        conflicts = [
            any(set(requested_ports) & set(self._pods[uid].ports) for uid in uids)
            for _, uids, _ in worlds
        ]
        actual = view.has_port_conflict(PodInfo(pod).host_ports).tolist()
        self._note(f"ports {requested_ports}", actual, conflicts)
        for name, size in IMAGES.items():
            owners = sum(name in it.images for it in self._machines.values())
            has_image = [name in it.images for it in machines]
            size_bytes, count, mask = view.image(name)
            expected = (size if owners else 0, owners, has_image)
            self._note(f"image {name}", (size_bytes, count, mask.tolist()), expected)
        change = view.change(lambda it: len(it.host_ports), "number of ports").tolist()
        sums = []
        for name, uids, removed in worlds:
            added = [uid for uid in uids if uid not in self._machines[name].pods]
            ports = [sum(len(self._pods[uid].ports) for uid in of) for of in (added, removed)]
            sums.append(ports[0] - ports[1])
        self._note("change", change, sums)

    def _used(self, worlds: list[Any], resource: str, *, is_counted: bool = False) -> list[int]:
        """Returns what the pods of each node request, with defaults if they are counted."""
        return [
            sum(
                self._pods[uid].counted(resource)
                if is_counted
                else self._pods[uid].requests.get(resource, 0)
                for uid in uids
            )
            for _, uids, _ in worlds
        ]

    def _compare_node(self, node: Any, name: str, uids: tuple[str, ...]) -> None:
        """Compares a node by itself."""
        machine, world = self._machines[name], [(name, uids, ())]
        labels = {**machine.labels, "kubernetes.io/hostname": name}
        note = self._note
        note("node", (node.name, dict(node.labels)), (name, labels))
        note("annotations", dict(node.annotations), machine.annotations)
        taints = [f"{it.key}:{it.effect}" for it in node.taints]
        facts = taints, node.unschedulable, node.allowed_pods, node.node_count
        expected = machine.taints, machine.unschedulable, machine.room, len(self._machines)
        note("facts", facts, expected)
        note("pods of node", sorted(it.uid for it in node.pods), sorted(uids))
        note("pod count", node.pod_count, len(uids))
        for resource in (*RESOURCES, *self._resources[-2:]):
            used, size = self._used(world, resource)[0], machine.amounts.get(resource, 0)
            amounts = node.allocatable(resource), node.requested(resource)
            note(
                f"amounts of {resource}", (*amounts, node.free(resource)), (size, used, size - used)
            )
            note(f"both of {resource}", node.amounts(resource), (size, used))
        counted = tuple(self._used(world, it, is_counted=True)[0] for it in ("cpu", "memory"))
        note("nonzero of node", node.nonzero_requested(), counted)
        ports = {it for uid in uids for it in self._pods[uid].ports}
        note("used ports", {port.port for port in node.used_ports()}, ports)
        owners = {it: sum(it in of.images for of in self._machines.values()) for it in IMAGES}
        images = {it: (IMAGES[it], owners[it]) for it in machine.images}
        note("images", node.images(), images)

    def _compare_diagnosis(self) -> None:
        """Compares the nodes of each code, and the status of each node."""
        rng, nodes = self._rng, self._cache.snapshot().nodes
        visited = [nodes.names[row] for row in nodes.order.rows()]
        statuses = {
            name: status
            for name in (*visited, "gone")
            if (status := rng.choice(new_statuses())) is not None
        }
        refusal = rng.choice((None, None, Reject("refused"), Reject("never", resolvable=False)))
        absent = rng.choice((None, Reject("left out", resolvable=False)))
        if refusal is not None:
            statuses, absent = {}, None
        diagnosis = Diagnosis(len(visited), statuses=statuses, absent=absent, pre_filter=refusal)
        for name in (*visited, "gone"):
            expected = statuses.get(name, refusal if absent is None else absent)
            self._note(f"status of {name}", diagnosis.status_of(name), expected)
        for code in Code:
            rows = diagnosis.rows_of(code, nodes).tolist()
            of_code = [it for it in statuses if statuses[it].code is code and it != "gone"]
            if refusal is not None:
                of_code = visited if refusal.code is code else []
            self._note(f"nodes of {code}", [nodes.names[row] for row in rows], of_code)
        listed = Diagnosis(
            1, find_rows=lambda code: np.array([code is Code.PENDING], dtype=np.intp)
        )
        self._note("listed rows", listed.rows_of(Code.PENDING, nodes).tolist(), [1])

    def _note(self, what: str, actual: Any, expected: Any) -> None:
        self.paths["compared"] += 1
        if actual != expected:
            self.problems.append(f"{what}: {actual}, not {expected}")


# -- statuses -------------------------------------------------------------------------------------


def _compare_statuses(rng: Rng, problems: list[str]) -> None:
    """Stores statuses and reads them again, checks invalid ones, and compares a message."""
    known_statuses = new_statuses()
    statuses = [rng.choice(known_statuses) for _ in range(rng.randint(0, 6))]
    stored = FilterStatuses.of(statuses)
    codes = [it if it is None else it.code.value for it in statuses]
    if codes != [CODES[known_statuses.index(it)] for it in statuses] or None in stored.table:
        problems.append(f"{statuses} have the codes {codes}, and are stored as {stored.table}")
    if stored.to_list() != statuses or stored.checked("P", len(statuses)) is not stored:
        problems.append(f"{statuses} are stored as {stored.to_list()}")
    mask = np.array([rng.random() < 0.5 for _ in statuses], dtype=np.bool_)
    rejected = FilterStatuses.reject(mask, known_statuses[2]).to_list()
    if rejected != [known_statuses[2] if it else None for it in mask.tolist()]:
        problems.append(f"{mask} is {rejected}")
    is_wrong = (
        FilterStatuses(stored.codes, []) if any(statuses) else None,
        FilterStatuses(stored.codes.astype(np.int64), stored.table),
        FilterStatuses(np.zeros(len(statuses) + 1, dtype=np.uint16), stored.table),
    )
    for wrong in filter(None, is_wrong):
        try:
            wrong.checked("P", len(statuses))
        except PluginError:
            continue
        problems.append(f"{wrong.codes} of {wrong.table} are valid")
    problems += _message_problems(rng, [it for it in statuses if it is not None])


def _message_problems(rng: Rng, statuses: list[Any]) -> list[str]:
    """Returns a message that differs from that of a loop over the statuses of nodes."""
    absent = rng.choice((None, Reject("left out", resolvable=False)))
    count = rng.choice((0, 1, 3)) if absent is not None else 0
    reasons = Counter(reason for status in statuses for reason in status.reasons)
    more = rng.choice(("", "preemption: no help."))
    refusal = rng.choice((None, None, None, Reject("refused"), Reject(), Reject("")))
    total = len(statuses) + count
    if refusal is not None:
        reasons, count = Counter(), 0
    diagnosis = Diagnosis(
        total,
        reasons,
        {f"node-{at}": status for at, status in enumerate(statuses)} if refusal is None else {},
        absent=absent if refusal is None else None,
        absent_count=count,
        pre_filter=refusal,
        post_filter_message=more,
    )
    for status in statuses:
        diagnosis.note_plugin(status.named("P"))
    rejections = {status.code.value for status in statuses} - {"Error"}
    plugins = bool(rejections), "Pending" in rejections
    actual = "P" in diagnosis.unschedulable_plugins, "P" in diagnosis.pending_plugins
    differences = [] if actual == plugins else [f"{statuses}: plugins {actual}, not {plugins}"]
    counted = _counted(reasons, absent, count)
    if refusal is not None and refusal.reasons == ("",):
        counted[""] = total  # a reason without a text counts for each node
    parts = sorted(f"{number} {reason}" for reason, number in counted.items())
    listed = f" {', '.join(parts)}." if parts else ""
    text = f"0/{total} nodes are available:{listed}"
    if refusal is not None and refusal.message:
        text = f"0/{total} nodes are available: refused."
    text = f"{text} {more}" if more else text
    expected = text if total else "no nodes available to schedule pods"
    if diagnosis.message != expected:
        differences.append(f"{diagnosis.message!r}, not {expected!r}")
    return differences


def _counted(reasons: Counter[str], absent: Any, count: int) -> Counter[str]:
    left_out = Counter({"left out": count}) if absent is not None and count else Counter[str]()
    return reasons + left_out


def _written(amounts: dict[str, int]) -> dict[str, str | int]:
    return {name: f"{it}m" if name == "cpu" else str(it) for name, it in amounts.items()}


def run_views(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a column or an attribute differs from the plain nodes.
    """
    run = ViewsRun(seed)
    run.run()
    assert not run.problems, run.problems[0]
