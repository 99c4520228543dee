"""Changes that give an unschedulable pod a node, each checked with a simulation.

``explain.changes`` searches for changes and decides again with each. Here they become objects, and
each is simulated with all pending pods: other pods may take what a change makes available.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeVar, overload

from msgspec.structs import replace

from mooring.config import KubeSchedulerConfiguration
from mooring.explain.changes.change import Remedy, SuggestedChange
from mooring.explain.changes.of_pod import TRIAL
from mooring.explain.explain import Explained
from mooring.explain.offline import Source, created_pods
from mooring.objects.meta import ObjectMeta, key
from mooring.objects.node import Node
from mooring.objects.pod import DEFAULT_SCHEDULER_NAME, Pod
from mooring.objects.resource import ResourceClaim, ResourceClaimSpec, ResourceClaimTemplate
from mooring.objects.types import Object
from mooring.simulation.before_attempt import before_attempt
from mooring.simulation.generated_claims import with_controller_results
from mooring.simulation.utilization import Utilization
from mooring.simulation.workload import Workload
from mooring.study.templates import CreatedPod, with_edited_template

#: The name of a node that a suggestion adds, if no node has it.
NEW_NODE: Final = "new-node"

_HOSTNAME: Final = "kubernetes.io/hostname"

#: The kinds whose spec cannot be changed.
_IMMUTABLE: Final = ("ResourceClaim", "ResourceClaimTemplate")

#: Changes the spec of a resource claim.
SpecEdit = Callable[[ResourceClaimSpec], ResourceClaimSpec]

#: The type of the changed cluster; this module does not know ``Cluster``, which imports it.
ClusterT = TypeVar("ClusterT")


class ChangedObject(NamedTuple):
    """One object that a suggestion changes.

    Attributes:
        action: "edit", "add" or "remove"; "replace": it must be deleted and created again.
        kind: Such as "Node".
        name: Its name, with the namespace if it has one.
    """

    action: str
    kind: str
    name: str


class Suggestion(Generic[ClusterT]):
    """One change, or two together, with which the pod gets a node.

    Attributes:
        pod: "namespace/name".
        text: The change in words: "uncordon node a".
        node: The node of the pod after the change, and after all pending pods are scheduled.
        changes: The objects that change.
    """

    def __init__(
        self, pod: str, remedy: Remedy, node: str, cluster: ClusterT, changes: list[ChangedObject]
    ) -> None:
        self.pod = pod
        self.text = remedy.text
        self.node = node
        self.changes = changes
        self._cluster = cluster

    def apply(self) -> ClusterT:
        """Returns the changed cluster, whose simulation places the pod on ``node``."""
        return self._cluster

    def as_dict(self) -> dict[str, Any]:
        """Returns the suggestion as JSON values."""
        changes = [change._asdict() for change in self.changes]
        return {"pod": self.pod, "text": self.text, "node": self.node, "changes": changes}

    def __repr__(self) -> str:
        return f"{self.text}: the pod goes to {self.node}"


class Suggestions(Sequence[Suggestion[ClusterT]]):
    """The smallest changes that help a pod, smallest first.

    Attributes:
        pod: "namespace/name".
        node: The node that the pod gets without a change; "" = none.
    """

    def __init__(
        self, pod: str, node: str, suggestions: Sequence[Suggestion[ClusterT]] = ()
    ) -> None:
        self.pod = pod
        self.node = node
        self._suggestions = list(suggestions)

    @overload
    def __getitem__(self, index: int) -> Suggestion[ClusterT]: ...
    @overload
    def __getitem__(self, index: slice) -> list[Suggestion[ClusterT]]: ...
    def __getitem__(self, index: int | slice) -> Any:
        """Returns a suggestion by position."""
        return self._suggestions[index]

    def __len__(self) -> int:
        return len(self._suggestions)

    @property
    def _heading(self) -> str:
        if self.node:
            return f"Pod {self.pod} gets node {self.node} without a change."
        if not self._suggestions:
            return (
                f"No change was found that helps pod {self.pod}: no single one, no pair, no set for"
                " one node."
            )
        return f"The smallest changes that help pod {self.pod} (each was simulated):"

    def __repr__(self) -> str:
        return "\n".join(
            [self._heading, *(f"  - {suggestion!r}" for suggestion in self._suggestions)]
        )

    def _repr_html_(self) -> str:
        """Returns the suggestions as a list for a notebook."""
        items = "".join(
            f"<li>{html.escape(own.text)} &rarr; <b>{html.escape(own.node)}</b></li>"
            for own in self._suggestions
        )
        heading = f"<p>{html.escape(self._heading)}</p>"
        return f"{heading}<ul>{items}</ul>" if items else heading

    def as_dict(self) -> dict[str, Any]:
        """Returns all suggestions as JSON values."""
        suggestions = [own.as_dict() for own in self._suggestions]
        return {"pod": self.pod, "node": self.node, "suggestions": suggestions}


class Contents(NamedTuple):
    """The contents of a cluster: objects, and Deployments and the like as JSON."""

    objects: Sequence[Any]
    workloads: Sequence[Object]


class Search(NamedTuple):
    """The cluster and the scheduler of a search.

    Attributes:
        workload: The cluster and its pending pods.
        config: Of the scheduler; None = kube-scheduler's defaults.
        plugins: Further plugins: objects, or ``module:attribute``.
        seed: Of all random numbers.
        gates: The feature gates whose value is not the default.
    """

    workload: Workload
    config: KubeSchedulerConfiguration | None
    plugins: Sequence[Any]
    seed: int
    gates: Mapping[str, bool]

    def created_pods(self, workload: Workload) -> list[Pod]:
        """Returns the pods that controllers create in a simulation of a workload, in order."""
        if not workload.controlled:
            return []
        return created_pods(
            Source(
                with_controller_results(workload),
                self.config,
                self.plugins,
                self.seed,
                gates=self.gates,
            )
        )

    def suggestions(
        self,
        pod: Pod,
        contents: Contents,
        cluster_of: Callable[[Contents], ClusterT],
        node_in: Callable[[ClusterT], str],
        created: CreatedPod | None = None,
    ) -> list[Suggestion[ClusterT]]:
        """Returns the changes that help a pending pod, smallest first.

        Args:
            pod: The pod.
            contents: All objects of the cluster, and its workloads.
            cluster_of: Returns the cluster with changed contents.
            node_in: Simulates a cluster; returns the node of the pod, "" = none.
            created: Whose pod it is, if a controller creates it.
        """
        suggestions = []
        for remedy in self._remedies(pod):
            applied = _apply_remedy(contents, pod, remedy, created)
            if applied is None:
                continue
            cluster = cluster_of(applied[0])
            node = node_in(cluster)
            if node:
                suggestions.append(Suggestion(key(pod), remedy, node, cluster, applied[1]))
        return suggestions

    def _remedies(self, pod: Pod) -> Sequence[Remedy]:
        """Returns changes with which a pending pod gets a node, when it is decided in its turn."""
        workload, pod_key = with_controller_results(self.workload), key(pod)
        pod = next((own for own in workload.pending if key(own) == pod_key), pod)
        utilization = Utilization(workload.objects, pending=[pod])
        driver, _, attempted = before_attempt(
            workload,
            pod_key,
            config=self.config,
            plugins=self.plugins,
            seed=self.seed,
            gates=self.gates,
            utilization=utilization,
        )
        pod = pod if attempted is None else attempted
        framework = driver.frameworks.get(pod.spec.scheduler_name or DEFAULT_SCHEDULER_NAME)
        if framework is None:
            return ()  # no profile decides where it goes
        explained = Explained(
            pod,
            driver.attempt(pod, explain=True).decision(),
            utilization,
            weights=framework.profile.weights,
            snapshot=driver.cache.snapshot(),
            framework=framework,
            driver=driver,
        )
        return () if explained.remedies is None else explained.remedies.remedies


def _apply_remedy(
    contents: Contents, pod: Pod, remedy: Remedy, created: CreatedPod | None
) -> tuple[Contents, list[ChangedObject]] | None:
    """Returns the changed contents of a cluster, and what changed.

    None = an object is not among them, such as a pod that a controller created and that it would
    create again.
    """
    changed = list(contents.objects)
    workloads = list(contents.workloads)
    log: list[ChangedObject] = []
    for change in remedy.changes:
        edits: list[tuple[str, str, Callable[[Any], Any]]] = [
            ("Node", name, update) for name, update in change.updates.items()
        ]
        edits += _edits_of_claims(changed, change)
        if change.edit is not None and created is None:
            edits.append(("Pod", key(pod), change.edit))
        elif change.edit is not None and created is not None:
            edited = with_edited_template(workloads[created.workload], pod, change.edit)
            if edited is None:
                return None
            workloads[created.workload] = edited
            log.append(ChangedObject("edit", edited["kind"], _name_of(edited)))
            pod = change.edit(pod)
        for kind, name, update in edits:
            place = _index(changed, kind, name)
            if place is None:
                return None
            changed[place] = update(changed[place])
            action = "replace" if kind in _IMMUTABLE else "edit"
            log.append(ChangedObject(action, kind, name))
        for victim in change.removes:
            place = _index(changed, "Pod", key(victim))
            if place is None:
                return None
            del changed[place]
            log.append(ChangedObject("remove", "Pod", key(victim)))
        _add(changed, change, log)
    return Contents(changed, workloads), log


def _edits_of_claims(
    objects: Sequence[Any], change: SuggestedChange
) -> Iterator[tuple[str, str, Callable[[Any], Any]]]:
    """Yields the edits of resource claims, or of the template from which they are made."""
    for name, edit in change.claims.items():
        if _index(objects, "ResourceClaim", name) is not None:
            yield "ResourceClaim", name, partial(_with_claim_spec, edit)
        else:
            yield "ResourceClaimTemplate", change.template, partial(_with_template_spec, edit)


def _with_claim_spec(edit: SpecEdit, claim: ResourceClaim) -> ResourceClaim:
    return replace(claim, spec=edit(claim.spec))


def _with_template_spec(edit: SpecEdit, template: ResourceClaimTemplate) -> ResourceClaimTemplate:
    return replace(template, spec=replace(template.spec, spec=edit(template.spec.spec)))


def _name_of(workload: Object) -> str:
    metadata = workload["metadata"]
    return f"{metadata.get('namespace', 'default')}/{metadata['name']}"


def _add(objects: list[Any], change: SuggestedChange, log: list[ChangedObject]) -> None:
    """Adds the new objects of a change; they replace those of the same kind and name."""
    for new in change.adds:
        obj = _named(new, objects) if isinstance(new, Node) else new
        kind, name = type(obj).__name__, key(obj)
        place = _index(objects, kind, name)
        log.append(ChangedObject("add" if place is None else "edit", kind, name))
        if place is None:
            objects.append(obj)
        else:
            objects[place] = obj


def _index(objects: Sequence[Any], kind: str, name: str) -> int | None:
    for place, obj in enumerate(objects):
        if type(obj).__name__ == kind and key(obj) == name:
            return place
    return None


def _named(node: Node, objects: Sequence[Any]) -> Node:
    """Returns a node of a trial under a name of its own."""
    names = {obj.metadata.name for obj in objects if isinstance(obj, Node)}
    name, number = NEW_NODE, 1
    while name in names:
        number += 1
        name = f"{NEW_NODE}-{number}"
    labels = dict(node.metadata.labels)
    if labels.get(_HOSTNAME) == TRIAL:
        labels[_HOSTNAME] = name
    return replace(node, metadata=ObjectMeta(name=name, uid=f"node-{name}", labels=labels))
