"""The checks of contents and of metrics report a wrong field, and nothing without one."""

from __future__ import annotations

import pytest

from mooring.scheduler import pod_condition
from mooring.scheduler.binding_cycle import BindingCycle
from mooring.scheduler.reporting import Reporting
from mooring.scheduler.schedule_one import Scheduler
from tests.faults.fault_fixture import Lab, run_in_lab, small_node, small_pod
from tests.faults.harness.trace import InvariantBroken
from tests.faults.planted import PlantedBug

WRONG = [
    PlantedBug("note", "", Reporting, "bound", "own(pod, node_name)", 'own(pod, "b")'),
    PlantedBug("type", "", Reporting, "_record_failure", '"Warning"', '"Normal"'),
    PlantedBug("reason", "", Reporting, "failed", "else UNSCHEDULABLE", "else SCHEDULER_ERROR"),
    PlantedBug("time", "", pod_condition, "condition_patch", "rfc3339(now_s)", "rfc3339(0.0)"),
    PlantedBug("quarantine", "", Scheduler, "_handle_scheduling_failure", "else 0.0", "else 300.0"),
    PlantedBug("attempts", "", BindingCycle, "_finish_binding", "entry.attempts", "1"),
]


async def fill_a_node(lab: Lab) -> None:
    """Binds a pod, and another one at its second attempt."""
    async with lab.running():
        await lab.add(small_node(), small_pod("first"))
        await lab.wait_until(lambda: lab.node_of("first"))
        await lab.add(small_pod("second"))
        await lab.wait_until(lambda: lab.events()["FailedScheduling"])
        await lab.add(small_node("c"))
        await lab.wait_until(lambda: lab.events()["Scheduled"] == 2)


def test_nothing_is_reported_about_a_scheduler_that_is_right() -> None:
    run_in_lab(fill_a_node)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("bug", WRONG, ids=lambda bug: bug.name)
def test_a_wrong_field_is_reported(bug: PlantedBug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    with pytest.raises((ExceptionGroup, InvariantBroken)):
        run_in_lab(fill_a_node)
