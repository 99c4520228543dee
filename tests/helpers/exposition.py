"""Reads the Prometheus text format, strictly enough to compare two expositions."""

from __future__ import annotations

from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

#: (name of a sample, its labels) -> value.
Values = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@dataclass
class ParsedFamily:
    """A family of an exposition: type, label names without ``le``, bounds, samples."""

    name: str
    kind: str
    help: str
    labels: frozenset[str] = frozenset()
    buckets: tuple[str, ...] = ()
    values: Values = field(default_factory=dict)


def parse(text: bytes) -> dict[str, ParsedFamily]:
    """Returns family name -> family, by the names of the TYPE lines."""
    body = text.decode()
    kinds = {
        line.split()[2]: line.split()[3] for line in body.splitlines() if line.startswith("# TYPE")
    }
    helps = {
        line.split(" ", 3)[2]: line.split(" ", 3)[3]
        for line in body.splitlines()
        if line.startswith("# HELP") and line.count(" ") > 2
    }
    families = {name: ParsedFamily(name, kind, helps.get(name, "")) for name, kind in kinds.items()}
    for metric in text_string_to_metric_families(body):
        for sample in metric.samples:
            family = families.get(sample.name) or families[_base(sample.name)]
            family.labels |= frozenset(sample.labels) - {"le"}
            if "le" in sample.labels and sample.labels["le"] not in family.buckets:
                family.buckets += (sample.labels["le"],)
            family.values[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    return families


def value(text: bytes, sample: str, /, **labels: str) -> float | None:
    """Returns one sample of an exposition; None if there is none."""
    for family in parse(text).values():
        number = family.values.get((sample, tuple(sorted(labels.items()))))
        if number is not None:
            return number
    return None


def _base(sample_name: str) -> str:
    # The parser gives every counter its suffix.
    for suffix in ("_bucket", "_sum", "_count", "_total"):
        if sample_name.endswith(suffix):
            return sample_name.removesuffix(suffix)
    return sample_name
