"""The least number of each fault, user action and path in the runs of ``test_seeds``.

About a third of what was counted when the number was set: a path that falls silent, because its
draw or its counter broke, fails the test; chance alone does not.
"""

from __future__ import annotations

from typing import Final

LEAST: Final = {
    # Faults of the network.
    "fault broken_pods": 4,
    "fault conflict": 10,
    "fault cut": 40,
    "fault expired": 50,
    "fault expired page": 2,
    "fault lag": 100,
    "fault lost": 80,
    "fault refused_status": 20,
    "fault repeated": 60,
    "fault restarts": 8,
    "fault server_error": 200,
    "fault silent": 2,
    "fault slow": 80,
    "fault too_many": 60,
    "fault unreachable": 200,
    # What users do.
    "user add_node": 15,
    "user bind_pod": 15,
    "user change_priority": 20,
    "user clear_node": 40,
    "user cordon_node": 15,
    "user create_pod": 100,
    "user delete_node": 15,
    "user delete_pod": 60,
    "user finish_pod": 30,
    "user grow_node": 20,
    "user relabel_node": 15,
    "user relabel_pod": 25,
    "user replace_pod": 50,
    "user return_node": 6,
    "user shrink_node": 20,
    "user taint_node": 20,
    "user tolerate_taint": 12,
    "user ungate_pod": 25,
    # Plugins of the harness.
    "Ledger allow": 100,
    "Ledger expire": 100,
    "Ledger fail": 50,
    "Ledger prepare": 80,
    "Ledger reject": 60,
    "Ledger reject_in_reserve": 60,
    "SecondPermit allow": 8,
    "SecondPermit expire": 30,
    "SecondPermit reject": 60,
    "raises Filter": 8,
    "raises Permit": 4,
    "raises PostBind": 2,
    "raises PreBind": 6,
    "raises PreFilter": 7,
    "raises Reserve": 2,
    "raises Score": 3,
    # Paths of the scheduler.
    "Permit allowed": 40,
    "Permit of two plugins": 2,
    "Permit waits": 200,
    "bound": 300,
    "budget respected": 4,
    "budget used": 2,
    "budget violated": 1,
    "deletion missed by a watch": 12,
    "eviction": 6,
    "failed as Permit expired": 30,
    "failed as no node fits": 800,
    "failed as rejected": 100,
    "failed with Conflict": 4,
    "failed with NotFound": 5,
    "failed with PluginError": 100,
    # Nearly all of a few pods whose bindings get 500: in other 36 seeds these were 170, here 29.
    "failed with ServerError": 10,
    "failed with Unreachable": 30,
    "gate opened": 25,
    "nomination cleared": 300,
    "nomination set": 300,
    "preemption": 8,
    "queue active": 800,
    "queue backoff": 1000,
    "queue gated": 40,
    "queue in flight": 1500,
    "queue unschedulable": 1000,
    "relist": 40,
    # Comparisons with the reference.
    "unschedulable pod compared": 20000,
}


def too_rare(paths: dict[str, int]) -> dict[str, tuple[int, int]]:
    """Returns the paths that occurred too rarely, with their number and the least one."""
    return {
        name: (paths.get(name, 0), least)
        for name, least in LEAST.items()
        if paths.get(name, 0) < least
    }
