r"""The Prometheus text format 0.0.4, written as client_golang writes it.

Families come in the order of their names, series in the order of their label values, labels in the
order of their names; numbers are in Go's shortest form. A family without a series is left out.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/ and client_golang's expfmt.
*Differs* from ``prometheus_client.generate_latest``, which shows empty families, ``_created``
series, and every number as a Python float.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client.core import Metric

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
CONTENT_TYPE: Final = f"{MEDIA_TYPE}; escaping=underscores"

#: Go writes numbers outside of this range with an exponent.
_PLAIN_FROM: Final = 1e-4
_PLAIN_BELOW: Final = 1e6

#: Where prometheus_client puts the bound of a bucket.
BOUND: Final = "le"
#: The types that the format knows.
TYPES: Final = frozenset({"counter", "gauge", "histogram", "summary"})


def render(metrics: Iterable[Metric]) -> bytes:
    """Returns the families as text."""
    return "".join(_family(name, metric) for name, metric in exposed(metrics)).encode()


def exposed(metrics: Iterable[Metric]) -> Iterator[tuple[str, Metric]]:
    """Yields the families that have a series with the names that are exposed, in their order.

    Each name once: two collectors may have the same family, as libraries and we do.
    """
    by_name = [(_exposed_name(metric), metric) for metric in metrics if metric.samples]
    by_name.sort(key=lambda pair: pair[0])
    names = set()
    for name, metric in by_name:
        if name not in names:
            names.add(name)
            yield name, metric


def number_text(value: float) -> str:
    """Returns a number as Go's ``strconv.FormatFloat(value, 'g', -1, 64)``.

    Example:
        >>> number_text(67108864.0), number_text(0.1), number_text(1e-05), number_text(12.0)
        ('6.7108864e+07', '0.1', '1e-05', '12')
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value and not _PLAIN_FROM <= abs(value) < _PLAIN_BELOW:
        return _with_exponent(value)
    return str(int(value)) if value == int(value) else repr(float(value))


def _with_exponent(value: float) -> str:
    """Returns the shortest digits that give this float, as d.ddde+XX."""
    mantissa, _, exponent = repr(float(value)).partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    power = int(exponent or 0) + len(whole) - 1
    if whole.strip("0") == "":
        power -= len(whole + fraction) - len(digits)
    digits = digits.rstrip("0")
    mantissa = digits[0] + (f".{digits[1:]}" if len(digits) > 1 else "")
    return f"{sign}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"


def _exposed_name(metric: Metric) -> str:
    """Returns the family's name; prometheus_client's counters have theirs without the suffix."""
    first: str = metric.samples[0].name
    if metric.type == "counter" and first == f"{metric.name}_total":
        return first
    return str(metric.name)


def _family(name: str, metric: Metric) -> str:
    help_text = metric.documentation.replace("\\", "\\\\").replace("\n", "\\n")
    # Python has types that the format does not know.
    kind = metric.type if metric.type in TYPES else "untyped"
    lines = [f"# HELP {name} {help_text}\n# TYPE {name} {kind}\n"]
    for sample in metric.samples:
        if is_created(sample.name, name):
            continue
        lines.append(f"{sample.name}{_labels(sample.labels)} {number_text(sample.value)}\n")
    return "".join(lines)


def is_created(sample_name: str, name: str) -> bool:
    """Returns whether a sample is the time of creation of a series, which is not exposed."""
    return sample_name.endswith("_created") and sample_name != name


def _labels(labels: dict[str, str]) -> str:
    if not labels:
        return ""
    # The bound of a bucket comes last.
    names = sorted(name for name in labels if name != BOUND)
    if BOUND in labels:
        names.append(BOUND)
    return "{" + ",".join(f'{name}="{_escaped(labels[name])}"' for name in names) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
