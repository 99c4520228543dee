"""Rules and dashboard: every metric that they ask for exists, with the type that they expect."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mooring.objects.files.documents import yaml_documents
from tests.helpers.paths import ROOT

FOLDER = ROOT / "deploy" / "monitoring"
#: Families of kube-scheduler v1.36.3: name and type, as its /metrics and /metrics/slis show them.
FAMILIES = dict(
    line.split()
    for line in (Path(__file__).parent / "data" / "metrics.txt").read_text().splitlines()
)
#: Prometheus makes these itself.
OWN = {"up": "gauge"}
SUFFIXES = ("_bucket", "_sum", "_count")
FUNCTIONS = {"sum", "rate", "max", "min", "absent", "histogram_quantile", "label_values"}
WORDS = {"by", "without", "and", "on", "le", "job", "instance", "pod"}


def rules() -> list[dict[str, Any]]:
    (document,) = yaml_documents((FOLDER / "prometheus-rule.yaml").read_bytes())
    return [rule for group in document.value["spec"]["groups"] for rule in group["rules"]]


def expressions() -> Iterator[tuple[str, str]]:
    """Yields the place of each expression, and its text."""
    for rule in rules():
        yield rule.get("alert") or rule["record"], rule["expr"]
    board = json.loads((FOLDER / "dashboard.json").read_text())
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield f"panel {panel['title']} {target['refId']}", target["expr"]
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]


def names_in(expression: str) -> set[str]:
    """Returns the metrics in an expression: what is no function, keyword or label."""
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\"[^\"]*\"", "", expression)
    bare = re.sub(r"\b(by|without|on)\s*\([^)]*\)", "", bare)
    return set(re.findall(r"[a-zA-Z_:][\w:]*", bare)) - FUNCTIONS - WORDS


@pytest.mark.parametrize(("where", "expression"), list(expressions()))
def test_every_metric_exists(where: str, expression: str) -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    names = names_in(expression)
    assert names
    for name in names - recorded:
        base = next((name.removesuffix(end) for end in SUFFIXES if name.endswith(end)), name)
        kind = FAMILIES.get(base) or FAMILIES.get(name) or OWN.get(name)
        assert kind, f"{where}: there is no metric {name}"
        if FAMILIES.get(name) is None and name not in OWN:
            assert kind == "histogram", f"{where}: {base} is a {kind}"
        elif kind == "histogram":
            pytest.fail(f"{where}: {name} is a histogram, so it has no sample of this name")


@pytest.mark.parametrize(("where", "expression"), list(expressions()))
def test_only_counters_have_a_rate(where: str, expression: str) -> None:
    for name in re.findall(r"rate\((\w+)\{", expression):
        counts = any(name.endswith(end) for end in (*SUFFIXES, "_total"))
        assert counts or FAMILIES[name] == "counter", where


def test_there_are_alerts_for_what_goes_wrong() -> None:
    alerts = {rule["alert"]: rule for rule in rules() if "alert" in rule}
    assert len(alerts) >= 8
    for rule in alerts.values():
        assert rule["for"]
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}


def test_the_list_of_metrics_is_long_enough_to_mean_something() -> None:
    assert len(FAMILIES) > 50
    assert FAMILIES["scheduler_schedule_attempts_total"] == "counter"
    assert FAMILIES["kubernetes_healthcheck"] == "gauge"
