"""The result of a simulation: a summary as a value, as plain lines, and as terminal tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from mooring.decision import ERROR, SCHEDULED
from mooring.objects.counts import counted
from mooring.simulation.utilization import (
    PODS,
    NodeUtilization,
    ResourceNames,
    Utilization,
    amount_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

#: Length of the lists of the fullest and of the emptiest nodes.
NODES_SHOWN: Final = 5
#: Rows of the longer tables; the JSON has all.
ROWS_SHOWN: Final = 15


class ResourceUtilization(msgspec.Struct, frozen=True):
    """Allocatable and requested amount of a resource; cpu in millicores."""

    allocatable: int
    requested: int

    @property
    def share(self) -> float:
        """Requested / allocatable, 0 or more; 0 if nothing is allocatable."""
        return self.requested / self.allocatable if self.allocatable else 0.0


class GroupUtilization(msgspec.Struct, frozen=True):
    """A group of similar nodes: number of nodes, of their pods, and utilization by resource."""

    name: str
    nodes: int
    pods: int
    resources: dict[str, ResourceUtilization]


class NodeShare(msgspec.Struct, frozen=True):
    """A node, its utilization (mean over its resources, 0..1), and its number of pods."""

    name: str
    share: float
    pods: int


class Summary(msgspec.Struct, frozen=True):
    """The outcome of a simulation.

    ``unschedulable`` maps the distinct reasons of a pod, joined by ", ", to the number of pods;
    gated pods, errors and pods that were bound and evicted are included. ``waiting`` are pods that
    are nominated to a node whose victims have not left, ``evicted`` all evicted pods, ``not_ours``
    pods of other schedulers, which are in no other number. ``seconds`` is the time from the first
    to the last decision.
    """

    workload: str
    nodes: int
    pods: int
    bound: int
    waiting: int
    evicted: int
    not_ours: int
    unschedulable: dict[str, int]
    seconds: float
    pods_per_s: float
    peak_rss_bytes: int
    resources: dict[str, ResourceUtilization]
    groups: list[GroupUtilization]
    fullest: list[NodeShare]
    emptiest: list[NodeShare]


class OutcomeCounts:
    """Counts of attempts' outcomes."""

    def __init__(self) -> None:
        """Starts at zero."""
        self.bound = 0
        self.waiting = 0
        self.evicted = 0
        self.not_ours = 0
        self.refused: Counter[str] = Counter()

    @property
    def pods(self) -> int:
        """Number of outcomes counted."""
        return self.bound + self.waiting + self.refused.total()

    def add(self, result: str, reasons: Iterable[str], message: str) -> None:
        """Counts one outcome; the message is the reason if there are no reasons of nodes."""
        if result == SCHEDULED:
            self.bound += 1
            return
        text = ", ".join(sorted(reasons)) or message or result
        self.refused[f"error: {text}" if result == ERROR else text] += 1


def summarize(
    name: str,
    utilization: Utilization,
    counts: OutcomeCounts,
    *,
    duration_s: float,
    peak_rss_bytes: int,
) -> Summary:
    """Returns the summary; ``utilization`` is the cluster's state after the last pod."""
    by_share = sorted(utilization.nodes.values(), key=lambda node: -node.share())
    shares = [
        NodeShare(node.name, round(node.share(), 4), node.requested.get(PODS, 0))
        for node in by_share
    ]
    return Summary(
        workload=name,
        nodes=len(utilization.nodes),
        pods=counts.pods,
        bound=counts.bound,
        waiting=counts.waiting,
        evicted=counts.evicted,
        not_ours=counts.not_ours,
        unschedulable=dict(sorted(counts.refused.items(), key=lambda item: (-item[1], item[0]))),
        seconds=round(duration_s, 6),
        pods_per_s=round(counts.pods / duration_s, 1) if duration_s > 0 else 0.0,
        peak_rss_bytes=peak_rss_bytes,
        resources=_resources(utilization.allocatable, utilization.requested),
        groups=[_group(name, nodes) for name, nodes in utilization.groups().items()],
        fullest=shares[:NODES_SHOWN],
        emptiest=shares[: -NODES_SHOWN - 1 : -1],
    )


def _resources(
    allocatable: Mapping[str, int], requested: Mapping[str, int]
) -> dict[str, ResourceUtilization]:
    names = [*allocatable, *(name for name in requested if name not in allocatable)]
    return {
        name: ResourceUtilization(allocatable.get(name, 0), requested.get(name, 0))
        for name in names
        if name != PODS
    }


def _group(name: str, nodes: Sequence[NodeUtilization]) -> GroupUtilization:
    allocatable: Counter[str] = Counter()
    requested: Counter[str] = Counter()
    for node in nodes:
        allocatable.update(node.allocatable)
        requested.update(node.requested)
    return GroupUtilization(name, len(nodes), requested[PODS], _resources(allocatable, requested))


class Section(NamedTuple):
    """A table: the first ``text_columns`` are text, the others are numbers."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    text_columns: int = 1


def headline(summary: Summary) -> str:
    """Returns the outcome in one line."""
    refused = summary.pods - summary.bound - summary.waiting
    parts = [
        f"{summary.bound} of {counted(summary.pods, 'pod')} placed on"
        f" {counted(summary.nodes, 'node')}",
        f"{refused} refused",
    ]
    if summary.waiting:
        verb = "waits" if summary.waiting == 1 else "wait"
        parts.append(f"{summary.waiting} {verb} for victims to leave")
    if summary.evicted:
        parts.append(f"{counted(summary.evicted, 'pod')} evicted")
    return (
        f"{', '.join(parts)}, in {summary.seconds:.2f} s ({summary.pods_per_s:,.0f} pods/s,"
        f" {summary.peak_rss_bytes / (1 << 20):,.0f} MiB at most)"
    )


def sections(summary: Summary, named: Sequence[Section] = ()) -> list[Section]:
    """Returns the non-empty tables of a summary; ``named`` name pods, and come second."""
    names = list(summary.resources)
    short = ResourceNames(names).short
    refused = [(reason, str(count)) for reason, count in summary.unschedulable.items()]
    totals = [
        (
            short(name),
            amount_text(name, utilization.requested),
            amount_text(name, utilization.allocatable),
            percent(utilization.share),
        )
        for name, utilization in summary.resources.items()
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
    tables = [
        Section("Refused, and why", ("reasons of the nodes", "pods"), _cut(refused)),
        *named,
        Section("Resources", ("resource", "requested", "allocatable", "used"), totals),
        Section(
            "Utilization by group of nodes",
            ("group", "nodes", "pods", *map(short, names)),
            _cut(groups),
        ),
        Section("The fullest and the emptiest nodes", ("node", "used", "pods"), nodes),
    ]
    return [section for section in tables if section.rows]


def plain_text(summary: Summary, named: Sequence[Section] = ()) -> str:
    """Returns the summary as aligned columns without control characters."""
    tables = ("\n".join([section.title, *_lines(section)]) for section in sections(summary, named))
    return "\n\n".join([headline(summary), *tables])


def print_tables(summary: Summary, console: Console, named: Sequence[Section] = ()) -> None:
    """Prints the summary on a terminal."""
    from rich.markup import escape
    from rich.table import Table

    console.print(f"[bold]{escape(headline(summary))}[/bold]")
    for section in sections(summary, named):
        table = Table(title=section.title, title_justify="left", title_style="bold")
        for index, column in enumerate(section.columns):
            is_text = index < section.text_columns
            table.add_column(column, justify="left" if is_text else "right", overflow="fold")
        for row in section.rows:
            table.add_row(*map(escape, row))
        console.print(table)


def _lines(section: Section) -> list[str]:
    return aligned([section.columns, *section.rows], text_columns=section.text_columns)


def aligned(
    rows: Sequence[Sequence[str]], *, indent: str = "  ", text_columns: int = 1
) -> list[str]:
    """Returns rows as aligned lines: text on the left of its column, numbers on the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if index < text_columns else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append((indent + "  ".join(cells)).rstrip())
    return lines


def percent(share: float) -> str:
    """Formats a share with one decimal; a share below 1 is never shown as 100.0%."""
    text = f"{share * 100:.1f}"
    return "99.9%" if text == "100.0" and share < 1 else f"{text}%"


def _shares(resources: Mapping[str, ResourceUtilization], names: Sequence[str]) -> Iterable[str]:
    for name in names:
        utilization = resources.get(name)
        yield percent(utilization.share) if utilization and utilization.allocatable else "-"


def _cut(rows: Sequence[tuple[str, ...]]) -> Sequence[tuple[str, ...]]:
    if len(rows) <= ROWS_SHOWN:
        return rows
    rest = len(rows) - ROWS_SHOWN + 1
    return [*rows[: ROWS_SHOWN - 1], (f"... and {rest} more", *[""] * (len(rows[0]) - 1))]
