"""The study's tables: unallocated GPUs beside the published ones, and the headline."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Final, NamedTuple

from studies.fgd.experiment import LISTS, Result
from studies.fgd.policies import POLICIES
from studies.fgd.published import Published

#: All GPUs of the cluster are requested.
FULL: Final = 100
#: GPUs of the cluster.
GPUS: Final = 6212
#: Accepted differences from the published means, in per cent of all GPUs.
CELL_MAX: Final = 0.6
FGD_MAX: Final = 0.2

Results = Mapping[tuple[str, str, int], Result]


class Cell(NamedTuple):
    """One list and policy.

    Attributes:
        pods: The name of the list.
        policy: The policy.
        n_seeds: The number of runs.
        mean: Unallocated GPUs in per cent of all, when 100 % are requested; mean of the runs.
        published: The published mean of ten runs.
    """

    pods: str
    policy: str
    n_seeds: int
    mean: float
    published: float

    @property
    def difference(self) -> float:
        """The mean's distance from the published one."""
        return abs(self.mean - self.published)

    @property
    def is_near(self) -> bool:
        """True if the difference is accepted."""
        return self.difference <= (FGD_MAX if self.policy == "FGD" else CELL_MAX)


def cells_of(results: Results, published: Published) -> list[Cell]:
    """Returns the cells that have runs."""
    cells = []
    for pods in LISTS:
        for policy in POLICIES:
            runs = _runs_of(results, pods, policy)
            if runs:
                mean = statistics.fmean(FULL - run.allocated[FULL] for run in runs)
                old = FULL - published["allocated"][pods][policy].mean[FULL]
                cells.append(Cell(pods, policy, len(runs), mean, old))
    return cells


def _runs_of(results: Results, pods: str, policy: str) -> list[Result]:
    return [result for key, result in results.items() if key[:2] == (pods, policy)]


def table(cells: list[Cell]) -> str:
    """Returns a table in Markdown: lists by policies, each with the published mean behind it."""
    by_name = {(cell.pods, cell.policy): cell for cell in cells}
    lines = [f"| list | {' | '.join(POLICIES)} |", "|---|" + "---|" * len(POLICIES)]
    for pods in LISTS:
        row = [_cell_text(by_name.get((pods, policy))) for policy in POLICIES]
        if any(row):
            lines.append(f"| {pods} | {' | '.join(row)} |")
    return "\n".join(lines)


def _cell_text(cell: Cell | None) -> str:
    return "" if cell is None else f"{cell.mean:.2f} / {cell.published:.2f}"


def verdict(cells: list[Cell]) -> str:
    """Returns how the cells compare with the published ones, in sentences."""
    far = [cell for cell in cells if not cell.is_near]
    seeds = sorted({cell.n_seeds for cell in cells})
    lines = [
        f"{len(cells)} of {len(LISTS) * len(POLICIES)} cells, seeds in each: {_span(seeds)}",
        f"{len(cells) - len(far)} within {CELL_MAX} points of the published mean (FGD: {FGD_MAX})",
    ]
    lines += [
        f"  {cell.pods} {cell.policy}: {cell.mean:.2f}, published {cell.published:.2f}"
        for cell in far
    ]
    for policy in POLICIES:
        own = [cell.difference for cell in cells if cell.policy == policy]
        if own:
            lines.append(f"largest difference of {policy}: {max(own):.2f}")
    best = [pods for pods in LISTS if _best(cells, pods) == "FGD"]
    lines.append(f"FGD leaves the least unallocated in {len(best)} lists")
    return "\n".join(lines)


def _span(numbers: list[int]) -> str:
    return f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"


def _best(cells: list[Cell], pods: str) -> str:
    own = [cell for cell in cells if cell.pods == pods]
    return min(own, key=lambda cell: cell.mean).policy if len(own) == len(POLICIES) else ""


def headline(results: Results) -> str:
    """Returns what FGD gains over DotProd on the default list: medians when 100 % are requested."""
    medians = {}
    for policy in POLICIES:
        runs = _runs_of(results, "default", policy)
        if runs:
            medians[policy] = statistics.median(FULL - run.allocated[FULL] for run in runs)
    lines = []
    for policy, median in medians.items():
        if policy != "FGD" and "FGD" in medians:
            gained = median - medians["FGD"]
            lines.append(
                f"FGD beside {policy}: {gained / median:.1%} fewer unallocated GPUs,"
                f" {gained / 100 * GPUS:.0f} more in use"
            )
    return "\n".join(lines)


def curves(results: Results, published: Published) -> str:
    """Returns the largest distances of the default list's curves from the published ones.

    Medians of the seeds, as in figures 7 and 9a of the paper.
    """
    lines = []
    for policy in POLICIES:
        runs = _runs_of(results, "default", policy)
        if runs:
            own = {
                "allocated": [run.allocated for run in runs],
                "fragmented": [run.fragmented for run in runs],
            }
            far = [
                f"{measure} {_distance(rows, published[measure]['default'][policy].median):.2f}"
                for measure, rows in own.items()
            ]
            lines.append(f"largest difference of the curves of {policy}: {', '.join(far)} points")
    return "\n".join(lines)


def _distance(rows: list[list[float]], other: list[float]) -> float:
    distance = 0.0
    for *own, old in zip(*rows, other, strict=True):
        distance = max(distance, abs(float(statistics.median(own)) - float(old)))
    return distance
