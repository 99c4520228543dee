"""The verdict on each node in one attempt: a page of a table, made of a ``Decision``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from mooring.decision import Decision
from mooring.ui.attempts import AttemptRecord

#: Nodes of one page of the table.
VERDICTS_PAGE: Final = 200

RAW, SCORE, NODE, TOTAL, REJECTION = "raw", "score", "node", "total", "rejection"


class VerdictQuery(msgspec.Struct, frozen=True):
    """The rows of the table that a page asks for.

    Attributes:
        text: A part of the node's name or of a reason; "" = all.
        plugin: Only nodes that this plugin rejected or scored; "" = all.
        sort: ``node``, ``total``, ``rejection``, or a plugin whose scores are compared.
        kind: ``raw`` or ``score``: the scores that are compared.
        is_descending: The order.
        offset: The first row.
    """

    text: str = ""
    plugin: str = ""
    sort: str = TOTAL
    kind: str = SCORE
    is_descending: bool = True
    offset: int = 0


class NodeVerdict(msgspec.Struct, omit_defaults=True, rename="camel"):
    """The verdict on one node.

    Attributes:
        node: Its name.
        total: The sum of its weighted scores; None = it was not scored.
        plugin: The plugin that rejected it; "" = it was feasible.
        reasons: In kube-scheduler's words.
        raw: The raw score of each plugin; None = the plugin did not score the node.
        scores: The scores after normalizing, 0..100, before the weight.
    """

    node: str
    total: int | None = None
    plugin: str = ""
    reasons: tuple[str, ...] = ()
    raw: list[int | None] = []
    scores: list[int | None] = []


class VerdictPage(msgspec.Struct, rename="camel"):
    """Some rows of the table.

    Attributes:
        attempt: The attempt.
        plugins: The plugins that scored, in the order of the scores.
        weights: Their weights.
        rejecting: The plugins that rejected nodes.
        message: Why no node was evaluated; "" = there are verdicts.
        count: The number of rows that match the query.
        offset: The first row of this page.
        nodes: The rows.
    """

    attempt: AttemptRecord
    plugins: list[str]
    weights: list[int]
    rejecting: list[str]
    message: str
    count: int
    offset: int
    nodes: list[NodeVerdict]


def verdict_page(
    record: AttemptRecord, decision: Decision, weights: Mapping[str, int], query: VerdictQuery
) -> VerdictPage:
    """Returns the rows of the table that match a query.

    Complexity: O(nodes x plugins), for each page.
    """
    plugins = sorted(decision.scores or {})
    rows = [row for row in _rows(decision, plugins) if _matches(row, query, plugins)]
    rows.sort(key=lambda row: row.node)
    if query.sort != NODE or query.is_descending:
        rows.sort(key=lambda row: _sort_key(row, query, plugins), reverse=query.is_descending)
    rejecting = {name for item in decision.rejected.values() for name in item.plugins}
    before = decision.prefilter
    return VerdictPage(
        attempt=record,
        plugins=plugins,
        weights=[weights.get(plugin, 1) for plugin in plugins],
        rejecting=sorted(rejecting),
        message="" if before is None else f"{before.plugin}: {'; '.join(before.reasons)}",
        count=len(rows),
        offset=query.offset,
        nodes=rows[query.offset : query.offset + VERDICTS_PAGE],
    )


def _rows(decision: Decision, plugins: list[str]) -> list[NodeVerdict]:
    raw, scores, total = decision.raw or {}, decision.scores or {}, decision.total or {}
    raw_columns = [raw.get(plugin, {}) for plugin in plugins]
    columns = [scores[plugin] for plugin in plugins]
    rows = [
        NodeVerdict(
            node,
            value,
            raw=[column.get(node) for column in raw_columns],
            scores=[column.get(node) for column in columns],
        )
        for node, value in total.items()
    ]
    if decision.node and decision.node not in total and decision.node not in decision.rejected:
        rows.append(NodeVerdict(decision.node))  # the only feasible node is not scored
    rows += [
        NodeVerdict(node, plugin=item.plugin, reasons=item.reasons)
        for node, item in decision.rejected.items()
    ]
    return rows


def _matches(row: NodeVerdict, query: VerdictQuery, plugins: list[str]) -> bool:
    text, plugin = query.text.casefold(), query.plugin
    if text and not any(text in part.casefold() for part in (row.node, *row.reasons)):
        return False
    if not plugin or plugin in row.plugin.split(","):
        return True
    return plugin in plugins and row.total is not None


def _sort_key(row: NodeVerdict, query: VerdictQuery, plugins: list[str]) -> tuple[bool, str | int]:
    """Returns the key; nodes without a score are the lowest."""
    if query.sort == NODE:
        return True, row.node
    if query.sort == REJECTION:
        return bool(row.plugin), f"{row.plugin} {row.reasons}"
    value = row.total
    if query.sort in plugins and row.total is not None:
        values = row.raw if query.kind == RAW else row.scores
        value = values[plugins.index(query.sort)]
    return value is not None, value or 0
