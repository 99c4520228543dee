"""The head of a simulation's recording, and facts about a run."""

from __future__ import annotations

import resource
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from mooring.objects.codec.decode import to_builtins
from mooring.objects.node import Node
from mooring.recordings.format import FORMAT, Document, Recording
from mooring.simulation.cluster import Cluster
from mooring.simulation.workload import Workload

if TYPE_CHECKING:
    pass

#: The family of recordings of simulations.
FAMILY: Final = "simulate"


def recording_header(
    workload: Workload,
    *,
    upstream: str,
    seed: int,
    node_order: Sequence[str],
    config: Document | None,
) -> Recording:
    """Returns a simulation's recording before its first step; pending pods follow as steps."""
    return Recording(
        format=FORMAT,
        name=workload.name,
        family=FAMILY,
        seed=seed,
        upstream=upstream,
        config=config,
        node_order=tuple(node_order),
        objects=tuple(to_builtins(obj) for obj in workload.objects),
        steps=(),
    )


def node_order(workload: Workload) -> list[str]:
    """Returns the names of the nodes in the order in which a scheduler visits them."""
    nodes = Cluster(obj for obj in workload.objects if isinstance(obj, Node)).nodes
    return [nodes.names[row] for row in nodes.order.rows()]


def peak_rss_bytes() -> int:
    """Returns the peak resident memory of this process."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
