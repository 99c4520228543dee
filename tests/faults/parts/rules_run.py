"""The plugins that look at a single node: their statuses, scores and hints.

NodeUnschedulable, NodeName, TaintToleration, NodeAffinity, NodePorts, VolumeZone,
NodeDeclaredFeatures, ImageLocality and SchedulingGates in a drawn order, with drawn arguments and
weights. Pods differ in a few fields, so that results are cached by the right ones. Nodes, pods with
ports, volumes, claims and classes change; after each change every hint is asked, and a pod is
attempted. The status of each node by each plugin, which of them rejects it first, the reasons, the
plugins, the totals and each hint are those of ``rules_model.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, Final

import msgspec

from mooring.clock import Rng, seeded_random
from mooring.config.types import NodeAffinityArgs
from mooring.framework import Attempt, Diagnosis
from mooring.framework.runtime.scheduling_algorithm import schedule_pod
from mooring.objects.codec.decode import convert
from mooring.objects.pod import NodeAffinity as AddedAffinity
from mooring.plugins.image_locality import ImageLocality
from mooring.plugins.node_affinity import NodeAffinity
from mooring.plugins.node_declared_features import NodeDeclaredFeatures
from mooring.plugins.node_name import NodeName
from mooring.plugins.node_ports import NodePorts
from mooring.plugins.node_unschedulable import NodeUnschedulable
from mooring.plugins.scheduling_gates import SchedulingGates
from mooring.plugins.taint_toleration import TaintToleration
from mooring.plugins.volume_zone import VolumeZone
from mooring.state import PodInfo
from mooring.testing import Harness
from tests.faults.parts.attempts import totals_of
from tests.faults.parts.limits import few_cached_results
from tests.faults.parts.rules_documents import (
    CLAIMS,
    CLASSES,
    NAMESPACES,
    NODES,
    VOLUMES,
    Drawn,
)
from tests.faults.parts.rules_hints import Plain, PluginHints, plain
from tests.faults.parts.rules_model import (
    Changed,
    Options,
    Rejected,
    RulesModel,
    batch_signature,
)
from tests.faults.parts.rules_objects import Document, Objects

STEPS: Final = 40
PAIRS_SEED: Final = 1 << 42
KINDS: Final = (3, 6, 12)
WAITING: Final = 3
GATES: Final = (("first",), ("first", "second"), ())


class RulesRun:
    """One run.

    Attributes:
        problems: Differences to the model.
        paths: What happened, and how often.
        has_many_kinds: Whether there are more kinds of pods than cached results.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self.paths: Counter[str] = Counter()
        self._rng = rng = seeded_random(seed)
        #: Draws the pods whose signatures are compared.
        self._pairs = seeded_random(seed + PAIRS_SEED)
        self._drawn = Drawn(rng)
        self._objects = Objects()
        added = self._drawn.affinity() if rng.random() < 0.3 else {}
        for term in added.get("requiredDuringSchedulingIgnoredDuringExecution", {}).values():
            del term[1:]
        options = Options(rng.random() < 0.5, added)
        self._model = RulesModel(self._objects, options)
        self._plugins = _new_plugins(rng, options)
        self._names = [plugin.name for plugin in self._plugins]
        self._weights = {plugin.name: rng.randint(1, 5) for plugin in self._plugins}
        self._harness = Harness([], self._plugins, weights=self._weights)
        count = rng.choice(KINDS)
        self.has_many_kinds = count == max(KINDS)
        self._specs = self._drawn.kinds(count)
        self._count = 0
        self._hints = PluginHints(self._plugins, self._model, self.problems)
        for name in NODES[: rng.choice((1, 3, 6))]:
            self._put_node(self._drawn.node(name))
        self._waiting = [self._new_pod(index) for index in range(WAITING)]

    def run(self) -> None:
        """Makes all changes and attempts, until one differs."""
        changes: tuple[Callable[[], None], ...] = (
            *(self._change_node,) * 4,
            self._remove_node,
            *(self._place,) * 2,
            self._remove_pod,
            *(self._change_waiting,) * 2,
            self._change_claim,
            self._change_volume,
            self._change_class,
        )
        for _ in range(STEPS):
            for _ in range(self._rng.choice((0, 1, 1, 3))):
                self._rng.choice(changes)()
            if self._objects.nodes:
                self._check_order()
                index = self._rng.randrange(len(self._specs))
                self._attempt(self._new_pod(index))
            if self.problems:
                return

    # -- changes ----------------------------------------------------------------------------------

    def _new_pod(self, index: int, node: str = "") -> Document:
        self._count += 1
        name = f"pod-{self._count}"
        namespace = NAMESPACES[index % 5 == 1]
        spec = deepcopy(self._specs[index % len(self._specs)])
        if node:
            spec["nodeName"] = node
        metadata = {"name": name, "namespace": namespace, "uid": name}
        return {"metadata": metadata, "spec": spec, "status": {}}

    def _put_node(self, node: Document) -> None:
        self._objects.put_node(node)
        self._harness.cache.put_node(convert(node, "Node"))

    def _change_node(self) -> None:
        name = self._rng.choice(NODES)
        old = self._objects.nodes.get(name)
        if old is None or self._rng.random() < 0.2:
            new = self._drawn.node(name)
        else:
            new = self._drawn.changed_node(old)
        self._put_node(new)
        self._hints.check(self._waiting, Changed("Node", old, new))

    def _remove_node(self) -> None:
        if len(self._objects.nodes) > 1 and self._rng.random() < 0.5:
            name = self._rng.choice(list(self._objects.nodes))
            for pod in list(self._objects.placed.values()):
                if pod["spec"]["nodeName"] == name:
                    self._remove(pod)
            self._harness.cache.remove_node(name)
            old = self._objects.nodes[name]
            self._objects.remove_node(name)
            self._hints.check(self._waiting, Changed("Node", old, None))

    def _place(self) -> None:
        if self._objects.nodes:
            index = self._rng.randrange(len(self._specs))
            pod = self._new_pod(index, self._rng.choice(list(self._objects.nodes)))
            self._objects.placed[pod["metadata"]["uid"]] = pod
            self._harness.cache.put_pod(convert(pod, "Pod"))
            self._hints.check(self._waiting, Changed("Pod", None, pod))

    def _remove_pod(self) -> None:
        """Removes a placed pod, or one that is nominated or pending."""
        if self._objects.placed and self._rng.random() < 0.7:
            self._remove(self._rng.choice(list(self._objects.placed.values())))
            return
        old = self._new_pod(self._rng.randrange(len(self._specs)))
        old["spec"].pop("nodeName", None)
        if self._rng.random() < 0.5:
            old["status"] = {"nominatedNodeName": NODES[0]}
        self._hints.check(self._waiting, Changed("Pod", old, None))

    def _remove(self, pod: Document) -> None:
        uid = pod["metadata"]["uid"]
        del self._objects.placed[uid]
        self._harness.cache.remove_pod(uid)
        self._hints.check(self._waiting, Changed("Pod", pod, None))

    def _change_waiting(self) -> None:
        """Changes a pod that waits, or another one, in what an API server lets users change."""
        index = self._rng.randrange(WAITING)
        is_waiting = self._rng.random() < 0.7
        old = self._waiting[index] if is_waiting else self._new_pod(index)
        new = deepcopy(old)
        draw = self._rng.random()
        if draw < 0.4:
            new["spec"]["tolerations"].append(self._drawn.toleration())
        elif draw < 0.7:
            old["spec"]["schedulingGates"] = [{"name": name} for name in self._rng.choice(GATES)]
            new["spec"]["schedulingGates"] = old["spec"]["schedulingGates"][:-1]
            self._hints.check_gates(old)
            self._hints.check_gates(new)
        elif draw < 0.8:
            new["metadata"]["labels"] = {"version": str(self._count)}
        else:
            new["spec"]["hostNetwork"] = not old["spec"]["hostNetwork"]
        self._hints.check(self._waiting, Changed("Pod", old, new))
        if is_waiting:
            self._waiting[index] = new

    def _change_claim(self) -> None:
        name = self._rng.choice(NAMESPACES), self._rng.choice(CLAIMS)
        new = self._drawn.claim(*name) if self._rng.random() < 0.8 else None
        self._change_object("PersistentVolumeClaim", self._objects.claims, name, new)

    def _change_volume(self) -> None:
        name = self._rng.choice(VOLUMES)
        new = self._drawn.volume(name) if self._rng.random() < 0.8 else None
        self._change_object("PersistentVolume", self._objects.volumes, name, new)

    def _change_class(self) -> None:
        """Adds or removes a class; its mode never changes."""
        name = self._rng.choice(CLASSES)
        new = None if name in self._objects.classes else self._drawn.storage_class(name)
        self._change_object("StorageClass", self._objects.classes, name, new)

    def _change_object(
        self, kind: str, objects: dict[Any, Document], name: Any, new: Document | None
    ) -> None:
        old = objects.pop(name, None)
        if new is not None:
            objects[name] = new
            self._harness.cache.put_object(kind, convert(new, kind))
        elif old is not None:
            key = name if isinstance(name, str) else "/".join(name)
            self._harness.cache.remove_object(kind, key)
        if old is not None or new is not None:
            self._hints.check(self._waiting, Changed(kind, old, new))

    # -- attempts ---------------------------------------------------------------------------------

    def _attempt(self, pod: Document) -> None:
        parsed = convert(pod, "Pod")
        self._check_statuses(pod, parsed)
        self._check_signatures(pod, self._new_pod(self._pairs.randrange(len(self._specs))))
        snapshot, framework = self._harness.cache.snapshot(), self._harness.framework
        attempt = Attempt(snapshot)
        result = schedule_pod(framework, framework.new_cycle(PodInfo(parsed), snapshot), attempt)
        if isinstance(result, Diagnosis):
            self.paths["rejected"] += 1
            self._check_diagnosis(pod, result)
            return
        fitting = [
            name for name, status in self._model.decided(self._names, pod).items() if status is None
        ]
        self.paths["placed"] += 1
        if result.node_name not in fitting:
            self.problems.append(f"{pod} is placed on {result.node_name}, not of {fitting}")
        elif len(fitting) > 1:
            self._check_totals(pod, attempt, fitting)

    def _check_order(self) -> None:
        """Compares the order in which nodes are visited."""
        nodes = self._harness.cache.snapshot().nodes
        names = [nodes.names[row] for row in nodes.order.rows()]
        expected = self._objects.visited()
        if names != expected:
            self.problems.append(f"the order is {names}, not {expected}")

    def _check_statuses(self, pod: Document, parsed: Any) -> None:
        """Compares the statuses of all nodes by each plugin that has no other one before it."""
        refusal, _ = self._model.before_filter(self._names, pod)
        for plugin in self._plugins:
            if refusal is not None or not hasattr(plugin, "filter"):
                continue
            statuses = self._harness.statuses(parsed, plugin)
            for name, status in statuses.items():
                node = self._objects.nodes[name]
                expected = _as_plain(self._model.filter(plugin.name, pod, node))
                if plain(status) != (expected and (*expected[:2], "")):
                    self.problems.append(f"{node}: {plain(status)}, not {expected}, for {pod}")

    def _check_signatures(self, pod: Document, other: Document) -> None:
        """Compares the signatures of two pods of a namespace."""
        if pod["metadata"]["namespace"] == other["metadata"]["namespace"]:
            for plugin in self._plugins:
                self.problems += _signature_problems(self._model, plugin, pod, other)

    def _check_diagnosis(self, pod: Document, diagnosis: Diagnosis) -> None:
        expected = self._model.decided(self._names, pod)
        refusal, left = self._model.before_filter(self._names, pod)
        statuses = {name: plain(diagnosis.status_of(name)) for name in expected}
        decided = {name: _as_plain(it) for name, it in expected.items()}
        if statuses != decided:
            self.problems.append(f"{statuses}, not {decided}, for {pod}")
        plugins = {it.plugin for it in expected.values() if it is not None and it.plugin}
        if refusal is None and left is not None:
            plugins.add("NodeAffinity")
        if diagnosis.unschedulable_plugins != plugins or diagnosis.pending_plugins:
            self.problems.append(f"{diagnosis.unschedulable_plugins}, not {plugins}, for {pod}")
        if refusal is not None:
            message = refusal.reason
        else:
            counts = Counter(it.reason for it in expected.values() if it is not None)
            message = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
        message = f"0/{len(expected)} nodes are available: {message}."
        if diagnosis.filter_message != message:
            self.problems.append(f"{diagnosis.filter_message}, not {message}, for {pod}")

    def _check_totals(self, pod: Document, attempt: Attempt, fitting: list[str]) -> None:
        expected = dict.fromkeys(fitting, 0)
        for plugin in self._plugins:
            scores = self._model.scores(plugin.name, pod, fitting)
            for name, score in zip(fitting, scores, strict=True):
                expected[name] += score * self._weights[plugin.name]
        has_scores = any(hasattr(plugin, "score") for plugin in self._plugins)
        totals = totals_of(attempt) if has_scores else expected
        if totals != expected:
            self.problems.append(f"{totals}, not {expected}, for {pod}")


def _signature_problems(
    model: RulesModel, plugin: Any, pod: Document, other: Document
) -> Iterator[str]:
    """Yields a problem if pods with equal signatures differ, or those of a batch do not agree."""
    pods, infos = (pod, other), [PodInfo(convert(it, "Pod")) for it in (pod, other)]
    if hasattr(plugin, "sign") and hasattr(plugin, "reads"):
        signed = [plugin.sign(it) for it in infos]
        results = [model.decided([plugin.name], it) for it in pods]
        scores = [model.scores(plugin.name, it, list(results[0])) for it in pods]
        if signed[0] == signed[1] and (results[0] != results[1] or scores[0] != scores[1]):
            yield f"{plugin.name}: equal signatures of {pod} and {other}"
    expected = [batch_signature(plugin.name, it) for it in pods]
    if hasattr(plugin, "batch_signature") and expected[0] is not None:
        signed = [plugin.batch_signature(it) for it in infos]
        if None in signed or (signed[0] == signed[1]) != (expected[0] == expected[1]):
            yield f"{plugin.name}: {signed}, not {expected}"


def _new_plugins(rng: Rng, options: Options) -> list[Any]:
    """Returns some plugins in any order."""
    args = None
    if options.added:
        added = msgspec.convert(options.added, AddedAffinity)
        args = NodeAffinityArgs(added_affinity=added)
    plugins: list[Any] = [
        NodeUnschedulable(),
        NodeName(),
        TaintToleration({"TaintTolerationComparisonOperators": options.compares}),
        NodeAffinity(args),
        NodePorts(),
        VolumeZone(),
        NodeDeclaredFeatures(),
        ImageLocality(),
        SchedulingGates(),
    ]
    return rng.sample(plugins, rng.choice((len(plugins), 3)))


def _as_plain(rejected: Rejected | None) -> Plain:
    return None if rejected is None else (rejected.code, (rejected.reason,), rejected.plugin)


def run_rules(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a status, a score or a hint differs from the model.
    """
    run = RulesRun(seed)
    with few_cached_results(only_if=run.has_many_kinds):
        run.run()
    assert not run.problems, run.problems[0]
