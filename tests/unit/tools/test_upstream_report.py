"""The report about Kubernetes' own tests: which lines of Go's output are results."""

from __future__ import annotations

from tools.upstream_tests.packages import PACKAGES
from tools.upstream_tests.prepare import STAGING, STARTS
from tools.upstream_tests.report import Result, read_output, table

OUTPUT = """\
=== RUN   TestA
=== RUN   TestA/one
    queue_test.go:40: does not apply: a reason
I1122 20:42:01 server.go:296] "HTTP" --- PASS: no result (1.00s)
--- FAIL: TestA (3.00s)
    --- PASS: TestA/one (1.25s)
    --- FAIL: TestA/two (1.50s)
--- SKIP: TestB (0.00s)
FAIL
"""


def test_only_tests_without_subtests_are_counted() -> None:
    outcome = read_output(OUTPUT)
    assert outcome.results == [
        Result("TestA/one", "PASS", 1.25),
        Result("TestA/two", "FAIL", 1.5),
        Result("TestB", "SKIP", 0.0),
    ]
    assert [outcome.count(name) for name in ("PASS", "FAIL", "SKIP")] == [1, 1, 1]
    assert outcome.reasons == ["a reason"]
    assert outcome.ended


def test_a_program_that_was_stopped_has_not_ended() -> None:
    assert not read_output(
        "=== RUN   TestA\n--- PASS: TestA (1.00s)\npanic: test timed out\n"
    ).ended


def test_a_table_has_one_line_for_each_row() -> None:
    assert table([("a", "b"), ("1", "2")]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"


def test_packages_are_named_once_with_reasons() -> None:
    names = [package.name for package in PACKAGES]
    assert len(set(names)) == len(names)
    assert all(item.tests and item.reason for package in PACKAGES for item in package.excluded)


def test_a_scheduler_that_is_started_in_the_background_is_waited_for() -> None:
    line = "\tgo testCtx.Scheduler.Run(testCtx.Ctx)\n\tgo nc.Run(testCtx.Ctx)\n"
    expected = "\ttestCtx.Scheduler.Go(testCtx.Ctx)\n\tgo nc.Run(testCtx.Ctx)\n"
    assert STARTS.sub(r"\1.Go(", line) == expected


def test_staging_modules_get_a_version() -> None:
    line = "\tk8s.io/api => ./staging/src/k8s.io/api"
    assert STAGING.sub(r"=> \1 v0.36.3", line) == "\tk8s.io/api => k8s.io/api v0.36.3"
