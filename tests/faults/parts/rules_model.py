"""The rules of the small plugins, over documents in plain Python: the model of the run ``rules``.

A rule looks at a pod and a node, and sometimes at the images of all nodes or at the volumes of a
pod. Nothing here is the scheduler's code; objects are what an API server would send.

Source: pkg/scheduler/framework/plugins: nodeunschedulable, nodename, tainttoleration, nodeaffinity,
nodeports, volumezone, nodedeclaredfeatures, imagelocality, schedulinggates, helper; and
component-helpers scheduling/corev1 (nodeaffinity, helpers.go).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tests.faults.parts.rules_objects import (
    BETA_REGION,
    BETA_ZONE,
    REGION,
    ZONE,
    Document,
    Objects,
    image_sizes,
)
from tests.faults.parts.volumes_places import meets

UNSCHEDULABLE, UNRESOLVABLE = "Unschedulable", "UnschedulableAndUnresolvable"
#: The reason of a node that PreFilter leaves out.
LEFT_OUT: Final = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
#: A label of a volume -> the label of a node that counts if it has not the same.
FALLBACKS: Final = {BETA_ZONE: ZONE, BETA_REGION: REGION, ZONE: "", REGION: ""}
CORDONED: Final = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
RESTARTS = "RestartAllContainersOnContainerExits"
HOST_USERS = "UserNamespacesHostNetworkSupport"
FEATURES: Final = (
    "ExtendWebSocketsToKubelet",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    RESTARTS,
    HOST_USERS,
)
MIB = 1024 * 1024
LEAST_BYTES, MOST_BYTES = 23 * MIB, 1000 * MIB
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"


class Rejected(NamedTuple):
    """A status: its code, its reason and its plugin."""

    code: str
    reason: str
    plugin: str


class Options(NamedTuple):
    """Options of the plugins: if Lt and Gt of tolerations compare, the affinity of the profile."""

    compares: bool
    added: Document


class RulesModel:
    """The rules for a cluster.

    Args:
        objects: The cluster, which may change.
        options: Of the plugins.
    """

    def __init__(self, objects: Objects, options: Options) -> None:
        self._objects, self._options = objects, options

    # -- PreFilter and Filter ---------------------------------------------------------------------

    def pre_filter(self, plugin: str, pod: Document) -> Rejected | frozenset[str] | None:
        """Returns why a plugin rejects a pod on any node, or the only nodes that it leaves."""
        if plugin == "VolumeZone":
            for volume in self._volumes(pod):
                if isinstance(volume, str):
                    return Rejected(UNRESOLVABLE, volume, plugin)
        if plugin == "NodeAffinity":
            names = _only_nodes(pod)
            if names is not None and not names:
                return Rejected(UNRESOLVABLE, "pod affinity terms conflict", plugin)
            return names
        return None

    def filter(self, plugin: str, pod: Document, node: Document) -> Rejected | None:
        """Returns why a plugin rejects a node; None = the pod fits."""
        code, reason = UNRESOLVABLE, ""
        match plugin:
            case "NodeUnschedulable":
                if self._is_cordoned(pod, node):
                    reason = "node(s) were unschedulable"
            case "NodeName":
                name = pod["spec"].get("nodeName", "")
                if name and name != node["metadata"]["name"]:
                    reason = "node(s) didn't match the requested node name"
            case "TaintToleration":
                if not self.bears(pod, node):
                    reason = "node(s) had untolerated taint(s)"
            case "NodeAffinity":
                if not self._is_allowed_by_profile(node):
                    reason = "node(s) didn't match scheduler-enforced node affinity"
                elif not _is_selected(pod, node):
                    reason = "node(s) didn't match Pod's node affinity/selector"
            case "NodePorts":
                if any(clashes(pod, other) for other in self._placed_on(node)):
                    code = UNSCHEDULABLE
                    reason = "node(s) didn't have free ports for the requested pod ports"
            case "VolumeZone":
                if self._is_outside(pod, node):
                    reason = "node(s) had no available volume zone"
            case "NodeDeclaredFeatures":
                if not required_features(pod) <= _declared(node):
                    reason = "node(s) didn't match Pod's required features"
        return Rejected(code, reason, plugin) if reason else None

    def _is_cordoned(self, pod: Document, node: Document) -> bool:
        # The plugin itself never compares numbers.
        return bool(node["spec"].get("unschedulable")) and not any(
            tolerates(toleration, CORDONED, compares=False) for toleration in _tolerations(pod)
        )

    def bears(self, pod: Document, node: Document) -> bool:
        """Returns whether a pod tolerates all hard taints of a node."""
        return all(
            any(
                tolerates(toleration, taint, compares=self._options.compares)
                for toleration in _tolerations(pod)
            )
            for taint in node["spec"].get("taints", ())
            if taint["effect"] in ("NoSchedule", "NoExecute")
        )

    def _is_allowed_by_profile(self, node: Document) -> bool:
        required = self._options.added.get("requiredDuringSchedulingIgnoredDuringExecution")
        return required is None or _matches_any(required["nodeSelectorTerms"], node)

    def suits(self, pod: Document, node: Document) -> bool:
        """Returns whether a node has the affinity of the profile and of a pod."""
        return self._is_allowed_by_profile(node) and _is_selected(pod, node)

    def _placed_on(self, node: Document) -> Iterator[Document]:
        for pod in self._objects.placed.values():
            if pod["spec"]["nodeName"] == node["metadata"]["name"]:
                yield pod

    def _volumes(self, pod: Document) -> Iterator[Document | str]:
        """Yields the volumes of a pod's claims, or why one is missing; then nothing."""
        for name in claim_names(pod):
            if not name:
                yield "PersistentVolumeClaim had no name"
                return
            claim = self._objects.claims.get((pod["metadata"]["namespace"], name))
            if claim is None:
                yield f'persistentvolumeclaim "{name}" not found'
                return
            volume_name = claim["spec"].get("volumeName", "")
            if volume_name:
                volume = self._objects.volumes.get(volume_name)
                if volume is None:
                    yield f'persistentvolume "{volume_name}" not found'
                    return
                yield volume
            elif problem := self._problem_without_volume(claim):
                yield problem
                return

    def _problem_without_volume(self, claim: Document) -> str:
        annotations = claim["metadata"].get("annotations", {})
        name = annotations.get(BETA_CLASS, claim["spec"].get("storageClassName", ""))
        if not name:
            return "PersistentVolumeClaim had no pv name and storageClass name"
        if name not in self._objects.classes:
            return f'storageclass.storage.k8s.io "{name}" not found'
        mode = self._objects.classes[name].get("volumeBindingMode")
        if mode is None:
            return f'VolumeBindingMode not set for StorageClass "{name}"'
        return "" if mode == "WaitForFirstConsumer" else "PersistentVolume had no name"

    def _is_outside(self, pod: Document, node: Document) -> bool:
        labels = node["metadata"]["labels"]
        if not any(label in labels for label in FALLBACKS):
            return False
        for volume in self._volumes(pod):
            assert isinstance(volume, dict)
            for key, values in zones(volume):
                value = labels.get(key, labels.get(FALLBACKS[key]))
                if value not in values:
                    return True
        return False

    def before_filter(
        self, plugins: Sequence[str], pod: Document
    ) -> tuple[Rejected | None, frozenset[str] | None]:
        """Returns what PreFilter rejects a pod with, and the nodes that it leaves; None = all."""
        left: frozenset[str] | None = None
        for plugin in plugins:
            result = self.pre_filter(plugin, pod)
            if isinstance(result, Rejected):
                return result, left
            left = left if result is None else result
        return None, left

    def decided(self, plugins: Sequence[str], pod: Document) -> dict[str, Rejected | None]:
        """Returns the status of each node, by the first of some plugins that rejects it."""
        refusal, left = self.before_filter(plugins, pod)
        if refusal is not None:
            return dict.fromkeys(self._objects.nodes, refusal)
        left_out = Rejected(UNRESOLVABLE, LEFT_OUT, "")
        decided: dict[str, Rejected | None] = {}
        for name, node in self._objects.nodes.items():
            is_left_out = left is not None and name not in left
            results = (self.filter(plugin, pod, node) for plugin in plugins)
            decided[name] = left_out if is_left_out else next(filter(None, results), None)
        return decided

    # -- scores -----------------------------------------------------------------------------------

    def scores(self, plugin: str, pod: Document, names: Sequence[str]) -> list[int]:
        """Returns the scores of some nodes, which are all that fit."""
        nodes = [self._objects.nodes[name] for name in names]
        if plugin == "TaintToleration":
            counts = [self._soft_taints(pod, node) for node in nodes]
            return [100 - score for score in _scaled(counts)]
        if plugin == "NodeAffinity":
            return _scaled([self._preference(pod, node) for node in nodes])
        if plugin == "ImageLocality":
            return [self._image_score(pod, node) for node in nodes]
        return [0] * len(names)

    def _soft_taints(self, pod: Document, node: Document) -> int:
        tolerations = [
            toleration
            for toleration in _tolerations(pod)
            if toleration.get("effect", "") in ("", "PreferNoSchedule")
        ]
        return sum(
            not any(
                tolerates(toleration, taint, compares=self._options.compares)
                for toleration in tolerations
            )
            for taint in node["spec"].get("taints", ())
            if taint["effect"] == "PreferNoSchedule"
        )

    def _preference(self, pod: Document, node: Document) -> int:
        key = "preferredDuringSchedulingIgnoredDuringExecution"
        terms = [*self._options.added.get(key, ()), *_node_affinity(pod).get(key, ())]
        return sum(term["weight"] for term in terms if _matches(term["preference"], node))

    def _image_score(self, pod: Document, node: Document) -> int:
        spec = pod["spec"]
        containers = [*spec.get("initContainers", ()), *spec["containers"]]
        names = [container["image"] for container in containers]
        volumes = [volume["image"] for volume in spec.get("volumes", ()) if "image" in volume]
        names += [volume["reference"] for volume in volumes]
        total = 0
        for name in map(_with_tag, names):
            owners = [it for it in self._objects.nodes.values() if name in image_sizes(it)]
            if any(it is node for it in owners):
                size = self._objects.image_sizes[name]
                total += int(size * (len(owners) / len(self._objects.nodes)))
        most = MOST_BYTES * len(containers)
        total = min(max(total, LEAST_BYTES), most)
        return 100 * (total - LEAST_BYTES) // (most - LEAST_BYTES)


# -- hints ----------------------------------------------------------------------------------------


class Changed(NamedTuple):
    """A change of an object: None = it was not there, or is not any more."""

    kind: str
    old: Document | None
    new: Document | None


def queues(model: RulesModel, plugin: str, pod: Document, change: Changed) -> bool:
    """Returns whether a change lets a plugin that has rejected a pod queue it."""
    if change.kind == "Node":
        return _node_queues(model, plugin, pod, change)
    if change.kind == "Pod":
        return _pod_queues(plugin, pod, change)
    if plugin != "VolumeZone" or change.new is None:
        return False
    new = change.new
    match change.kind:
        case "StorageClass":
            return change.old is None and new.get("volumeBindingMode") == "WaitForFirstConsumer"
        case "PersistentVolumeClaim":
            is_near = new["metadata"]["namespace"] == pod["metadata"]["namespace"]
            return is_near and new["metadata"]["name"] in claim_names(pod)
        case "PersistentVolume":
            return change.old is None or zones(change.old) != zones(new)
    return False


def _node_queues(model: RulesModel, plugin: str, pod: Document, change: Changed) -> bool:
    old, new = change.old, change.new
    if new is None:
        return False
    match plugin:
        case "NodeName" | "NodePorts":
            return old is None
        case "NodeUnschedulable":
            was_open = old is not None and not old["spec"].get("unschedulable")
            return not was_open and not new["spec"].get("unschedulable")
        case "TaintToleration":
            if old is not None and _taint_state(old) == _taint_state(new):
                return False
            return model.bears(pod, new) and not (old and model.bears(pod, old))
        case "NodeAffinity":
            return model.suits(pod, new) and not (old and model.suits(pod, old))
        case "VolumeZone":
            return old is None or old["metadata"]["labels"] != new["metadata"]["labels"]
        case "NodeDeclaredFeatures":
            key = "declaredFeatures"
            return old is None or old["status"].get(key, []) != new["status"].get(key, [])
    return False


def _taint_state(node: Document) -> Any:
    return node["spec"].get("taints", []), bool(node["spec"].get("unschedulable"))


def _pod_queues(plugin: str, pod: Document, change: Changed) -> bool:
    old, new = change.old, change.new
    if plugin == "NodePorts" and new is None and old is not None:
        was_there = old["spec"].get("nodeName") or old["status"].get("nominatedNodeName")
        return bool(was_there) and clashes(pod, old)
    if old is None or new is None or new["metadata"]["uid"] != pod["metadata"]["uid"]:
        return False
    is_tolerant = _tolerations(old) != _tolerations(new)
    match plugin:
        case "NodeUnschedulable":
            return is_tolerant and any(
                tolerates(toleration, CORDONED, compares=False) for toleration in _tolerations(new)
            )
        case "TaintToleration":
            return is_tolerant
        case "SchedulingGates":
            return bool(old["spec"].get("schedulingGates")) and not new["spec"].get(
                "schedulingGates"
            )
        case "NodeDeclaredFeatures":
            return required_features(old) != required_features(new)
    return False


# -- pods and nodes -------------------------------------------------------------------------------


def gate_reason(pod: Document) -> str:
    """Returns why SchedulingGates rejects a pod; "" = it does not."""
    gates = " ".join(gate["name"] for gate in pod["spec"].get("schedulingGates", ()))
    return f"waiting for scheduling gates: [{gates}]" if gates else ""


def claim_names(pod: Document) -> list[str]:
    """Returns the names of a pod's claims."""
    claims = (it.get("persistentVolumeClaim") for it in pod["spec"].get("volumes", ()))
    return [claim["claimName"] for claim in claims if claim]


def required_features(pod: Document) -> set[str]:
    """Returns the features that a pod requires of its node."""
    spec = pod["spec"]
    required = set()
    for container in [*spec["containers"], *spec.get("initContainers", ())]:
        rules = container.get("restartPolicyRules", ())
        if any(rule["action"] == "RestartAllContainers" for rule in rules):
            required.add(RESTARTS)
    if spec.get("hostNetwork") and spec.get("hostUsers") is False:
        required.add(HOST_USERS)
    return required


def clashes(pod: Document, other: Document) -> bool:
    """Returns whether two pods cannot have their host ports on the same node."""
    for address, protocol, port in _host_ports(pod):
        for other_address, *rest in _host_ports(other):
            is_same = "0.0.0.0" in (address, other_address) or address == other_address
            if [protocol, port] == rest and is_same:
                return True
    return False


def _host_ports(pod: Document) -> Iterator[tuple[str, str, int]]:
    """Yields the ports of containers and sidecars: ordinary init containers have none."""
    spec = pod["spec"]
    inits = spec.get("initContainers", ())
    sidecars = [it for it in inits if it.get("restartPolicy") == "Always"]
    for container in [*spec["containers"], *sidecars]:
        for port in container.get("ports", ()):
            if port.get("hostPort"):
                address = port.get("hostIP") or "0.0.0.0"
                yield address, port.get("protocol") or "TCP", port["hostPort"]


def batch_signature(plugin: str, pod: Document) -> Any:
    """Returns what pods of a batch must have in common; None = anything.

    As upstream, ports are numbers alone, and those of all init containers count.
    """
    spec = pod["spec"]
    if plugin == "NodePorts":
        containers = [*spec["containers"], *spec.get("initContainers", ())]
        ports = (port["hostPort"] for it in containers for port in it.get("ports", ()))
        return {port for port in ports if port}
    if plugin == "VolumeZone":
        keys = ("persistentVolumeClaim", "image")
        return sorted(str([it.get(key) for key in keys]) for it in spec["volumes"])
    return None


def zones(volume: Document) -> list[tuple[str, set[str]]]:
    """Returns the labels of a volume that a node must have, and the values that it may have."""
    result = []
    for key in FALLBACKS:
        label = volume["metadata"].get("labels", {}).get(key)
        values = set() if label is None else set(label.split("__"))
        if values and "" not in values:
            result.append((key, values))
    return result


def tolerates(toleration: Document, taint: Document, *, compares: bool) -> bool:
    """Returns whether a toleration tolerates a taint."""
    for field_name in ("effect", "key"):
        if toleration.get(field_name) and toleration[field_name] != taint[field_name]:
            return False
    operator = toleration.get("operator") or "Equal"
    limit, value = toleration.get("value", ""), taint.get("value", "")
    if operator in ("Equal", "Exists"):
        return operator == "Exists" or bool(limit == value)
    if not compares or not _is_decimal(limit) or not _is_decimal(value):
        return False
    return int(value) < int(limit) if operator == "Lt" else int(value) > int(limit)


def _is_decimal(text: str) -> bool:
    """Returns whether a text is a number as Python writes it, of 64 bits."""
    digits = text.removeprefix("-")
    if not digits or any(digit not in "0123456789" for digit in digits):
        return False
    return str(int(text)) == text and -(2**63) <= int(text) < 2**63


def _tolerations(pod: Document) -> list[Document]:
    tolerations: list[Document] = pod["spec"].get("tolerations", [])
    return tolerations


def _node_affinity(pod: Document) -> Document:
    affinity: Document = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    return affinity


def _required_terms(pod: Document) -> list[Document] | None:
    required = _node_affinity(pod).get("requiredDuringSchedulingIgnoredDuringExecution")
    return None if required is None else required["nodeSelectorTerms"]


def _is_selected(pod: Document, node: Document) -> bool:
    labels, terms = node["metadata"]["labels"], _required_terms(pod)
    selector: Mapping[str, str] = pod["spec"].get("nodeSelector", {})
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    return terms is None or _matches_any(terms, node)


def _matches_any(terms: Sequence[Document], node: Document) -> bool:
    return any(_matches(term, node) for term in terms)


def _matches(term: Document, node: Document) -> bool:
    """Returns whether a node has all that a term requires; an empty term matches none."""
    expressions, fields = term.get("matchExpressions", ()), term.get("matchFields", ())
    if not expressions and not fields:
        return False
    labels = node["metadata"]["labels"]
    names = {"metadata.name": node["metadata"]["name"]}
    return all(_holds(it, labels) for it in expressions) and all(_holds(it, names) for it in fields)


def _holds(expression: Document, labels: Mapping[str, str]) -> bool:
    key, operator, values = expression["key"], expression["operator"], expression.get("values", [])
    if operator not in ("Gt", "Lt"):
        return meets(labels, key, operator, values)
    label = labels.get(key, "")
    if not label.removeprefix("-").isdigit():
        return False
    return int(label) > int(values[0]) if operator == "Gt" else int(label) < int(values[0])


def _only_nodes(pod: Document) -> frozenset[str] | None:
    """Returns the names in the terms of a pod; None = a term has no name, or there is none."""
    names: set[str] = set()
    terms = _required_terms(pod)
    if not terms:
        return None
    for term in terms:
        of_fields = [
            set(it["values"]) for it in term.get("matchFields", ()) if it["operator"] == "In"
        ]
        if not of_fields:
            return None
        names |= set.intersection(*of_fields)
    return frozenset(names)


def _declared(node: Document) -> set[str]:
    return set(node["status"].get("declaredFeatures", ())) & set(FEATURES)


def _with_tag(name: str) -> str:
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def _scaled(values: list[int]) -> list[int]:
    highest = max(values)
    return [value * 100 // highest if highest else 0 for value in values]
