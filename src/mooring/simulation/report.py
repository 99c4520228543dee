"""What a simulation came to: a summary as a value, as plain lines, and as tables for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from mooring.decision import ERROR, SCHEDULED
from mooring.simulation.utilization import PODS, Fill, NodeFill, amount_text, short_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

#: How many nodes are named as the fullest and as the emptiest.
NODES_SHOWN: Final = 5
#: Rows of the longer tables; the JSON has all.
ROWS_SHOWN: Final = 15


class ResourceFill(msgspec.Struct, frozen=True):
    """How much of a resource there is and how much is asked for; cpu in millicores."""

    allocatable: int
    requested: int

    @property
    def share(self) -> float:
        """Requested by allocatable, 0..1 and beyond; 0 where there is nothing."""
        return self.requested / self.allocatable if self.allocatable else 0.0


class GroupFill(msgspec.Struct, frozen=True):
    """A group of like nodes: how many they are, the pods on them, and each resource."""

    name: str
    nodes: int
    pods: int
    resources: dict[str, ResourceFill]


class NodeShare(msgspec.Struct, frozen=True):
    """A node, how full it is (the mean over its resources, 0..1), and its pods."""

    name: str
    share: float
    pods: int


class Summary(msgspec.Struct, frozen=True):
    """The outcome of a simulation; its JSON is what ``mooring simulate -o json`` prints.

    ``unschedulable`` maps the distinct reasons of a pod, joined by ", ", to the number of pods;
    gated pods and errors are among them. ``seconds`` runs from the first decision to the last.
    """

    workload: str
    nodes: int
    pods: int
    bound: int
    unschedulable: dict[str, int]
    seconds: float
    pods_per_s: float
    peak_rss_bytes: int
    resources: dict[str, ResourceFill]
    groups: list[GroupFill]
    fullest: list[NodeShare]
    emptiest: list[NodeShare]


class Tally:
    """Counts outcomes as they come."""

    def __init__(self) -> None:
        """Starts at zero."""
        self.bound = 0
        self.refused: Counter[str] = Counter()

    @property
    def pods(self) -> int:
        """How many outcomes were counted."""
        return self.bound + self.refused.total()

    def add(self, result: str, reasons: Iterable[str], message: str) -> None:
        """Counts one outcome; without reasons of nodes the message stands for them."""
        if result == SCHEDULED:
            self.bound += 1
            return
        text = ", ".join(sorted(reasons)) or message or result
        self.refused[f"error: {text}" if result == ERROR else text] += 1


def summarize(
    name: str, fill: Fill, tally: Tally, *, duration_s: float, peak_rss_bytes: int
) -> Summary:
    """Puts together what was counted; ``fill`` is the cluster after the last pod."""
    by_share = sorted(fill.nodes.values(), key=lambda node: -node.share())
    shares = [
        NodeShare(node.name, round(node.share(), 4), node.requested.get(PODS, 0))
        for node in by_share
    ]
    return Summary(
        workload=name,
        nodes=len(fill.nodes),
        pods=tally.pods,
        bound=tally.bound,
        unschedulable=dict(sorted(tally.refused.items(), key=lambda item: (-item[1], item[0]))),
        seconds=round(duration_s, 6),
        pods_per_s=round(tally.pods / duration_s, 1) if duration_s > 0 else 0.0,
        peak_rss_bytes=peak_rss_bytes,
        resources=_resources(fill.allocatable, fill.requested),
        groups=[_group(name, nodes) for name, nodes in fill.groups().items()],
        fullest=shares[:NODES_SHOWN],
        emptiest=shares[: -NODES_SHOWN - 1 : -1],
    )


def _resources(
    allocatable: Mapping[str, int], requested: Mapping[str, int]
) -> dict[str, ResourceFill]:
    names = [*allocatable, *(name for name in requested if name not in allocatable)]
    return {
        name: ResourceFill(allocatable.get(name, 0), requested.get(name, 0))
        for name in names
        if name != PODS
    }


def _group(name: str, nodes: Sequence[NodeFill]) -> GroupFill:
    allocatable: Counter[str] = Counter()
    requested: Counter[str] = Counter()
    for node in nodes:
        allocatable.update(node.allocatable)
        requested.update(node.requested)
    return GroupFill(name, len(nodes), requested[PODS], _resources(allocatable, requested))


class Section(NamedTuple):
    """One table: the first column is text, the others are numbers."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def headline(summary: Summary) -> str:
    """Returns the outcome in one line."""
    refused = summary.pods - summary.bound
    return (
        f"{summary.bound} of {counted(summary.pods, 'pod')} placed on"
        f" {counted(summary.nodes, 'node')},"
        f" {refused} refused, in {summary.seconds:.2f} s ({summary.pods_per_s:,.0f} pods/s,"
        f" {summary.peak_rss_bytes / (1 << 20):,.0f} MiB at most)"
    )


def sections(summary: Summary) -> list[Section]:
    """Returns the tables of a summary, empty ones left out."""
    names = list(summary.resources)
    refused = [(reason, str(count)) for reason, count in summary.unschedulable.items()]
    totals = [
        (
            short_name(name),
            amount_text(name, fill.requested),
            amount_text(name, fill.allocatable),
            percent(fill.share),
        )
        for name, fill in summary.resources.items()
    ]
    groups = [
        (group.name, str(group.nodes), str(group.pods), *_shares(group.resources, names))
        for group in summary.groups
    ]
    nodes = [
        (node.name, percent(node.share), str(node.pods))
        for node in [*summary.fullest, *reversed(summary.emptiest)]
    ]
    if summary.nodes < 2 * NODES_SHOWN:
        nodes = list(dict.fromkeys(nodes))
    found = [
        Section("Refused, and why", ("reasons of the nodes", "pods"), _cut(refused)),
        Section("Resources", ("resource", "requested", "allocatable", "fill"), totals),
        Section(
            "Fill by group of nodes",
            ("group", "nodes", "pods", *map(short_name, names)),
            _cut(groups),
        ),
        Section("The fullest and the emptiest nodes", ("node", "fill", "pods"), nodes),
    ]
    return [section for section in found if section.rows]


def plain_text(summary: Summary) -> str:
    """Returns the summary without any control character, columns aligned."""
    tables = (
        "\n".join([section.title, *aligned([section.columns, *section.rows])])
        for section in sections(summary)
    )
    return "\n\n".join([headline(summary), *tables])


def print_tables(summary: Summary, console: Console) -> None:
    """The summary for a terminal."""
    from rich.markup import escape
    from rich.table import Table

    console.print(f"[bold]{escape(headline(summary))}[/bold]")
    for section in sections(summary):
        table = Table(title=section.title, title_justify="left", title_style="bold")
        for index, column in enumerate(section.columns):
            table.add_column(column, justify="right" if index else "left", overflow="fold")
        for row in section.rows:
            table.add_row(*map(escape, row))
        console.print(table)


def counted(count: int, noun: str) -> str:
    """Returns a count with its noun: "1 pod", "2 pods", "2 NetworkPolicies"."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y"):
        return f"{count} {noun[:-1]}ies"
    return f"{count} {noun}es" if noun.endswith("s") else f"{count} {noun}s"


def aligned(rows: Sequence[Sequence[str]], *, indent: str = "  ") -> list[str]:
    """Rows of text as lines: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append((indent + "  ".join(cells)).rstrip())
    return lines


def percent(share: float) -> str:
    """A share for a person: one decimal, and never 100.0 % while something is left."""
    text = f"{share * 100:.1f}"
    return "99.9%" if text == "100.0" and share < 1 else f"{text}%"


def _shares(resources: Mapping[str, ResourceFill], names: Sequence[str]) -> Iterable[str]:
    for name in names:
        fill = resources.get(name)
        yield percent(fill.share) if fill and fill.allocatable else "-"


def _cut(rows: Sequence[tuple[str, ...]]) -> Sequence[tuple[str, ...]]:
    if len(rows) <= ROWS_SHOWN:
        return rows
    rest = len(rows) - ROWS_SHOWN + 1
    return [*rows[: ROWS_SHOWN - 1], (f"... and {rest} more", *[""] * (len(rows[0]) - 1))]
