"""The worst-case costs of selectors against kube-apiserver's estimates."""

from __future__ import annotations

from mooring.cel import compile_selector
from tests.parity.test_cel_cases import records


def test_the_greatest_cost_is_estimated_as_by_kube_apiserver() -> None:
    cases = records("cel-estimates.jsonl.gz")
    assert len(cases) > 400
    for case in cases:
        expression = case["expression"]
        estimate = compile_selector(expression).estimate_cost()
        assert (expression, estimate.most) == (expression, case["max_cost"])
        assert estimate.least <= estimate.most, expression
