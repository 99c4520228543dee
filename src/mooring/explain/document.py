"""The explanation as a JSON document, of the same shape for all sources."""

from __future__ import annotations

import msgspec

from mooring.explain.changes.of_pod import TRIAL
from mooring.explain.explain import Explained
from mooring.explain.reasons.registry import notes_of, pod_causes_of
from mooring.explain.rejections import rejected_by
from mooring.simulation.utilization import PODS, amount_text


class RejectionDocument(msgspec.Struct, kw_only=True):
    """One rejection.

    Attributes:
        plugin: The plugin.
        code: The code of its status.
        reasons: Its reasons, as in kube-scheduler's message.
        causes: The causes in words.
    """

    plugin: str
    code: str
    reasons: tuple[str, ...]
    causes: tuple[str, ...]


class NodeDocument(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One node.

    Attributes:
        name: The name.
        group: The group of nodes, by machine type and resources.
        total: The sum of the weighted scores; None = not scored.
        scores: Plugin -> weighted score.
        rejections: The rejections: the first one, or all with ``--all``.
    """

    name: str
    group: str
    total: int | None = None
    scores: dict[str, int] = {}
    rejections: list[RejectionDocument] = []


class RemedyDocument(msgspec.Struct, kw_only=True):
    """Changes that help together.

    Attributes:
        changes: The changes in words.
        node: The node to which the pod goes then; "" = one that is added.
    """

    changes: tuple[str, ...]
    node: str


class ExplanationDocument(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """The explanation of a decision.

    Attributes:
        summary: The result in one sentence.
        requests: Resource -> requested amount, as text.
        rejections: The rejections before any node was filtered.
        nodes: All nodes.
        notes: Plugin -> lines about all nodes that it rejected.
        remedies: The smallest changes that help; each was decided again.
        text: The lines that the command prints.
    """

    summary: str
    requests: dict[str, str] = {}
    rejections: list[RejectionDocument] = []
    nodes: list[NodeDocument] = []
    notes: dict[str, list[str]] = {}
    remedies: list[RemedyDocument] = []
    text: list[str] = []


def document_of(explained: Explained) -> ExplanationDocument:
    """Returns the document of an explanation."""
    case = explained.case
    notes: dict[str, list[str]] = {}
    for plugin, names in rejected_by(explained.of_nodes).items() if case is not None else ():
        nodes = [node for node in map(case.node, names) if node is not None] if case else []
        lines = list(notes_of(case, plugin, nodes)) if case else []
        if lines:
            notes[plugin] = lines
    document = ExplanationDocument(
        summary="",
        requests={
            name: amount_text(name, amount)
            for name, amount in explained.requests.items()
            if name != PODS
        },
        rejections=[
            RejectionDocument(
                plugin=item.plugin,
                code=item.code,
                reasons=item.reasons,
                causes=tuple(pod_causes_of(case, item)) if case is not None else (),
            )
            for item in explained.of_pod
        ],
        nodes=[_node(explained, name) for name in explained.utilization.nodes],
        notes=notes,
        remedies=[
            RemedyDocument(
                changes=tuple(change.text for change in remedy.changes),
                node="" if remedy.node == TRIAL else remedy.node,
            )
            for remedy in (explained.remedies.remedies if explained.remedies else ())
        ],
    )
    # Last, as this carries the decision out: the cluster changes.
    document.text = list(explained.lines())
    document.summary = explained.summary
    return document


def _node(explained: Explained, name: str) -> NodeDocument:
    decision, weights = explained.decision, explained.weights or {}
    return NodeDocument(
        name=name,
        group=explained.utilization.nodes[name].group,
        total=(decision.total or {}).get(name),
        scores={
            plugin: scores[name] * weights.get(plugin, 1)
            for plugin, scores in (decision.scores or {}).items()
            if name in scores
        },
        rejections=[
            RejectionDocument(
                plugin=item.plugin, code=item.code, reasons=item.reasons, causes=causes
            )
            for item, causes in explained.causes.get(name, ())
        ],
    )
