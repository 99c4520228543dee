"""Configurations for tests that are about something else than preemption."""

from __future__ import annotations

from mooring.config import loads

HEAD = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
"""

#: kube-scheduler's plugins, and nobody who makes room: messages end with what filters say.
NO_POST_FILTER = loads(HEAD + "    postFilter: {disabled: [{name: '*'}]}\n")

#: Only what there must be, and NodeResourcesFit.
FEW_PLUGINS = loads(
    HEAD
    + """    multiPoint:
      disabled: [{name: '*'}]
      enabled: [{name: PrioritySort}, {name: NodeResourcesFit}, {name: DefaultBinder}]
"""
)

#: What kube-scheduler adds where eviction helps nowhere.
IN_VAIN = "no new claims to deallocate, preemption: 0/{n} nodes are available: {n} {why}."
NO_HELP = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"


def in_vain(n: int, why: str = NO_HELP) -> str:
    """The end of a message if all ``n`` nodes are no candidates for the same reason."""
    return IN_VAIN.format(n=n, why=why)
