"""Curves of the six policies as SVG: ``python -m studies.fgd.plot RESULTS FOLDER``."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from studies.fgd.experiment import LAST, Result
from studies.fgd.policies import POLICIES
from studies.fgd.store import Store

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 60, 110, 30, 50
#: Colours that the colour-blind can tell (Okabe and Ito), and dashes besides.
STYLES: Final = {
    "Random": ("#666666", "2 3"),
    "DotProd": ("#b35c00", "8 3"),
    "Clustering": ("#006d4e", "4 2"),
    "Packing": ("#8f4b7d", "10 3 2 3"),
    "BestFit": ("#0072b2", ""),
    "FGD": ("#d55e00", ""),
}


def medians(results: Sequence[Result], curve: Callable[[Result], list[float]]) -> list[float]:
    """Returns the medians of several runs, by requested GPUs in per cent."""
    columns = zip(*map(curve, results), strict=True)
    return [statistics.median(column) for column in columns]


def chart(
    title: str, unit: str, curves: Mapping[str, Sequence[float]], *, first: int, top: float
) -> str:
    """Returns an SVG.

    Args:
        title: Of the chart.
        unit: Of the vertical axis.
        curves: Policy -> values by requested GPUs in per cent.
        first: Where the horizontal axis begins, in per cent.
        top: Where the vertical axis ends.
    """

    def x(percent: float) -> float:
        return LEFT + (percent - first) / (LAST - first) * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - min(value, top) / top * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
        f' aria-label="{title}" font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="18" font-weight="bold">{title}</text>',
        f'<text x="{LEFT}" y="{HEIGHT - 8}">requested GPUs, % of all</text>',
        f'<text x="14" y="{HEIGHT / 2}" transform="rotate(-90 14 {HEIGHT / 2})">{unit}</text>',
    ]
    for step in range(6):
        value = top * step / 5
        parts.append(
            f'<path d="M{LEFT} {y(value):.1f}H{WIDTH - RIGHT}" stroke="#dddddd"/>'
            f'<text x="{LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{value:g}</text>'
        )
    base = HEIGHT - BOTTOM + 18
    parts += [
        f'<text x="{x(percent):.1f}" y="{base}" text-anchor="middle">{percent}</text>'
        for percent in range(first, LAST + 1, 10)
    ]
    ends = sorted((y(values[LAST]), policy) for policy, values in curves.items())
    label_y = 0.0
    for end_y, policy in ends:
        colour, dashes = STYLES[policy]
        points = " ".join(
            f"{x(percent):.1f},{y(curves[policy][percent]):.1f}"
            for percent in range(first, LAST + 1)
        )
        label_y = max(label_y + 15, end_y + 4)
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"'
            f' stroke-dasharray="{dashes}"/>'
            f'<text x="{WIDTH - RIGHT + 6}" y="{label_y:.1f}" fill="{colour}">{policy}</text>'
        )
    return "\n".join([*parts, "</svg>\n"])


def main(results_file: str, folder: str) -> None:
    """Writes the two charts of the default list."""
    results = Store(Path(results_file)).results.values()
    own = [result for result in results if result.pods == "default"]
    by_policy = {policy: [run for run in own if run.policy == policy] for policy in POLICIES}
    rates = {name: medians(runs, lambda run: run.rate) for name, runs in by_policy.items()}
    unallocated = {
        name: [100 - value for value in medians(runs, lambda run: run.allocated)]
        for name, runs in by_policy.items()
    }
    title = "Fragmentation of the idle GPUs"
    text = chart(title, "% of the idle GPUs", rates, first=0, top=100)
    (Path(folder) / "fgd-fragmentation.svg").write_text(text)
    text = chart("Unallocated GPUs", "% of all GPUs", unallocated, first=80, top=20)
    (Path(folder) / "fgd-unallocated.svg").write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
