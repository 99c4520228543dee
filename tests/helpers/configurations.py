"""Configurations for tests that are not about preemption."""

from __future__ import annotations

from mooring.config import loads

HEAD = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
"""

#: kube-scheduler's plugins without PostFilter: messages end with the reasons of filters.
NO_POST_FILTER = loads(HEAD + "    postFilter: {disabled: [{name: '*'}]}\n")

#: Only the mandatory plugins and NodeResourcesFit.
FEW_PLUGINS = loads(
    HEAD
    + """    multiPoint:
      disabled: [{name: '*'}]
      enabled: [{name: PrioritySort}, {name: NodeResourcesFit}, {name: DefaultBinder}]
"""
)

#: The text that kube-scheduler adds if no node is a preemption candidate.
NO_CANDIDATES = "no new claims to deallocate, preemption: 0/{n} nodes are available: {n} {why}."
NO_HELP = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"


def in_vain(n: int, why: str = NO_HELP) -> str:
    """Returns the end of a message if no node is a candidate, for the same reason."""
    return NO_CANDIDATES.format(n=n, why=why)
