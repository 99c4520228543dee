"""A change that lets a pod fit, and does not requeue it, is reported at once; others are not."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.client import ObjectChange
from mooring.testing import make_node, make_pod
from tests.faults.harness.wakeup_checker import WakeupChecker
from tests.faults.twins.must_queue import MustQueue
from tests.helpers.running_scheduler import run_scheduler, virtually

SMALL, LARGER, LARGE = (make_node("a", allocatable={"cpu": cpu}) for cpu in ("1", "2", "4"))


@pytest.mark.parametrize(
    ("new", "is_lost", "expected"),
    [(LARGE, False, 0), (LARGER, True, 0), (LARGE, True, 1)],
    ids=["requeued", "still too small", "not requeued"],
)
@virtually
async def test_a_node_that_grows(
    new: Any, is_lost: bool, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run_scheduler(SMALL) as life:
        service, problems = life.service, list[str]()
        await life.create(make_pod("web", requests={"cpu": "3"}))
        await life.until_seen("failed", "web")
        await life.until(lambda: not len(service.writer))
        with monkeypatch.context() as patch:
            MustQueue(service, WakeupChecker(), problems.append)
            if is_lost:
                patch.setattr(service.queue, "move", lambda *_, **__: None)
            service.events.on_change("Node", ObjectChange(SMALL, new))
        assert len(problems) == expected
        assert all("fits a after a change of Node a" in problem for problem in problems)
        service.events.on_change("Node", ObjectChange(new, SMALL))
