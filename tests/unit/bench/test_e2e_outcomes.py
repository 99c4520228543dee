"""The outcomes of specs in Ginkgo's report: which ones were chosen, and how they ended."""

from __future__ import annotations

from typing import Any

from bench.e2e.run import Outcome, outcomes


def spec(text: str, state: str, **fields: Any) -> dict[str, Any]:
    return {
        "LeafNodeType": "It",
        "ContainerHierarchyTexts": ["[sig-scheduling]", "Preemption"],
        "LeafNodeText": text,
        "State": state,
        "RunTime": 1_500_000_000,
        **fields,
    }


def test_a_spec_is_named_by_all_its_texts() -> None:
    found = outcomes([{"SpecReports": [spec("works", "passed")]}])
    assert found == {"[sig-scheduling] Preemption works": Outcome("passed", duration_s=1.5)}


def test_a_failure_has_its_message() -> None:
    failed = spec("works", "failed", Failure={"Message": "no pod was preempted\n"})
    (outcome,) = outcomes([{"SpecReports": [failed]}]).values()
    assert outcome == Outcome("failed", "no pod was preempted", 1.5)


def test_specs_outside_of_the_filters_and_pending_specs_are_left_out() -> None:
    specs = [spec("filtered", "skipped"), spec("unfinished", "pending")]
    assert outcomes([{"SpecReports": specs}]) == {}


def test_a_spec_that_skipped_itself_is_reported() -> None:
    skipped = spec("two nodes", "skipped", Failure={"Message": "2 nodes required"})
    (outcome,) = outcomes([{"SpecReports": [skipped]}]).values()
    assert outcome.state == "skipped"


def test_the_nodes_around_specs_are_left_out() -> None:
    setup = {**spec("", "passed"), "LeafNodeType": "SynchronizedBeforeSuite"}
    assert outcomes([{"SpecReports": [setup]}]) == {}
