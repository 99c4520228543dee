"""Schedules of CronJobs. Most cases are those of github.com/robfig/cron/v3 spec_test.go."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mooring.simulation.controllers.cron_schedule import parse_schedule

NEW_YORK = "America/New_York"


def next_text(after: str, schedule: str, zone: str | None = None) -> str:
    time_s = parse_schedule(schedule, zone)(datetime.fromisoformat(after).timestamp())
    return "" if time_s is None else datetime.fromtimestamp(time_s, UTC).isoformat()


@pytest.mark.parametrize(
    ("time", "schedule", "is_instant"),
    [
        ("2012-07-09T15:00", "0/15 * * * *", True),
        ("2012-07-09T15:40", "0/15 * * * *", False),
        ("2012-07-09T15:50", "5/15 * * * *", True),
        ("2012-07-15T15:00", "0/15 * * Jul *", True),
        ("2012-07-15T15:00", "0/15 * * Jun *", False),
        ("2012-07-15T08:30", "30 08 ? Jul Sun", True),
        ("2012-07-15T08:30", "30 08 15 Jul ?", True),
        ("2012-07-16T08:30", "30 08 ? Jul Sun", False),
        ("2012-07-16T08:30", "30 08 15 Jul ?", False),
        ("2012-07-09T15:00", "@hourly", True),
        ("2012-07-09T15:04", "@hourly", False),
        ("2012-07-09T00:00", "@daily", True),
        ("2012-07-09T00:00", "@weekly", False),
        ("2012-07-08T00:00", "@weekly", True),
        ("2012-07-08T00:00", "@monthly", False),
        ("2012-07-01T00:00", "@monthly", True),
        ("2012-01-01T00:00", "@yearly", True),
        ("2012-07-01T00:00", "@yearly", False),
        # Without a star one of the two fields of days is enough; with one, both must match.
        ("2012-07-15T00:00", "* * 1,15 * Sun", True),
        ("2012-06-15T00:00", "* * 1,15 * Sun", True),
        ("2012-08-01T00:00", "* * 1,15 * Sun", True),
        ("2012-07-15T00:00", "* * */10 * Sun", True),
        ("2012-07-15T00:00", "* * * * Mon", False),
        ("2012-07-09T00:00", "* * 1,15 * *", False),
        ("2012-07-15T00:00", "* * 1,15 * *", True),
        ("2012-07-15T00:00", "* * */2 * Sun", True),
    ],
)
def test_an_instant_matches_the_fields(time: str, schedule: str, is_instant: bool) -> None:
    time_s = datetime.fromisoformat(f"{time}:00+00:00").timestamp()
    assert (parse_schedule(schedule)(time_s - 1) == time_s) is is_instant


@pytest.mark.parametrize(
    ("after", "schedule", "expected"),
    [
        ("2012-07-09T14:59:59", "0/15 * * * *", "2012-07-09T15:00:00"),
        ("2012-07-09T15:45:00", "20-35/15 * * * *", "2012-07-09T16:20:00"),
        ("2012-07-09T23:35:51", "20-35/15 1/2 */2 * *", "2012-07-11T01:20:00"),
        ("2012-07-09T23:35:00", "0 0 9 Apr-Oct ?", "2012-08-09T00:00:00"),
        ("2012-07-09T23:35:00", "0 0 */5 Apr,Aug,Oct Mon", "2012-08-01T00:00:00"),
        ("2012-07-09T23:35:00", "0 0 * Feb Mon", "2013-02-04T00:00:00"),
        ("2012-07-09T23:35:00", "0 0 * Feb Mon/2", "2013-02-01T00:00:00"),
        ("2012-12-31T23:59:45", "* * * * *", "2013-01-01T00:00:00"),
        ("2012-07-09T23:35:00", "0 0 29 Feb ?", "2016-02-29T00:00:00"),
        ("2012-07-09T23:35:10", "@every 90s", "2012-07-09T23:36:40"),
        ("2012-07-09T23:35:10", "@every 1h10m", "2012-07-10T00:45:10"),
    ],
)
def test_the_next_instant(after: str, schedule: str, expected: str) -> None:
    assert next_text(f"{after}+00:00", schedule) == f"{expected}+00:00"


@pytest.mark.parametrize("schedule", ["0 0 30 Feb ?", "0 0 31 Apr ?"])
def test_a_day_that_never_comes_has_no_instant(schedule: str) -> None:
    assert next_text("2012-07-09T23:35:00+00:00", schedule) == ""


@pytest.mark.parametrize(
    ("after", "schedule", "zone", "expected"),
    [
        # The clocks go forward from 2:00 to 3:00.
        ("2012-03-11T00:00:00-05:00", "30 2 11 Mar ?", NEW_YORK, "2013-03-11T06:30:00"),
        ("2012-03-11T01:00:00-05:00", "0 * * * ?", NEW_YORK, "2012-03-11T07:00:00"),
        ("2012-03-11T00:00:00-05:00", "0 2 * * ?", NEW_YORK, "2012-03-12T06:00:00"),
        # They go back from 2:00 to 1:00, and 1:00 comes twice.
        ("2012-11-04T00:00:00-04:00", "0 1 * * ?", NEW_YORK, "2012-11-04T05:00:00"),
        ("2012-11-04T01:00:00-04:00", "0 1 * * ?", NEW_YORK, "2012-11-04T06:00:00"),
        ("2012-11-04T01:45:00-04:00", "30 1 04 Nov ?", NEW_YORK, "2012-11-04T06:30:00"),
        # Midnight is skipped.
        ("2018-10-17T05:00:00-04:00", "0 9 10 * ?", "America/Sao_Paulo", "2018-11-10T11:00:00"),
    ],
)
def test_instants_are_in_the_time_zone(after: str, schedule: str, zone: str, expected: str) -> None:
    assert next_text(after, schedule, zone) == f"{expected}+00:00"
    assert next_text(after, f"CRON_TZ={zone} {schedule}") == f"{expected}+00:00"


@pytest.mark.parametrize(
    "schedule", ["xyz", "60 0 * * *", "0 60 * * *", "0 0 * * XYZ", "0 0 0 * *"]
)
def test_an_invalid_schedule_is_refused(schedule: str) -> None:
    with pytest.raises(ValueError, match=r"^(a schedule has|not a range|invalid literal)"):
        parse_schedule(schedule)


def test_an_unknown_time_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="no time zone 'Nowhere/City'"):
        parse_schedule("0 0 * * *", "Nowhere/City")
